"""The measurement of a query's speed, in virtual time, on a machine that gets warm."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from headgate.errors import DemoError
from headgate.spark import saturation
from headgate.spark.saturation import SaturationSettings, measure_saturation


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Progress(NamedTuple):
    json: str


class Query:
    """Batches of these rows in turn, each 0.4 s and so much a row as the machine then takes."""

    def __init__(self, clock: Clock, rows: tuple[int, int], warm_at: float, slow: float) -> None:
        self.clock, self.turns, self.warm_at, self.slow = clock, rows, warm_at, slow
        self.ends = clock.now
        self.recentProgress: list[Progress] = []
        self.stopped = False
        self._begin()

    def _begin(self) -> None:
        self.rows = self.turns[len(self.recentProgress) % 2]
        cold = max(0.0, self.warm_at - self.ends)
        row = 1e-3 * (1.0 + self.slow * min(1.0, cold / 20.0))
        self.seconds = 0.4 + row * self.rows
        self.ends += self.seconds

    def exception(self) -> Exception | None:
        while self.clock.now >= self.ends:
            self.recentProgress.append(Progress(_progress(len(self.recentProgress), self)))
            self._begin()
        return None

    def stop(self) -> None:
        self.stopped = True


def _progress(batch: int, query: Query) -> str:
    return json.dumps(
        {
            "id": "q",
            "runId": "r",
            "batchId": batch,
            "timestamp": "1970-01-12T13:46:40.000Z",
            "numInputRows": query.rows,
            "durationMs": {"addBatch": 1, "triggerExecution": round(1000 * query.seconds)},
        }
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(saturation, "time", clock)
    return clock


def test_it_waits_until_the_machine_is_warm(clock: Clock) -> None:
    """0.4 s of a batch of 2 s are fixed, the rest at 1 ms a row: 800 rows a second."""
    queries: list[Query] = []
    warm_at = clock.now + 20.0

    def start(rows: tuple[int, int]) -> Any:
        queries.append(Query(clock, rows, warm_at, slow=9.0))
        return queries[-1]

    found = measure_saturation(start, SaturationSettings(2.0, 10.0, 90.0, first_rows=100))
    assert found.steady
    assert all(query.stopped for query in queries)
    assert 2 <= len(queries) <= 4  # batches of 100 rows were too short
    assert 0.4 + 1e-3 * found.rows >= 2.0 * 0.5
    assert found.rows_per_second == pytest.approx(800.0, rel=0.01)


def test_it_ends_in_time_and_says_that_the_machine_still_got_faster(clock: Clock) -> None:
    began = clock.now

    def start(rows: tuple[int, int]) -> Any:
        return Query(clock, rows, began + 500.0, slow=100.0)

    found = measure_saturation(start, SaturationSettings(2.0, 5.0, 10.0, first_rows=100))
    assert not found.steady
    assert clock.now - began < 10.0 + 2 * 11.0


def test_a_machine_on_which_nothing_ends_is_an_error(clock: Clock) -> None:
    def start(rows: tuple[int, int]) -> Any:
        return Query(clock, rows, clock.now + 1e9, slow=1e6)

    with pytest.raises(DemoError, match="hardly a batch"):
        measure_saturation(start, SaturationSettings())


def test_a_query_that_fails_says_why(clock: Clock) -> None:  # noqa: ARG001
    class Broken:
        recentProgress = ()  # noqa: N815

        def exception(self) -> Exception:
            return RuntimeError("no such column")

        def stop(self) -> None: ...

    with pytest.raises(DemoError, match="no such column"):
        measure_saturation(lambda _: Broken())  # type: ignore[arg-type,return-value]
