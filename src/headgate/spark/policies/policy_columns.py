"""Filters of a policy as Spark columns: the third form beside `judge_events` and `judge_columns`.

A verdict is a boolean column: true for selected, false for not selected, null for rows
that the filter cannot judge. It is part of Spark's generated code. `verdict` answers
None for a filter that has no such form (all that look at other rows, and any new filter
until somebody writes one); such a filter runs in the Arrow function instead.

Guarantees: the same verdict as the in-memory filter on the same value; no exception
leaves a verdict, also not under ANSI rules (SPARK_SQL is wrapped in Spark's `TryEval`).
Not native: regular expressions that are more than a fixed text. Spark's are Java's,
which can take exponential time, so they run as RE2 on Arrow, over that column only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import UsageError
from headgate.reduction import Filter, Kind
from headgate.reduction.comparing import ComparisonFilter
from headgate.reduction.filters.contain import Contain
from headgate.reduction.filters.inset import Inset
from headgate.reduction.filters.match import Match
from headgate.reduction.filters.older_than import OlderThan
from headgate.reduction.filters.random import Random
from headgate.reduction.filters.sample_per_key import SamplePerKey
from headgate.reduction.filters.spark_sql import SparkSql
from headgate.reduction.filters.subset import Subset
from headgate.reduction.filters.supset import Supset
from headgate.reduction.filters.within import Within
from headgate.reduction.hashing import PARTS
from headgate.reduction.values import Scalar
from headgate.spark.plans.live_array import jvm_of

__all__ = [
    "RowColumns",
    "check_predicate",
    "finite",
    "hash_of",
    "key_of",
    "kinds_of",
    "micros_of",
    "verdict",
]

_FIXED_TEXT = re.compile(r"\^?[A-Za-z0-9 _,:;/@#%&=<>\"'~!-]+")
_MICROSECONDS_A_DAY = 86_400_000_000
_EXACT_BELOW = 2.0**53


@dataclass(frozen=True)
class RowColumns:
    """What verdicts are made of.

    types:    the columns of the stream.
    salt:     of the batch's decision; RANDOM mixes it in.
    now:      the present in seconds, from the decision; OLDER_THAN compares with it.
    identity: the column whose hash RANDOM takes where the policy names none.
    """

    types: Mapping[str, DataType]
    salt: Column
    now: Column
    identity: str

    def kind(self, name: str | None) -> DataType | None:
        return self.types.get(name or "")

    def column(self, name: str | None) -> Column:
        return F.col("`" + (name or "").replace("`", "``") + "`")

    def number(self, name: str | None) -> Column | None:
        """The column as a double; null for what is no number."""
        kind = self.kind(name)
        return None if kind is None else _number(self.column(name), kind)

    def text(self, name: str | None) -> Column | None:
        return self.column(name) if isinstance(self.kind(name), StringType) else None

    def boolean(self, name: str | None) -> Column | None:
        return self.column(name) if isinstance(self.kind(name), BooleanType) else None

    def like(
        self, name: str | None, references: Sequence[Scalar]
    ) -> tuple[Column | None, list[Scalar]]:
        """The column, if it can be compared with the references, and these as what it is.

        Whole numbers are compared as such where that makes no difference: Spark's comparison of
        two doubles is much code.
        """
        first = references[0]
        if isinstance(first, bool | str):
            column = self.boolean(name) if isinstance(first, bool) else self.text(name)
            return column, list(references)
        if isinstance(self.kind(name), IntegralType) and all(map(_is_small_whole, references)):
            return self.column(name).cast("bigint"), [int(value) for value in references]
        return self.number(name), [float(value) for value in references]


def kinds_of(schema: StructType) -> dict[str, frozenset[Kind]]:
    """What a policy may do with each column."""
    return {field.name: frozenset(_kinds(field.dataType)) for field in schema.fields}


@singledispatch
def verdict(filter_: Filter, row: RowColumns) -> Column | None:
    """The filter's verdict on each row, or None if it has no form in columns."""
    del filter_, row
    return None


@verdict.register
def _(filter_: ComparisonFilter, row: RowColumns) -> Column:
    column, [value] = row.like(filter_.attribute, [filter_.value])
    return _odd() if column is None else filter_.compare(column, F.lit(value))


@verdict.register
def _(filter_: Within, row: RowColumns) -> Column:
    number, [low, high] = row.like(filter_.attribute, [filter_.low, filter_.high])
    return _odd() if number is None else (number >= low) & (number <= high)


