"""How many rows a second a query can take: it runs with more waiting than it can do.

Two things make a first look too low. A cold JVM runs at a tenth of its later speed and gets
faster for half a minute. And the fixed cost of a batch, planning, logs and state, weighs
less the longer the batch is, so the answer depends on how long batches are to be.

So batches are small and large in turn. From both follow the fixed cost and the cost of a
row, however warm the machine is by then, and from these what fits into a batch of the
wanted length. If even the large ones are short, the query starts again with larger ones.
It ends when the speed has stopped growing, and not before a given time.

Not guaranteed: that the machine stays as fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from headgate.errors import DemoError
from headgate.spark.agent.progress import parse_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Pair", "Saturation", "SaturationSettings", "is_steady", "measure_saturation"]

_FIRST_LARGE = 4_000
_SMALL = 8  # times fewer rows than a large batch
_LEFT_OUT = 2  # the first batches of a query
_COMPARED = 3  # pairs of batches
_AGREE_WITHIN = 0.05
_TOO_SHORT = 0.5  # of the wanted length
_LEAST_GROWTH, _MOST_GROWTH = 1.5, 6.0
_LOOK_EVERY_SECONDS = 0.1
_GRACE_SECONDS = 90.0  # on a machine that is busy with other things


@dataclass(frozen=True, slots=True)
class SaturationSettings:
    """batch_seconds: how long a batch is to take. It is measured for `least_seconds` or more,
    and for `longest_seconds` at most, longer only if there is no answer yet.
    """

    batch_seconds: float = 2.0
    least_seconds: float = 15.0
    longest_seconds: float = 90.0
    first_rows: int = _FIRST_LARGE


class Pair(NamedTuple):
    """A small batch and the large one after it."""

    small_rows: int
    small_seconds: float
    large_rows: int
    large_seconds: float

    def rows_per_second(self, batch_seconds: float) -> float:
        """What batches of that length can take, or, where half of that is fixed, longer ones.
        Where the small one was no shorter, as if nothing were fixed.

        >>> pair = Pair(100, 0.5, 1100, 1.5)  # 0.4 s are fixed, a row takes 1 ms
        >>> pair.rows_per_second(2.0), pair.rows_per_second(0.3)
        (800.0, 500.0)
        """
        longer = self.large_seconds - self.small_seconds
        row_seconds = longer / (self.large_rows - self.small_rows)
        if row_seconds <= 0.0:
            return self.large_rows / self.large_seconds
        fixed_seconds = max(0.0, self.small_seconds - row_seconds * self.small_rows)
        length = max(batch_seconds, 2.0 * fixed_seconds)
        return (length - fixed_seconds) / row_seconds / length


@dataclass(frozen=True, slots=True)
class Saturation:
    """steady: the last batches were no faster than those before them.
    rates: by pair of batches. rows: of a large batch, where the next measurement may begin.
    """

    rows_per_second: float
    steady: bool
    rows: int
    rates: tuple[float, ...]


def is_steady(rates: Sequence[float]) -> bool:
    """The last three are not faster than the three before them.

    >>> is_steady([1, 5, 9, 10, 10, 10, 10, 10, 10]), is_steady([6, 7, 8, 9, 10, 11])
    (True, False)
    """
    if len(rates) < 2 * _COMPARED:
        return False
    before, last = median(rates[-2 * _COMPARED : -_COMPARED]), median(rates[-_COMPARED:])
    return last <= (1.0 + _AGREE_WITHIN) * before


def measure_saturation(
    start: Callable[[tuple[int, int]], StreamingQuery],
    settings: SaturationSettings | None = None,
    tick: Callable[[float], None] = lambda _: None,
) -> Saturation:
    """`start` starts the query on a source that never runs dry, with batches of the first and
    of the second number of rows in turn. It may be called again, and needs a new checkpoint then.

    tick: is told the seconds since the beginning, for a progress bar.
    """
    settings = settings or SaturationSettings()
    began, rows = time.monotonic(), max(settings.first_rows, 2)
    while True:
        query = start((max(1, rows // _SMALL), rows))
        try:
            pairs = _watch(query, settings, began, tick)
        finally:
            query.stop()
        rates = [pair.rows_per_second(settings.batch_seconds) for pair in pairs]
        if not _grows(pairs, settings, began):
            return Saturation(median(rates[-_COMPARED:]), is_steady(rates), rows, tuple(rates))
        fitting = rates[-1] * settings.batch_seconds
        rows = round(min(max(fitting, _LEAST_GROWTH * rows), _MOST_GROWTH * rows))


def _watch(
    query: StreamingQuery,
    settings: SaturationSettings,
    began: float,
    tick: Callable[[float], None],
) -> list[Pair]:
    """Pairs of batches until there are enough or larger ones are needed."""
    while True:
        reports = [parse_progress(progress.json) for progress in query.recentProgress]
        error = query.exception()
        if error is not None:
            raise DemoError(f"the query that is measured has failed: {str(error)[:1000]}")
        done = [(r.input_rows, r.duration_seconds) for r in reports if r.input_rows]
        elapsed = time.monotonic() - began
        tick(elapsed)
        pairs = _pairs(done[_LEFT_OUT:])
        rates = [pair.rows_per_second(settings.batch_seconds) for pair in pairs]
        enough = elapsed >= settings.least_seconds and is_steady(rates)
        late = elapsed > settings.longest_seconds
        if pairs and (enough or late or _grows(pairs, settings, began)):
            return pairs
        if elapsed > settings.longest_seconds + _GRACE_SECONDS:
            raise DemoError(
                "Spark finished hardly a batch while its speed was measured; is the machine busy "
                "with something else? Try again"
            )
        time.sleep(_LOOK_EVERY_SECONDS)


def _pairs(done: Sequence[tuple[int, float]]) -> list[Pair]:
    """Each large batch with the small one before it. Times of 0 say nothing."""
    return [
        Pair(*small, *large)
        for small, large in pairwise(done)
        if small[0] < large[0] and large[1] > 0.0
    ]


def _grows(pairs: Sequence[Pair], settings: SaturationSettings, began: float) -> bool:
    """The large batches are too short, and there is time for larger ones."""
    in_time = time.monotonic() - began <= settings.longest_seconds
    return in_time and pairs[-1].large_seconds < _TOO_SHORT * settings.batch_seconds
