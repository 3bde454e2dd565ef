"""Digests of what a gate dropped, from Spark's observed metrics: no second job.

COUNT, MAX, MIN, SUM, MEAN, VARIANCE and DISTINCT (of texts, whole numbers, truth values
and times) are aggregates beside the gate's counts. Other digests, and all digests by
group, are made in the Arrow function; see `policy_task`. Either way the content is that
of `headgate.reduction`, so digests of batches, queries and hosts merge.

Guarantees: every dropped row is counted. Not guaranteed: sums and variances of the
aggregates to the last digit, since Spark adds doubles partition by partition in an order
of its own; the Arrow function adds exactly.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BooleanType,
    DateType,
    FractionalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from headgate.reduction import Digest, DigestKind, DigestPlan
from headgate.reduction.digest_contract import LONGEST_KEY
from headgate.reduction.digests.count import Count
from headgate.reduction.digests.distinct import Distinct
from headgate.reduction.digests.maximum import Maximum
from headgate.reduction.digests.mean import Mean
from headgate.reduction.digests.minimum import Minimum
from headgate.reduction.digests.total import Total
from headgate.reduction.digests.variance import Variance
from headgate.reduction.exact_sum import SQUARE_UNIT, UNIT, exact_sum
from headgate.reduction.grouping import NO_GROUP
from headgate.reduction.sketch_bytes import bytes_to_json
from headgate.reduction.summary import GroupDigest
from headgate.spark.policies.policy_columns import RowColumns, finite, micros_of

__all__ = ["DigestMetrics", "digest_from_metrics", "digest_metrics"]

_SKETCH_SIZE = 10  # as DISTINCT in memory: 2^10 hashes
Found = Mapping[str, Any]


@dataclass(frozen=True)
class DigestMetrics:
    """Aggregates over the rows that go, and the columns that they look at.

    The columns are part of the generated code. Within the aggregates, which are not, the same
    expressions would cost every row several times as much.
    """

    aggregates: Sequence[Column]
    columns: Mapping[str, Column]


class _Gone:
    """What the aggregates look at: a value where the row goes, nothing where it stays."""

    def __init__(self, row: RowColumns, gone: Column) -> None:
        self.row, self._gone = row, gone
        self.columns: dict[str, Column] = {}
        self._names: dict[tuple[str, str | None], str] = {}

    def number(self, attribute: str | None) -> Column:
        number = self.row.number(attribute)
        if number is None:
            number = F.lit(None).cast("double")
        elif isinstance(self.row.kind(attribute), FractionalType):
            number = finite(number)
        return self._column("number", attribute, number)

    def key(self, attribute: str | None) -> Column | None:
        key = _key_text(attribute, self.row)
        return None if key is None else self._column("key", attribute, key)

    def _column(self, kind: str, attribute: str | None, value: Column) -> Column:
        name = self._names.setdefault((kind, attribute), f"__headgate_gone_{len(self._names)}")
        self.columns[name] = F.when(self._gone, value)
        return F.col(name)


def digest_metrics(plan: DigestPlan, row: RowColumns, gone: Column) -> DigestMetrics | None:
    """Aggregates over the rows where `gone` is true; None if Spark cannot observe one of them."""
    if plan.group is not None:
        return None
    aggregates: list[Column] = []
    rows = _Gone(row, gone)
    for place, kind in enumerate(plan.kinds):
        parts = _metrics(kind, rows)
        if parts is None:
            return None
        aggregates += [column.alias(f"digest_{place}_{name}") for name, column in parts.items()]
    return DigestMetrics(aggregates, rows.columns)


def digest_from_metrics(plan: DigestPlan, dropped: int, metrics: Mapping[str, Any]) -> Digest:
    """The digest of a batch; ValueError when the metrics are not those of the plan."""
    if not dropped:
        return Digest(plan)
    contents = []
    for place, kind in enumerate(plan.kinds):
        begin = f"digest_{place}_"
        found = {k[len(begin) :]: v for k, v in metrics.items() if k.startswith(begin)}
        contents.append(_content(kind, dropped, found))
    return Digest(plan, {NO_GROUP: GroupDigest(dropped, tuple(contents))})


@singledispatch
def _metrics(kind: DigestKind, rows: _Gone) -> dict[str, Column] | None:
    del kind, rows
    return None


@_metrics.register
def _(kind: Count, rows: _Gone) -> dict[str, Column]:
    del kind, rows
    return {}  # the gate counts what it drops


@_metrics.register
def _(kind: Maximum, rows: _Gone) -> dict[str, Column]:
    return {"max": F.max(rows.number(kind.attribute))}


@_metrics.register
def _(kind: Minimum, rows: _Gone) -> dict[str, Column]:
    return {"min": F.min(rows.number(kind.attribute))}


@_metrics.register(Total)
@_metrics.register(Mean)
def _(kind: DigestKind, rows: _Gone) -> dict[str, Column]:
    numbers = rows.number(kind.attribute)
    return {"count": F.count(numbers), "sum": F.sum(numbers)}


@_metrics.register
def _(kind: Variance, rows: _Gone) -> dict[str, Column]:
    numbers = rows.number(kind.attribute)
    return {"count": F.count(numbers), "mean": F.avg(numbers), "variance": F.var_pop(numbers)}


@_metrics.register
def _(kind: Distinct, rows: _Gone) -> dict[str, Column] | None:
    key = rows.key(kind.attribute)
    if key is None:
        return None
    sketch = F.theta_sketch_agg(key, F.lit(_SKETCH_SIZE))
    return {"sketch": F.base64(sketch)}


def _key_text(name: str | None, row: RowColumns) -> Column | None:
    """`values.key_of` as a column; None for kinds whose text Spark writes differently."""
    kind, column = row.kind(name), row.column(name)
    if isinstance(kind, IntegralType):
        return F.concat(F.lit("i:"), column.cast("string"))
    if isinstance(kind, BooleanType):
        return F.concat(F.lit("b:"), column.cast("string"))
    if isinstance(kind, TimestampType | TimestampNTZType | DateType):
        micros = micros_of(column, kind)
        return None if micros is None else F.concat(F.lit("d:"), micros.cast("string"))
    if not isinstance(kind, StringType):
        return None
    key = F.concat(F.lit("t:"), column)
    ending = F.lpad(F.lower(F.hex(F.xxhash64(key))), 16, "0")
    short = F.concat(F.substring(key, 1, LONGEST_KEY), F.lit("...#"), ending)
    return F.when(F.length(key) <= LONGEST_KEY, key).otherwise(short)


@singledispatch
def _content(kind: DigestKind, dropped: int, found: Found) -> Any:
    del dropped, found
    raise ValueError(f"{kind.title} is not observed by Spark")


@_content.register
def _(kind: Count, dropped: int, found: Found) -> int:
    del kind, found
    return dropped


@_content.register
def _(kind: Maximum, dropped: int, found: Found) -> float | None:
    del kind, dropped
    return _bounded(found.get("max"))


@_content.register
def _(kind: Minimum, dropped: int, found: Found) -> float | None:
    del kind, dropped
    return _bounded(found.get("min"))


@_content.register(Total)
@_content.register(Mean)
def _(kind: DigestKind, dropped: int, found: Found) -> tuple[int, int]:
    del kind, dropped
    return int(found["count"]), exact_sum(np.array([_bounded(found.get("sum")) or 0.0]))


@_content.register
def _(kind: Variance, dropped: int, found: Found) -> tuple[int, int, int]:
    del kind, dropped
    count = int(found["count"])
    mean = Fraction(_bounded(found.get("mean")) or 0.0)
    squares = Fraction(_bounded(found.get("variance")) or 0.0) + mean * mean
    return count, round(mean * count * (1 << UNIT)), round(squares * count * (1 << SQUARE_UNIT))


@_content.register
def _(kind: Distinct, dropped: int, found: Found) -> bytes:
    del dropped
    text = found.get("sketch")
    if not text:
        return kind.nothing()
    content: bytes = kind.from_json(bytes_to_json(base64.b64decode(text)))
    return content


def _bounded(value: Any) -> float | None:
    """A finite double: a sum that went beyond the largest one counts as that."""
    if value is None or isinstance(value, str):  # JSON has no infinity, Spark writes a text
        return None if value is None else _largest(value)
    return min(max(float(value), -sys.float_info.max), sys.float_info.max)


def _largest(text: str) -> float | None:
    signs: dict[str, Callable[[float], float]] = {"Infinity": float, "-Infinity": lambda x: -x}
    return signs[text](sys.float_info.max) if text in signs else None