@verdict.register
def _(filter_: Inset, row: RowColumns) -> Column:
    column, values = row.like(filter_.attribute, filter_.values)
    return _odd() if column is None else column.isin(values)


@verdict.register
def _(filter_: Match, row: RowColumns) -> Column:
    text = row.text(filter_.attribute)
    if text is None:
        return _odd()
    if not _FIXED_TEXT.fullmatch(filter_.pattern):
        return _matcher(filter_.pattern)(text)
    if filter_.pattern.startswith("^"):
        return text.startswith(filter_.pattern[1:])
    return text.contains(filter_.pattern)


@verdict.register
def _(filter_: Contain, row: RowColumns) -> Column:
    kind, column = row.kind(filter_.attribute), row.column(filter_.attribute)
    if isinstance(kind, ArrayType):
        return _all_of((filter_.value,), column, kind.elementType)
    if isinstance(kind, StringType) and isinstance(filter_.value, str):
        return column.contains(filter_.value)
    return _odd()


@verdict.register
def _(filter_: Supset, row: RowColumns) -> Column:
    kind = row.kind(filter_.attribute)
    if not isinstance(kind, ArrayType):
        return _odd()
    return _all_of(filter_.values, row.column(filter_.attribute), kind.elementType)


@verdict.register
def _(filter_: Subset, row: RowColumns) -> Column:
    kind, column = row.kind(filter_.attribute), row.column(filter_.attribute)
    if not isinstance(kind, ArrayType):
        return _odd()
    read, members = _members(filter_.values, kind.elementType)
    if not members:
        return F.when(column.isNotNull(), F.size(column) == 0)

    def inside(x: Column) -> Column:
        return F.coalesce(read(x).isin(members), F.lit(False))

    return F.forall(column, inside)


@verdict.register
def _(filter_: Random, row: RowColumns) -> Column:
    seed = F.lit(filter_.seed or 0).cast("bigint")
    salt = F.xxhash64(seed, row.salt.cast("bigint"))
    return _fate_below(hash_of(row, filter_.identity or row.identity), salt, filter_.fraction)


@verdict.register
def _(filter_: SamplePerKey, row: RowColumns) -> Column:
    seed = F.lit(filter_.seed).cast("bigint")
    return _fate_below(hash_of(row, filter_.group), seed, filter_.fraction)


@verdict.register
def _(filter_: OlderThan, row: RowColumns) -> Column:
    time = row.number(filter_.time)
    return _odd() if time is None else row.now - finite(time) > filter_.age


@verdict.register
def _(filter_: SparkSql, row: RowColumns) -> Column:
    del row
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.column import Column as ClassicColumn

    session = SparkSession.getActiveSession()
    assert session is not None
    jvm = jvm_of(session)
    predicate: Any = F.expr(filter_.predicate)
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # An exception for one odd row (a division by zero under ANSI rules) becomes null.
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(bridge.expression(predicate._jc))
    return ClassicColumn(bridge.column(tried))  # type: ignore[no-any-return, no-untyped-call, unused-ignore]


def check_predicate(frame: DataFrame, filter_: SparkSql, where: str) -> None:
    """UsageError for a predicate that Spark cannot use, or that would not replay alike."""
    shown = f"{where}: the predicate {filter_.predicate[:80]!r}"
    try:
        probe = frame.select(F.expr(filter_.predicate).alias("answer"))
        kind = probe.schema.fields[0].dataType
        plan: Any = probe._jdf.queryExecution().analyzed()
    except PySparkException as error:
        reason = str(error).splitlines()[0][:300]
        raise UsageError(f"{shown} cannot be used: {reason}") from None
    if not isinstance(kind, BooleanType):
        raise UsageError(f"{shown} is {kind.simpleString()}; expected true or false")
    if plan.nodeName() != "Project" or not plan.projectList().apply(0).deterministic():
        raise UsageError(
            f"{shown} does not depend on the row alone; leave out aggregates, rand() and the like"
        )


def hash_of(row: RowColumns, name: str | None) -> Column:
    """The hash of `headgate.reduction.hashing`: of the value, not of its width on Spark."""
    kind, column = row.kind(name), row.column(name)
    known: Column
    if isinstance(kind, IntegralType):
        known = column.cast("bigint")
    elif isinstance(kind, StringType | BooleanType):
        known = column
    elif isinstance(kind, FractionalType):
        number = _number(column, kind)
        assert number is not None
        known = number + F.lit(0.0)  # -0.0 is 0.0
    elif (micros := micros_of(column, kind)) is not None:
        known = micros
    else:
        return F.lit(None).cast("bigint")
    return F.when(known.isNotNull(), F.xxhash64(known))


