"""Count rows inside Spark's generated code: what `DataFrame.observe` gives, for a quarter of it.

Observing splits the generated code in two, writes every row into bytes in between, and updates
its numbers in code of its own. Here the numbers are accumulators of Spark that a column adds to
on the way:

    count, sum and avg    one `LongAccumulator` or `DoubleAccumulator` for each column
    min and max           one `StatCounter` for each column and task, which gets the numbers beyond
                          those that it has. It hands itself over to a `CollectionAccumulator`
                          with its first number and goes to the driver with the task
    quantiles             the column in every n-th kept row, in a `CollectionAccumulator`; n
                          follows the size of the batches, so that some hundred are looked at

Null is passed over, as aggregates do. The driver reads the numbers between two batches (`take`).

Guarantees: those of observed metrics. Each task adds to copies of its own; Spark adds up the
tasks that ended well, once each, before the job ends. `offered` is the sum of kept and dropped,
also when somebody reads too early. Not guaranteed: that numbers of two batches are told apart
when nobody took those of the first before tasks of the second ended; their sum stays right.
Rows that Spark computes more than once in a batch count once; see `counting_passes`.

Works on internal classes of Spark 4, in classic sessions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headgate.spark.gates.gate_metrics import ARRIVAL_QUANTILES
from headgate.spark.plans.counting_code import CountingCode, items_of
from headgate.spark.plans.counting_passes import (
    Numbers,
    Seen,
    counted_once,
    keys_in,
)
from headgate.spark.plans.live_array import LiveArray

__all__ = ["RowCounts"]

_COUNTED_COLUMN = "__headgate_counted"
_MIDDLE = 1.8e9
"""Averages are taken of distances from this, in the range of times in seconds since 1970: a sum
of ten million such times would lose its milliseconds."""
_LARGEST_SUM = 1e12
"""Of distances that may stand in an accumulator before it is cleared: it is right to 0.1 ms."""
_SAMPLES = 128
"""So many of a batch, to twice as many, are looked at for quantiles if it is as large as the one
before. An answer of the JVM of more than 8 KiB takes 40 ms: it comes in two packets, and the
second waits until the first is acknowledged."""
_FEWEST_SAMPLES = 32
_MOST_SAMPLES = 4096
"""Of a task, if its batch is much larger than the one before."""
_FIRST_STRIDE = 64
_LONGEST_STRIDE = 1 << 30
_MILLISECOND = 1e-3
_NEVER = (1 << 62) - 1
_TRIES = 3
_SUMS = ("LongAccumulator", "DoubleAccumulator")
_MOST_PASSES = 256
"""What came with them is cleared then; each is about a kilobyte."""
_HAND_OVER = 1
"""With so many rows the numbers of a task are handed over; with 0 never."""


class RowCounts:
    """The aggregates of one `CollectMetrics` node, by their names, counted in a column instead.

    Those named `offered` and `kept` are the numbers of rows for which the column is made and of
    those that are kept. The one named `quantiles` is of the column `sampled`. Least and largest
    of the columns in `times` are seconds and right to a millisecond: in a stream that is in
    order every row would be the largest so far.

    made_of: expressions of columns by their ids. One that is a value under a condition and else
    null is not computed: the value is added where the condition holds, in the branch of the rows
    that stay or go if it is that.
    inlined: expressions, by the ids of columns, that stand for these columns in what is built.
    """

    def __init__(
        self,
        spark: SparkSession,
        metrics: Sequence[Any],
        quantiles: str = "",
        sampled: Any = None,
        times: Collection[str] = (),
        made_of: Mapping[int, Any] | None = None,
        inlined: Mapping[int, Any] | None = None,
    ) -> None:
        """ValueError for an aggregate that cannot be counted like this."""
        self._code = CountingCode(spark)
        self._times = times
        self._read: list[tuple[str, int, Callable[[Any], Any]]] = []
        self._accumulators: list[Any] = []
        self._kinds: list[str] = []
        self._whole: set[int] = set()
        self._of_times: set[int] = set()
        self._taken: dict[int, tuple[float, int]] = {}
        self._adding: list[tuple[Any, Any]] = []  # condition or None, what is added then
        self._places: dict[tuple[str, int], int] = {}
        self._made_of = made_of or {}
        self._inlined = inlined or {}
        self._dropped = self._accumulator("LongAccumulator")
        self._kept = self._accumulator("LongAccumulator")
        self._list = self._accumulator("CollectionAccumulator")
        self._seen = self._code.accumulator("CollectionAccumulator")
        self._seen_passes = 0
        self._sampled: Any = None
        self._orders = LiveArray(spark, (_FIRST_STRIDE - 1, _HAND_OVER))
        self._wanted = _kinds_by_column(metrics)
        for metric in metrics:
            name = str(metric.name())
            if name == quantiles and sampled is not None:
                self._sampled = self._inline(self._parts(sampled)[1])
                self._looked_at = self._accumulator("LongAccumulator")
                self._read.append((name, self._list, _quantiles))
            elif name not in ("offered", "kept"):
                self._add(name, metric)
        self._sums = [at for at, kind in enumerate(self._kinds) if kind in _SUMS]
        sums = [self._accumulators[place] for place in self._sums]
        keys = self._accumulators[self._list]
        self._begins = self._code.pass_begins(keys, self._seen, sums, self._orders)
        self._shown = self._code.list_of(self._accumulators)
        self._json = self._code.field_writer()

    def column(self, kept: Any) -> Any:
        """A column that counts a row and says whether it is kept; for a projection."""
        return self._code.named(self.condition(kept), _COUNTED_COLUMN)

    def condition(self, kept: Any) -> Any:
        """The same without a name; for a filter."""
        code, counters = self._code, self._accumulators
        stays = [code.add(counters[self._kept], code.long_one)]
        goes = [code.add(counters[self._dropped], code.long_one)]
        always: dict[str, tuple[Any, list[Any]]] = {}
        for condition, adds in self._adding:
            if condition is not None and condition.semanticEquals(kept):
                stays.append(adds)
            elif condition is not None and condition.semanticEquals(code.no(kept)):
                goes.append(adds)
            else:
                always.setdefault(str(condition), (condition, []))[1].append(adds)
        if self._sampled is not None:
            look = code.both(
                code.add(counters[self._list], code.minus(code.known(self._sampled), _MIDDLE)),
                code.add(counters[self._looked_at], code.long_one),
            )
            in_turn = code.both(
                code.in_turn(counters[self._kept], self._orders),
                code.fewer(counters[self._looked_at], _MOST_SAMPLES),
            )
            wanted = code.both(in_turn, code.is_known(self._sampled))
            stays.append(code.either(wanted, look, code.true))
        kept = self._inline(kept)
        passes = code.either(kept, code.all_of(stays), code.no(code.all_of(goes)))
        first = [
            code.under(None if condition is None else self._inline(condition), code.all_of(adds))
            for condition, adds in always.values()
        ]
        return code.all_of([self._begins, *first, passes])

    def take(self) -> dict[str, Any]:
        """What was counted since the last call, as observed metrics would say it.

        Whoever waits for a decision may wait for this: every call to the JVM is 0.3 ms.
        """
        found = self._now()
        for place, numbers in enumerate(found):
            if "_count" in numbers:
                self._since_last(place, numbers)
            elif numbers["_list"]:
                self._accumulators[place].reset()
        self._count_once(found)
        kept, dropped = found[self._kept]["_sum"], found[self._dropped]["_sum"]
        if kept:
            stride = 1 << max(0, (kept // _SAMPLES).bit_length() - 1)
            self._orders.set((min(stride, _LONGEST_STRIDE) - 1, _HAND_OVER))
        counted = {name: of(found[place]) for name, place, of in self._read}
        return {**counted, "offered": kept + dropped, "kept": kept}

    def stop(self) -> None:
        """Nobody will take numbers any more: nothing is collected that would grow."""
        self._orders.set((_NEVER, 0))

    def _now(self) -> list[dict[str, Any]]:
        """The fields of all accumulators."""
        for _ in range(_TRIES - 1):
            with suppress(Py4JJavaError):  # a task ended just now, and a list grew
                return self._fields()
        return self._fields()

    def _fields(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._json.writeValueAsString(self._shown))
        return found

    def _since_last(self, place: int, found: dict[str, Any]) -> None:
        """Whole numbers are never cleared: a task that ends just now could be lost by it."""
        total, count = _number(found["_sum"]), found["_count"]
        stays = place in self._whole or (place in self._of_times and abs(total) < _LARGEST_SUM)
        total_before, count_before = self._taken.get(place, (0, 0))
        found["_sum"], found["_count"] = total - total_before, count - count_before
        if not stays and count:
            self._accumulators[place].reset()
            total, count = 0, 0
        self._taken[place] = total, count

    def _count_once(self, found: list[dict[str, Any]]) -> None:
        """Where Spark has run over a partition more than once, one pass stays in the sums.

        What came with the passes is looked at only then: it is long.
        """
        keys = keys_in(found[self._list]["_list"] or ())
        self._seen_passes += len(keys)
        again = len(set(keys)) < len(keys)
        if again:
            counters = [found[place] for place in self._sums]
            rows = [self._sums.index(place) for place in (self._kept, self._dropped)]
            once = counted_once(keys, self._seen_now(len(keys)), rows, _numbers(counters))
            for counter, (total, count) in zip(counters, once, strict=True):
                counter["_sum"], counter["_count"] = total, count
        if again or self._seen_passes > _MOST_PASSES:
            self._seen.reset()
            self._seen_passes = 0

    def _seen_now(self, last: int) -> list[Seen]:
        """What came with so many passes."""
        [shown] = self._shown_as_json([self._seen])
        items: list[Any] = (shown["_list"] or [])[-last:]
        copies = [self._code.read_copy(item) for item in items if isinstance(item, str)]
        earlier = iter(self._shown_as_json(copies))
        return [
            Seen(_numbers(next(earlier)), False) if isinstance(item, str) else Seen(_numbers(item))
            for item in items
        ]

    def _shown_as_json(self, items: Sequence[Any]) -> list[Any]:
        shown: list[Any] = json.loads(self._json.writeValueAsString(self._code.list_of(items)))
        return shown

    # --- what is added where ------------------------------------------------------------------

    def _add(self, name: str, metric: Any) -> None:
        kind, column = _plain_aggregate(metric)
        type_name = str(column.dataType().typeName())
        if kind in ("Min", "Max") and type_name == "double":
            place = self._spread(column)
            self._read.append((name, place, _least if kind == "Min" else _most))
        elif kind in ("Count", "Sum") and type_name in ("long", "double"):
            long = type_name == "long"
            place = self._sum(column, "LongAccumulator" if long else "DoubleAccumulator")
            self._read.append((name, place, _count if kind == "Count" else _total))
        elif kind == "Average" and type_name == "double":
            place = self._sum(column, "DoubleAccumulator", _MIDDLE)
            self._of_times.add(place)
            self._read.append((name, place, _mean))
        else:
            raise ValueError(f"{name}: no way to count {kind} of {type_name}")

    def _sum(self, column: Any, kind: str, less: float = 0.0) -> int:
        def make(place: int, value: Any) -> Any:
            value = self._code.minus(value, less) if less else value
            return self._code.add(self._accumulators[place], value)

        return self._once(f"{kind} {less}", column, kind, make)

    def _spread(self, column: Any) -> int:
        def make(place: int, value: Any) -> Any:
            beyond = _MILLISECOND if column.name() in self._times else 0.0
            kinds = self._wanted[_id_of(column)]
            return self._code.add_spread(
                self._accumulators[place], value, self._orders, beyond, kinds
            )

        share = not any(what == "spread" for what, _ in self._places)
        return self._once("spread", column, "CollectionAccumulator", make, share)

    def _once(
        self,
        what: str,
        column: Any,
        kind: str,
        make: Callable[[int, Any], Any],
        share: bool = False,
    ) -> int:
        key = what, _id_of(column)
        if key not in self._places:
            place = self._list if share else self._accumulator(kind)
            self._places[key] = place
            condition, value = self._parts(column)
            value = self._inline(value)
            code, adds = self._code, make(place, self._code.known(value))
            if value.nullable():
                adds = code.either(code.is_known(value), adds, code.true)
            self._adding.append((condition, adds))
        return self._places[key]

    def _parts(self, column: Any) -> tuple[Any, Any]:
        """Condition and value of a column that is null without the condition; else None and it."""
        made = self._made_of.get(_id_of(column), column)
        kind = str(made.getClass().getSimpleName())
        if kind == "If" and _is_null(made.falseValue()):
            condition, value = made.predicate(), made.trueValue()
        elif kind == "CaseWhen" and made.branches().size() == 1 and not _has_else(made):
            branch = made.branches().apply(0)
            condition, value = branch._1(), branch._2()
        else:
            return None, column
        # What can be null is asked for that first, so it must be cheap to have twice.
        simple = not value.nullable() or _uncast(value).children().size() == 0
        return (condition, value) if simple else (None, column)

    def _inline(self, expression: Any) -> Any:
        """The expression that stands for a column."""
        is_column = str(expression.getClass().getSimpleName()) == "AttributeReference"
        return self._inlined.get(_id_of(expression), expression) if is_column else expression

    def _accumulator(self, kind: str) -> int:
        place = len(self._accumulators)
        self._accumulators.append(self._code.accumulator(kind))
        self._kinds.append(kind)
        if kind == "LongAccumulator":
            self._whole.add(place)
        return place


def _plain_aggregate(metric: Any) -> tuple[str, Any]:
    """Kind and column of an aggregate of one column without further rules."""
    aggregate = metric.child()
    if aggregate.getClass().getSimpleName() == "AggregateExpression":
        function = aggregate.aggregateFunction()
        children = items_of(function.children())
        plain = not aggregate.isDistinct() and not aggregate.filter().isDefined()
        if plain and [c.getClass().getSimpleName() for c in children] == ["AttributeReference"]:
            return str(function.getClass().getSimpleName()), children[0]
    raise ValueError(f"{metric.name()}: not an aggregate of one column")


def _kinds_by_column(metrics: Sequence[Any]) -> dict[int, set[str]]:
    """The kinds of plain aggregates that are wanted of each column."""
    wanted: dict[int, set[str]] = {}
    for metric in metrics:
        with suppress(ValueError):  # said where it is added
            kind, column = _plain_aggregate(metric)
            wanted.setdefault(_id_of(column), set()).add(kind)
    return wanted


def _is_null(expression: Any) -> bool:
    bare = _uncast(expression)
    return str(bare.getClass().getSimpleName()) == "Literal" and bare.value() is None


def _uncast(expression: Any) -> Any:
    is_cast = str(expression.getClass().getSimpleName()) == "Cast"
    return expression.child() if is_cast else expression


def _has_else(case_when: Any) -> bool:
    otherwise = case_when.elseValue()
    return bool(otherwise.isDefined()) and not _is_null(otherwise.get())


def _id_of(column: Any) -> int:
    return int(column.exprId().id())


def _numbers(counters: Any) -> Numbers:
    return tuple((_number(found["_sum"]), int(found["_count"])) for found in counters)


def _count(found: Any) -> int:
    return int(found["_count"])


def _total(found: Any) -> Any:
    return found["_sum"] if found["_count"] else None


def _mean(found: Any) -> float | None:
    return _MIDDLE + found["_sum"] / found["_count"] if found["_count"] else None


def _least(found: Any) -> float | None:
    return min((_number(task["minValue"]) for task in _tasks(found)), default=None)


def _most(found: Any) -> float | None:
    return max((_number(task["maxValue"]) for task in _tasks(found)), default=None)


def _tasks(found: Any) -> list[Any]:
    return [item for item in found["_list"] or () if isinstance(item, dict)]


def _quantiles(found: Any) -> list[float] | None:
    """None for fewer samples than say something."""
    items = found["_list"] or ()
    samples = np.array([item for item in items if isinstance(item, float)])
    if len(samples) < _FEWEST_SAMPLES:
        return None
    return [_MIDDLE + float(value) for value in np.quantile(samples, ARRIVAL_QUANTILES)]


def _number(found: Any) -> Any:
    """JSON has texts for what is not finite."""
    return float(found) if isinstance(found, str) else found
