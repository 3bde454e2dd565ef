"""Figures 5 and 6a of the latency paper, run on Spark on this machine.

The query is the paper's: the average CPU use of every second over ten machines. n copies
of it are one Spark query in which each tuple is taken n times and aggregated by (copy,
second): the work of n queries on the same input, one gate in front of all.

Scaled to this machine: the rate at which 92 copies saturate Spark is measured first and
taken as the mean rate of the paper's pattern (ten sources with 50, 100, 150, 100 tuples/s
in steps of 10 s, each beginning at a second of its own). So 80 copies are fine and 100 are
too many, as in the paper, whatever the machine. CPU values come from the PlanetLab trace if
the data directory has it, else from the replay source.

Latency is that of a tuple, from its arrival to the end of its micro-batch. The paper's
target of 0.5 s is left out: Spark's batches here take about that long when empty.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.latency_workload import (
    CAPACITY_QUERIES,
    PATTERN_PER_SECOND,
    SOURCES,
    STEP_SECONDS,
)
from headgate.reproduce.figures import COLOURS
from headgate.spark.local_session import check_machine, start_spark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "LATENCY_ON_SPARK",
    "Scale",
    "averages",
    "cpu_percent",
    "measure",
    "rates_over_time",
    "summary",
]

TRACE_FILE = "planetlab_cpu_percent_5min.csv"
OVERLOADED_FROM = 120
_LONGEST_WARM_UP_SECONDS = 90.0
_SETTLING_BATCHES = 4  # of a run with a target; they do not count
_FEWEST_BATCHES = _SETTLING_BATCHES + 2
_GATE = "machines"


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is: copies and targets of figure 6a, copies of figure 5, seconds."""

    copies: tuple[int, ...] = (20, 80, 120, 160, 200)
    targets_seconds: tuple[float, ...] = (1.0, 2.0, 3.0)
    uncontrolled: tuple[int, ...] = (80, 100, 200)
    warm_up_seconds: float = 12.0
    seconds: float = 30.0

    @property
    def runs(self) -> int:
        return len(self.copies) * len(self.targets_seconds) + len(self.uncontrolled)


_QUICK = Scale((80, 200), (2.0,), (200,), 10.0, 20.0)


def _run(request: Request, progress: Progress) -> Outcome:
    cpu = cpu_percent(request.data_directory)
    with _session() as (spark, hg):
        rows = measure(spark, hg, _QUICK if request.quick else Scale(), request.seed, progress, cpu)
    return Outcome(rows, _findings(rows), partial(_draw, rows))


@contextmanager
def _session() -> Iterator[tuple[Any, Any]]:
    from headgate.spark import attach

    check_machine("the experiment", "")
    with tempfile.TemporaryDirectory(prefix="headgate-spark-") as name:
        log = Path(name, "spark.log")
        settings = {"spark.driver.memory": "2g"}
        spark = start_spark(Path(name), log, name="headgate-reproduce", settings=settings)
        try:
            with attach(spark) as hg:
                yield spark, hg
        finally:
            spark.stop()


def measure(
    spark: Any,
    hg: Any,
    scale: Scale,
    seed: int,
    progress: Progress,
    cpu: Sequence[float] = (),
) -> list[Row]:
    """All runs; one row for each batch."""
    progress(0, scale.runs + 1, "how much 92 copies can take")
    rate = _saturated_rate(spark, round(CAPACITY_QUERIES), cpu, scale)
    rows: list[Row] = []
    runs: list[tuple[int, float | None]] = [(n, None) for n in scale.uncontrolled]
    runs += [(n, target) for target in scale.targets_seconds for n in scale.copies]
    for done, (copies, target) in enumerate(runs, start=1):
        what = "no control" if target is None else f"target {target:g} s"
        progress(done, scale.runs + 1, f"{copies} copies, {what}")
        rows += _one(spark, hg, scale, seed, rate, copies, target, cpu)
    progress(scale.runs + 1, scale.runs + 1, "done")
    return rows


def averages(stream: Any, copies: int, cpu: Sequence[float] = ()) -> Any:
    """The paper's query so many times, as one Spark query."""
    from pyspark.sql import functions as F  # noqa: N812

    use = F.col("value") * 100.0
    if len(cpu):
        use = F.get(F.lit(list(cpu)), F.pmod("id", F.lit(len(cpu))).cast("int"))
    each = stream.withWatermark("timestamp", "5 seconds").select(
        "timestamp", use.alias("cpu"), F.explode(F.sequence(F.lit(1), F.lit(copies))).alias("copy")
    )
    seconds = each.groupBy("copy", F.window("timestamp", "1 second"))
    return seconds.agg(F.avg("cpu").alias("average_cpu"))


