"""The picture of a simulated run: what arrived and was kept, and how late it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headgate.reproduce.figures import COLOURS, new_figure, save_png
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.record import PeriodRow, SimulationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_plot"]

MOST_JOBS = 8
BUCKETS = 200


def write_plot(
    name: str, loads: Mapping[str, Arrivals], result: SimulationResult, path: Path
) -> None:
    """Rates above, latency in the middle, share kept below; one colour a job.

    Where targets differ, latencies are drawn as shares of them, so that all lines fit.
    """
    figure = new_figure(9.0, 8.0)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    _draw_loads(top, loads, result.seconds)
    jobs = [job for job in result.jobs.values() if result.rows_of(job.name)]
    differ = len({job.target_seconds for job in jobs}) > 1
    for colour, job in zip(COLOURS, jobs[:MOST_JOBS], strict=False):
        rows = result.rows_of(job.name)
        times, latencies = _bucketed(rows, result.seconds, "latency_mean_seconds")
        share = 100.0 / (job.target_seconds or math.inf) if differ else 1.0
        middle.plot(times, share * latencies, color=colour, linewidth=1.2, label=job.name)
        times, kept = _bucketed(rows, result.seconds, "keep_fraction")
        bottom.plot(times, 100.0 * kept, color=colour, linewidth=1.2)
    target = 100.0 if differ else next((job.target_seconds for job in jobs), None)
    if target is not None:
        middle.axhline(target, color="0.4", linewidth=0.8, linestyle=":")
    for node in result.nodes.values():
        for at, _ in node.failures:
            middle.axvline(at, color="#C1272D", linewidth=1.0)
    top.set_title(f"{name}, simulated; controller {result.settings.controller}")
    top.set_ylabel("load, tuples/s")
    unit = "percent of the target" if differ else "seconds (target dotted)"
    middle.set_ylabel(f"mean latency, {unit}")
    middle.set_ylim(bottom=0.0)
    bottom.set_ylabel("kept, percent")
    bottom.set_ylim(-3.0, 103.0)
    bottom.set_xlabel("virtual time, seconds")
    middle.legend(fontsize=8, loc="upper right")
    save_png(figure, path)


def _draw_loads(axes: Axes, loads: Mapping[str, Arrivals], seconds: float) -> None:
    times = np.linspace(0.0, seconds, 4 * BUCKETS, endpoint=False)
    for number, (stream, load) in enumerate(list(loads.items())[:MOST_JOBS]):
        rates = [load.rate_at(float(time)) for time in times]
        colour = COLOURS[-1 - number % len(COLOURS)]
        axes.step(times, rates, where="post", color=colour, linewidth=1.2, label=stream)
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=8, loc="upper right")


def _bucketed(
    rows: list[PeriodRow], seconds: float, column: str
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]
]:
    """Means over equal pieces of time, weighted by the tuples of each row."""
    known = [row for row in rows if getattr(row, column) is not None]
    number = np.array([int(BUCKETS * row.time_seconds / seconds) for row in known], dtype=np.intp)
    number = np.minimum(number, BUCKETS - 1)
    weight = np.array([max(1, row.offered) for row in known], dtype=np.float64)
    value = np.array([float(getattr(row, column)) for row in known], dtype=np.float64)
    total = np.bincount(number, weight, BUCKETS)
    used = np.flatnonzero(total)
    means = np.bincount(number, weight * value, BUCKETS)[used] / total[used]
    return (used + 0.5) * seconds / BUCKETS, means