def key_of(row: RowColumns, name: str) -> Column:
    """Equal for values that are the same key in memory; for cutting a batch by key."""
    kind, column = row.kind(name), row.column(name)
    if isinstance(kind, FractionalType):
        number = _number(column, kind)
        assert number is not None
        return number + F.lit(0.0)
    return column


def finite(number: Column) -> Column:
    """The number where it is finite, else null."""
    return F.when(F.abs(number) < F.lit(float("inf")), number)


def _odd() -> Column:
    return F.lit(None).cast("boolean")


def _is_small_whole(value: Scalar) -> bool:
    """A whole number that no other one is rounded to when it becomes a double."""
    return abs(float(value)) < _EXACT_BELOW and float(value).is_integer()


def _number(column: Column, kind: DataType) -> Column | None:
    if isinstance(kind, FractionalType) and not isinstance(kind, DecimalType):
        double = column.cast("double")
        return F.when(~F.isnan(double), double)
    if isinstance(kind, NumericType):
        return column.cast("double")
    micros = micros_of(column, kind)
    return None if micros is None else micros.cast("double") / F.lit(1e6)


def micros_of(column: Column, kind: DataType | None) -> Column | None:
    """Microseconds since 1970 of a time; without a zone it counts as UTC. Null beyond 64 bits."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.try_multiply(F.unix_date(column).cast("bigint"), F.lit(_MICROSECONDS_A_DAY))
    if isinstance(kind, TimestampNTZType):
        return F.unix_micros(F.concat(column.cast("string"), F.lit("Z")).try_cast("timestamp"))
    return None


def _fate_below(hashed: Column, salt: Column, fraction: float) -> Column:
    fate = F.pmod(F.xxhash64(hashed, salt), F.lit(PARTS))
    return F.when(hashed.isNotNull(), fate < F.lit(fraction * PARTS))


def _members(
    values: Sequence[Scalar], kind: DataType
) -> tuple[Callable[[Column], Column], list[Scalar]]:
    """How an element is read, and those of `values` that an element of that kind can be."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if isinstance(kind, StringType):
        return (lambda x: x), [v for v in values if isinstance(v, str)]
    if isinstance(kind, BooleanType):
        return (lambda x: x), [v for v in values if isinstance(v, bool)]
    if isinstance(kind, IntegralType):
        whole = [int(v) for v in numbers if float(v).is_integer() and -(2**63) <= v < 2**63]
        return (lambda x: x.cast("bigint")), list(whole)
    if isinstance(kind, FractionalType):
        return (lambda x: x.cast("double")), [float(v) for v in numbers]
    return (lambda x: x), []


def _all_of(values: Sequence[Scalar], column: Column, kind: DataType) -> Column:
    """Does the set have every one of `values`? Null for no set."""
    found = F.lit(True)
    for value in values:
        read, members = _members((value,), kind)
        if not members:
            return F.when(column.isNotNull(), F.lit(False))
        found = found & F.exists(column, _equals(read, members[0]))
    return F.when(column.isNotNull(), found)


def _equals(read: Callable[[Column], Column], member: Scalar) -> Callable[[Column], Column]:
    return lambda x: F.coalesce(read(x) == F.lit(member), F.lit(False))


def _matcher(pattern: str) -> Callable[[Column], Column]:
    def match(texts: pa.Array) -> pa.Array:
        return pc.match_substring_regex(texts, pattern)

    functions: Any = F  # `arrow_udf` is missing in PySpark's stubs
    udf: Callable[[Column], Column] = functions.arrow_udf(match, returnType="boolean")
    return udf


def _kinds(kind: DataType) -> set[Kind]:
    if isinstance(kind, StringType):
        return {Kind.TEXT}
    if isinstance(kind, BooleanType):
        return {Kind.BOOLEAN}
    if isinstance(kind, TimestampType | TimestampNTZType | DateType):
        return {Kind.TIME}
    if isinstance(kind, NumericType):
        return {Kind.NUMBER}
    return {Kind.SET} if isinstance(kind, ArrayType) else set()
