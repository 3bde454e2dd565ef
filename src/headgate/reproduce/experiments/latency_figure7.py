"""Figure 7 of the latency paper: the distribution of latencies at 200 queries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headgate.control import largest_stable_gain
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.latency_workload import (
    PERIOD_SECONDS,
    TARGETS_SECONDS,
    only_job,
    paper_load,
    run_node,
    scale_for,
)
from headgate.reproduce.figures import COLOURS
from headgate.simulation.latency_histogram import LatencyHistogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LATENCY_FIGURE_7"]

QUERIES = 200
GAIN = 0.1


def _run(request: Request, progress: Progress) -> Outcome:
    scale = scale_for(request)
    histograms: dict[float, LatencyHistogram] = {}
    for done, target in enumerate(TARGETS_SECONDS):
        progress(done, len(TARGETS_SECONDS), f"target {target:g} s")
        load = paper_load(QUERIES, scale.copies, request.seed)
        result = run_node(load, scale, seed=request.seed, target_seconds=target)
        histograms[target] = only_job(result).latency
    progress(len(TARGETS_SECONDS), len(TARGETS_SECONDS), "done")
    rows: list[Row] = []
    for target, histogram in histograms.items():
        seconds, share = histogram.distribution()
        rows += [
            {"target_seconds": target, "latency_seconds": s, "share": p}
            for s, p in zip(seconds.tolist(), share.tolist(), strict=True)
        ]
    return Outcome(rows, _findings(histograms), partial(_draw, rows))


def _findings(histograms: dict[float, LatencyHistogram]) -> list[Finding]:
    found = []
    for target, histogram in histograms.items():
        name = f"target {1e3 * target:g} ms"
        found.append(
            Finding(f"{name}: mean, ms", 1e3 * (histogram.mean_seconds or 0.0), 1e3 * target)
        )
        spread = 1e3 * (histogram.deviation_seconds or 0.0)
        found.append(
            Finding(
                f"{name}: standard deviation, ms", spread, note="the paper: grows with the target"
            )
        )
    longest = max(TARGETS_SECONDS) / PERIOD_SECONDS
    found.append(
        Finding(
            "largest gain that proposition 1 allows at 3000 ms",
            largest_stable_gain(longest),
            GAIN,
            "the delay is 12 periods, so the paper's q = 0.1 is outside its own (sufficient) bound",
        )
    )
    return found


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for colour, target in zip(COLOURS, TARGETS_SECONDS, strict=False):
        mine = [row for row in rows if row["target_seconds"] == target]
        axes.plot(
            [1e3 * float(row["latency_seconds"] or 0.0) for row in mine],
            [float(row["share"] or 0.0) for row in mine],
            color=colour,
            label=f"T = {1e3 * target:g} ms",
        )
        axes.axvline(1e3 * target, color=colour, linewidth=0.6, linestyle=":")
    axes.set_xlabel("tuple latency, ms (simulated)")
    axes.set_ylabel("share of tuples")
    axes.set_title(f"{QUERIES} queries")
    axes.legend(loc="upper left", bbox_to_anchor=(0.08, 1.0))


LATENCY_FIGURE_7 = Experiment(
    "latency-figure-7",
    "The spread of latencies grows with the target",
    "Latency control (2012), figure 7",
    _run,
    simulated=True,
)
