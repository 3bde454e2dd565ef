"""Operators that do nothing but take their time: stand-ins for code that is not there yet.

A stand-in keeps a core for the described cost of every tuple and passes on the described share
of them, chosen by a hash. It waits rather than computes: Spark's task is as busy as with real
work, the machine is not.

Guarantees: the mean cost over many tuples is the described one, but for what a sleep of at least
5 ms takes too long. Not guaranteed: the cost of a single tuple. One tuple in so many sleeps for
all of them, so a batch can take some sleeps more or less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headgate.network import Operator, OperatorKind, Statistics
from headgate.spark.gates.row_columns import quoted

__all__ = ["stand_in", "waiting", "waits"]

_COPY = "__headgate_copy"
_SHORTEST_WAIT_SECONDS = 0.005
_MILLION = 1_000_000


def stand_in(operator: Operator, inputs: Sequence[DataFrame], statistics: Statistics) -> DataFrame:
    """What the described operator would let through, after the time that it would take."""
    gains: Sequence[float] = statistics.gains(operator)
    if operator.kind is OperatorKind.MAP and operator.selectivity is None:
        gains = (1.0,)
    passed = [
        _passed(waiting(frame, operator.cost_seconds or 0.0, operator.name), gain, operator.name)
        for frame, gain in zip(inputs, gains, strict=True)
    ]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), passed)


def waits(cost_seconds: float) -> tuple[int, int]:
    """One tuple in so many waits for so many milliseconds.

    >>> waits(0.001), waits(0.02), waits(0.00003)
    ((5, 5), (1, 20), (167, 5))
    """
    if cost_seconds <= 0.0:
        return 1, 0
    one_in = max(1, round(_SHORTEST_WAIT_SECONDS / cost_seconds))
    return one_in, max(1, round(1000.0 * one_in * cost_seconds))


def waiting(frame: DataFrame, cost_seconds: float, name: str) -> DataFrame:
    """The same rows; each took `cost_seconds` of a core, on average."""
    one_in, milliseconds = waits(cost_seconds)
    if milliseconds == 0:
        return frame
    sleep = F.expr(f"reflect('java.lang.Thread', 'sleep', {milliseconds}L)")
    chosen = F.pmod(_hashed(frame, f"{name} waits"), F.lit(one_in)) == 0
    return frame.where(F.when(chosen, sleep).otherwise(F.lit("")).isNotNull())


def _passed(frame: DataFrame, gain: float, name: str) -> DataFrame:
    """So many tuples for each, with the whole ones certain and the rest by a hash."""
    whole = math.floor(gain)
    rest = F.pmod(_hashed(frame, f"{name} passes"), F.lit(_MILLION)) < round(
        (gain - whole) * _MILLION
    )
    if gain == whole == 1:
        return frame
    if whole == 0:
        return frame.where(rest)
    copies = F.array_repeat(F.lit(0), F.lit(whole) + rest.cast("int"))
    return frame.withColumn(_COPY, F.explode(copies)).drop(_COPY)


def _hashed(frame: DataFrame, salt: str) -> Column:
    return F.xxhash64(*(F.col(quoted(name)) for name in frame.columns), F.lit(salt))