def rates_over_time(mean_rate: float, seconds: int, seed: int) -> list[float]:
    """The paper's pattern, second by second, with the given mean."""
    begins = np.random.default_rng(seed).integers(
        0, STEP_SECONDS * len(PATTERN_PER_SECOND), SOURCES
    )
    steps = (np.arange(seconds)[:, None] + begins[None, :]) // STEP_SECONDS
    pattern = np.asarray(PATTERN_PER_SECOND)
    total = pattern[steps % len(pattern)].sum(axis=1)
    return [float(rate) for rate in mean_rate * total / (SOURCES * pattern.mean())]


def _replay(spark: Any, options: Mapping[str, Any]) -> Any:
    reader = spark.readStream.format("headgate_replay").option("keys", SOURCES)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def _saturated_rate(spark: Any, copies: int, cpu: Sequence[float], scale: Scale) -> float:
    """Tuples a second that so many copies can take."""
    from headgate.spark.saturation import SaturationSettings, measure_saturation

    def start(rows: tuple[int, int]) -> Any:
        in_turn = ",".join(map(str, rows))
        stream = _replay(spark, {"rate": 10_000_000, "maxRowsPerTrigger": in_turn})
        writer = averages(stream, copies, cpu).writeStream.format("noop").outputMode("update")
        return writer.start()

    settings = SaturationSettings(
        least_seconds=2.0 * scale.warm_up_seconds, longest_seconds=7.5 * scale.warm_up_seconds
    )
    return measure_saturation(start, settings).rows_per_second


def _one(
    spark: Any,
    hg: Any,
    scale: Scale,
    seed: int,
    rate: float,
    copies: int,
    target: float | None,
    cpu: Sequence[float],
) -> list[Row]:
    seconds = scale.warm_up_seconds + scale.seconds
    name = f"average cpu {copies} {target} {time.time_ns()}"
    with tempfile.TemporaryDirectory(prefix="headgate-trace-") as directory:
        trace = Path(directory, "rates.csv")
        lines = rates_over_time(rate, round(seconds + 2.0 * _LONGEST_WARM_UP_SECONDS), seed)
        trace.write_text("\n".join(f"{line:.6g}" for line in lines), encoding="utf-8")
        begun = time.time()
        stream = _replay(spark, {"pattern": "trace", "file": trace, "step": "1s", "epoch": begun})
        gated = hg.gate(stream, _GATE, arrival="timestamp", identity=["id"])
        writer = averages(gated, copies, cpu).writeStream.format("noop").outputMode("update")
        query = hg.start(writer, name=name, latency=target)
        try:
            while time.time() < begun + seconds or _is_late(query, begun + seconds):
                if query.exception() is not None:
                    raise query.exception()
                time.sleep(0.1)
        finally:
            query.stop()
    hg.report()  # waits for the last batch's numbers
    found = hg.ledger().where(f"query = '{name}' and offered > 0").orderBy("batch").collect()
    settled = [number >= _SETTLING_BATCHES or target is None for number in range(len(found))]
    return [
        _row(batch, copies, target, begun, scale, known)
        for batch, known in zip(found, settled, strict=True)
    ]


def _is_late(query: Any, end: float) -> bool:
    """A machine so busy that there is nothing to judge yet gets some time more."""
    batches = sum(progress.numInputRows > 0 for progress in query.recentProgress)
    return batches < _FEWEST_BATCHES and time.time() < end + _LONGEST_WARM_UP_SECONDS


def _row(
    batch: Any, copies: int, target: float | None, begun: float, scale: Scale, settled: bool
) -> Row:
    end = batch["time_seconds"] - begun
    return {
        "copies": copies,
        "target_seconds": target,
        "batch": batch["batch"],
        "time_seconds": end,
        "warm": settled and end - batch["duration_seconds"] >= scale.warm_up_seconds,
        "offered": batch["offered"],
        "kept": batch["kept"],
        "latency_mean_seconds": batch["latency_mean_seconds"],
        "batch_seconds": batch["duration_seconds"],
    }


def cpu_percent(directory: Path | None) -> list[float]:
    """CPU use of the ten machines in turn; empty without the trace."""
    file = None if directory is None else directory / TRACE_FILE
    if file is None or not file.is_file():
        return []
    table = np.genfromtxt(file, delimiter=",", skip_header=1)
    return [float(value) for value in table[:, -SOURCES:].ravel()]


