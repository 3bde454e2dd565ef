"""How many rows a second a query can take: it runs with more waiting than it can do.

Two things make a first look too low. A cold JVM runs at a tenth of its later speed and gets
faster for half a minute. And the fixed cost of a batch, planning, logs and state, weighs
less the longer the batch is, so a query must be measured with batches as long as later ones.

So the query runs in stages with bounded batches. Batches that turn out shorter than half of
what is wanted end a stage; the next one has larger ones. The last stage ends when the speed
has stopped growing, and not before the query has been busy for a while.

Not guaranteed: that the machine stays as fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from headgate.errors import DemoError
from headgate.spark.agent.progress import parse_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Saturation", "SaturationSettings", "is_steady", "measure_saturation"]

_FIRST_ROWS = 2_000
_COMPARED = 4
_AGREE_WITHIN = 0.05
_TOO_SHORT = 0.5  # of the wanted length
_LOOKED_AT = 2  # batches, before a stage is left
_LOOK_EVERY_SECONDS = 0.1
_GRACE_SECONDS = 90.0  # for a first batch on a machine that is busy with other things


@dataclass(frozen=True, slots=True)
class SaturationSettings:
    """batch_seconds: how long a batch should take. It is measured for `least_seconds` or more,
    and for `longest_seconds` at most, longer only for the first batches.
    """

    batch_seconds: float = 1.5
    least_seconds: float = 15.0
    longest_seconds: float = 90.0
    first_rows: int = _FIRST_ROWS


class _Batch(NamedTuple):
    rows: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.rows / max(self.seconds, 1e-3)


@dataclass(frozen=True, slots=True)
class Saturation:
    """steady: the last batches were no faster than those before them.
    rows_in_batch, seconds_to_first_batch: of the last stage. rates: of all its batches but the
    first, which compiles.
    """

    rows_per_second: float
    steady: bool
    rows_in_batch: int
    seconds_to_first_batch: float
    rates: tuple[float, ...]


def is_steady(rates: Sequence[float]) -> bool:
    """The last four are not faster than the four before them.

    >>> is_steady([1, 5, 9, 10, 10, 10, 10, 10, 10, 10]), is_steady([6, 7, 8, 9, 10, 11, 12, 13])
    (True, False)
    """
    if len(rates) < 2 * _COMPARED:
        return False
    before, last = median(rates[-2 * _COMPARED : -_COMPARED]), median(rates[-_COMPARED:])
    return last <= (1.0 + _AGREE_WITHIN) * before


def measure_saturation(
    start: Callable[[int], StreamingQuery],
    settings: SaturationSettings | None = None,
    tick: Callable[[float], None] = lambda _: None,
) -> Saturation:
    """`start` starts the query, with batches of so many rows of a source that never runs dry.

    It is called once for each stage, and every time needs a new checkpoint.
    tick: is told the seconds since the beginning, for a progress bar.
    """
    settings = settings or SaturationSettings()
    began, rows = time.monotonic(), settings.first_rows
    while True:
        started = time.time()
        query = start(rows)
        try:
            found = _stage(query, settings, began, tick)
        finally:
            query.stop()
        rates = [batch.rate for batch in found.batches[1:]] or [found.batches[0].rate]
        if not found.too_short:
            return Saturation(
                median(rates[-_COMPARED:]),
                is_steady(rates),
                rows,
                max(0.0, found.first_ended - started),
                tuple(rates),
            )
        rows = max(rows + 1, round(settings.batch_seconds * median(rates[-_LOOKED_AT:])))


class _Stage(NamedTuple):
    batches: list[_Batch]
    first_ended: float
    too_short: bool


def _stage(
    query: StreamingQuery,
    settings: SaturationSettings,
    began: float,
    tick: Callable[[float], None],
) -> _Stage:
    while True:
        seen = [parse_progress(p.json) for p in query.recentProgress]
        done = [report for report in seen if report.input_rows]
        error = query.exception()
        if error is not None:
            raise DemoError(f"the query that is measured has failed: {str(error)[:1000]}")
        batches = [_Batch(report.input_rows, report.duration_seconds) for report in done]
        elapsed = time.monotonic() - began
        tick(elapsed)
        in_time = elapsed <= settings.longest_seconds
        if len(batches) > _LOOKED_AT:
            last = median(batch.seconds for batch in batches[-_LOOKED_AT:])
            too_short = in_time and last < _TOO_SHORT * settings.batch_seconds
            enough = elapsed >= settings.least_seconds
            steady = is_steady([batch.rate for batch in batches[1:]])
            if too_short or (enough and steady) or not in_time:
                return _Stage(batches, done[0].end_seconds, too_short)
        elif elapsed > settings.longest_seconds + _GRACE_SECONDS:
            raise DemoError(
                "Spark finished hardly a batch while its speed was measured; is the machine busy "
                "with something else? Try again"
            )
        time.sleep(_LOOK_EVERY_SECONDS)
