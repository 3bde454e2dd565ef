"""The demo on the shared session, in its quick form."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headgate.demo.findings import find
from headgate.demo.recording import WITH, WITHOUT, Recording
from headgate.demo.report import content, save
from headgate.demo.run import run_demo
from headgate.demo.scenario import QUICK
from headgate.spark.session import Headgate
from tests.spark.terminal import until_ctrl_c


class Stages:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.ticks = 0
        self.scenes = 0

    def stage(self, title: str, seconds: float) -> None:
        assert seconds > 0.0
        self.titles.append(title)

    def tick(self, elapsed_seconds: float) -> None:
        assert elapsed_seconds >= 0.0
        self.ticks += 1

    def scene(self, recording: Recording) -> None:
        assert recording.scenario is not None
        self.scenes += 1


def test_the_same_crowd_runs_with_headgate_and_without(
    hg: Headgate, spark: SparkSession, tmp_path: Path
) -> None:
    recording, stages = Recording(QUICK), Stages()
    run_demo(spark, hg, recording, stages, tmp_path / "work")
    assert spark.streams.active == []
    assert stages.titles[1:] == [f"The crowd {WITH}", f"The crowd {WITHOUT}"]
    assert stages.ticks > 10
    assert stages.scenes == 1
    assert recording.capacity is not None
    assert recording.capacity.rows_per_second > 0.0
    ours, theirs = recording.runs[WITH], recording.runs[WITHOUT]
    found = find(recording)
    assert found.with_headgate is not None
    assert found.without is not None
    # Not how fast: how rows are accounted for, and that only one side sheds.
    assert found.without.dropped == 0
    assert found.ledger_balances is True
    assert ours.ledger is not None
    assert ours.ledger.offered >= found.with_headgate.offered
    assert all(batch.read == batch.offered for batch in (*ours.batches, *theirs.batches))
    fed_back = [batch.latency_mean_seconds or 0.0 for batch in ours.batches[1:-2]]
    if any(latency > 1.5 * QUICK.target_seconds for latency in fed_back):
        assert found.with_headgate.dropped > 0  # a machine that got faster had no need to
    files = save(recording, tmp_path / "out")
    assert content(recording)["headline"] in files.page.read_text(encoding="utf-8")


def test_ctrl_c_in_a_terminal_ends_the_demo_with_what_it_has(tmp_path: Path) -> None:
    code, seen = until_ctrl_c("The crowd with Headgate", 3, "demo", "--quick", "--out", tmp_path)
    assert code == 130, seen[-3000:]
    assert "Traceback" not in seen
    assert "Stopped" in seen