def summary(rows: Sequence[Row]) -> list[Row]:
    """One row for each run: latency over the target, and the share that was kept."""
    found: list[Row] = []
    for target in (None, *_targets(rows)):
        for copies in _all_copies(rows, target):
            warm = [r for r in _cell(rows, copies, target) if r["warm"]]
            mean = _mean(rows, copies, target)
            offered = sum(int(r["offered"] or 0) for r in warm)
            found.append(
                {
                    "copies": copies,
                    "target_seconds": target,
                    "batches": len(warm),
                    "latency_mean_seconds": mean,
                    "mean_over_target": None if mean is None or target is None else mean / target,
                    "last_latency_mean_seconds": warm[-1]["latency_mean_seconds"] if warm else None,
                    "kept_share": sum(int(r["kept"] or 0) for r in warm) / max(1, offered),
                }
            )
    return found


def _cell(rows: Sequence[Row], copies: int, target: float | None) -> list[Row]:
    return [r for r in rows if (r["copies"], r["target_seconds"]) == (copies, target)]


def _mean(rows: Sequence[Row], copies: int, target: float | None) -> float | None:
    """Mean latency over the kept tuples, after the warm-up."""
    warm = [r for r in _cell(rows, copies, target) if r["warm"] and r["kept"]]
    kept = sum(int(r["kept"] or 0) for r in warm)
    total = sum(float(r["latency_mean_seconds"] or 0.0) * int(r["kept"] or 0) for r in warm)
    return total / kept if kept else None


def _all_copies(rows: Sequence[Row], target: float | None) -> list[int]:
    return sorted({int(r["copies"] or 0) for r in rows if r["target_seconds"] == target})


def _targets(rows: Sequence[Row]) -> list[float]:
    return sorted({float(r["target_seconds"]) for r in rows if r["target_seconds"] is not None})


def _findings(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for copies in _all_copies(rows, None):
        last = _cell(rows, copies, None)[-1]["latency_mean_seconds"]
        note = "low, the node copes" if copies < CAPACITY_QUERIES else "increases rapidly"
        text = f"{copies} copies without control: mean latency of the last batch, seconds"
        found.append(Finding(text, last, note=f"the paper: {note}; it gives no number"))
    for target in _targets(rows):
        overloaded = [n for n in _all_copies(rows, target) if n >= OVERLOADED_FROM]
        means = [m for n in overloaded if (m := _mean(rows, n, target)) is not None]
        text = f"target {target:g} s: farthest mean latency, {OVERLOADED_FROM} copies and more, s"
        farthest = max(means, key=lambda mean: abs(mean - target), default=None)
        found.append(Finding(text, farthest, target, "on Spark; the paper: kept at the target"))
    for target in _targets(rows):
        for copies in [n for n in _all_copies(rows, target) if n < CAPACITY_QUERIES]:
            cell = [r for r in _cell(rows, copies, target) if r["warm"]]
            dropped = sum(int(r["offered"] or 0) - int(r["kept"] or 0) for r in cell)
            share = dropped / max(1, sum(int(r["offered"] or 0) for r in cell))
            text = f"{copies} copies, target {target:g} s: share dropped"
            note = "the mean rate is below capacity; steps of the pattern can exceed it"
            found.append(Finding(text, share, note=note))
    return found


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    for colour, copies in zip(COLOURS, _all_copies(rows, None), strict=False):
        cell = [r for r in _cell(rows, copies, None) if r["latency_mean_seconds"] is not None]
        times = [float(r["time_seconds"] or 0.0) for r in cell]
        latencies = [float(r["latency_mean_seconds"] or 0.0) for r in cell]
        left.plot(times, latencies, color=colour, marker=".", label=f"{copies} copies")
    left.set(xlabel="time, seconds", ylabel="mean tuple latency, seconds", title="No control")
    for colour, target in zip(COLOURS, _targets(rows), strict=False):
        known = [(n, m) for n in _all_copies(rows, target) if (m := _mean(rows, n, target))]
        right.plot(*zip(*known, strict=True), color=colour, marker="o", label=f"{target:g} s")
        right.axhline(target, color="0.8", linewidth=0.8, zorder=0)
    right.set(xlabel="copies of the query", ylabel="mean tuple latency, seconds")
    right.set_title("Targets")
    right.set_ylim(bottom=0.0)
    left.legend()
    right.legend(title="target")
    figure.suptitle("Run on Spark, on this machine")


LATENCY_ON_SPARK = Experiment(
    "latency-on-spark",
    "The paper's query on Spark: diverging without control, at the target with it",
    "Latency control (2012), figures 5 and 6a",
    _run,
    on_spark=True,
)
