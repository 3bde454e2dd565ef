from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headgate.errors import UsageError
from headgate.spark.sources.replay_source import ReplayReader, check_options, profile_from

ALL = ReadAllAvailable()


def table_of(reader: ReplayReader, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return pa.Table.from_batches(batches)


def test_rows_arrive_at_the_rate_and_are_the_same_again() -> None:
    epoch = time.time() - 10.0
    reader = ReplayReader({"rate": "1000", "epoch": str(epoch), "keys": "7"})
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert 10_000 <= end["row"] < 11_000
    table = table_of(reader, start, end)
    assert table["id"].to_pylist() == list(range(end["row"]))
    assert set(table["key"].to_pylist()) == set(range(7))
    times = [when.timestamp() for when in table["timestamp"].to_pylist()]
    assert times[0] == pytest.approx(epoch + 0.0005, abs=2e-6)
    assert times[-1] <= time.time()
    other = ReplayReader({"rate": "1000", "keys": "7", "partitions": "5"})
    assert table_of(other, start, end).equals(table)


def test_limits_hold() -> None:
    reader = ReplayReader(
        {"rate": "1000", "epoch": str(time.time() - 10), "maxRowsPerTrigger": "70"}
    )
    assert reader.getDefaultReadLimit() == ReadMaxRows(70)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(70))["row"] == 70
    turns = ReplayReader({"rate": "1000", "maxRowsPerTrigger": "7,50"})
    starts = [{"row": row, "epoch": 0.0} for row in (0, 7, 57)]
    assert [turns.latestOffset(at, ReadMaxRows(50))["row"] for at in starts] == [7, 57, 64]
    with pytest.raises(UsageError, match="maxRowsPerTrigger must be a number above 0"):
        ReplayReader({"maxRowsPerTrigger": "7,x"})
    few = ReplayReader({"rate": "1000", "epoch": str(time.time() - 10), "rows": "5"})
    assert few.latestOffset(few.initialOffset(), ALL)["row"] == 5
    assert few.latestOffset({"row": 9, "epoch": time.time()}, ALL)["row"] == 9


def test_patterns(tmp_path: Path) -> None:
    steps = profile_from({"pattern": "steps", "rates": "10,30", "step": "2s"})
    assert [steps.rate_at(t) for t in (1.0, 3.0, 5.0)] == [10.0, 30.0, 10.0]
    crowd = profile_from(
        {"pattern": "flash_crowd", "rate": "10", "peak": "90", "at": "1s", "for": "2s"}
    )
    assert [crowd.rate_at(t) for t in (0.5, 2.0, 4.0)] == [10.0, 90.0, 10.0]
    file = tmp_path / "rates.csv"
    file.write_text("second,rate\n0,5\n1,15\n")
    trace = profile_from({"pattern": "trace", "file": str(file)})
    assert [trace.rate_at(t) for t in (0.5, 1.5)] == [5.0, 15.0]


@pytest.mark.parametrize(
    "options",
    [
        {"pattern": "waves"},
        {"rate": "many"},
        {"pattern": "steps", "rates": "1", "step": "soon"},
        {"pattern": "trace", "file": "/nowhere"},
    ],
)
def test_mistakes_are_named(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        profile_from(options)


def test_it_is_fast_enough() -> None:
    """A million rows; no time is asserted, but a quadratic source would not end."""
    reader = ReplayReader({"rate": "1e6"})
    start, end = {"row": 0, "epoch": 0.0}, {"row": 1_000_000, "epoch": 0.0}
    assert table_of(reader, start, end).num_rows == 1_000_000


def test_an_option_that_the_pattern_does_not_have_is_a_mistake() -> None:
    with pytest.raises(UsageError, match=r"no option 'rates' with .*; did you mean 'rate'"):
        check_options({"rates": "5"})
    with pytest.raises(UsageError, match=r"no option 'rowsPerSecond' .* expected one of .*'rate'"):
        check_options({"rowsPerSecond": "5"})
    with pytest.raises(UsageError, match="no option 'peak' with the pattern 'steps'"):
        check_options({"pattern": "steps", "rates": "1,2", "peak": "5"})
    check_options({"pattern": "flash_crowd", "PEAK": "5", "for": "3s", "maxrowspertrigger": "7"})
