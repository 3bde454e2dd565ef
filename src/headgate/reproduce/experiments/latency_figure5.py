"""Figure 5 of the latency paper: the node without the controller."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.latency_workload import (
    CAPACITY_QUERIES,
    Scale,
    paper_load,
    run_node,
    scale_for,
)
from headgate.reproduce.figures import COLOURS
from headgate.simulation.record import PeriodRow, SimulationResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LATENCY_FIGURE_5"]

QUERIES = (80, 100, 200)
SECONDS = 600.0
MEMORY_TUPLES = 48_600_000  # 4 GB at 82 bytes a tuple: 200 queries fill it in 450 s
ROW_SECONDS = 5.0


def _run(request: Request, progress: Progress) -> Outcome:
    scale = scale_for(request)
    rows: list[Row] = []
    failed: dict[int, float | None] = {}
    for done, queries in enumerate(QUERIES):
        progress(done, len(QUERIES), f"{queries} queries")
        result = _uncontrolled(queries, scale, request.seed)
        failed[queries] = result.nodes["node"].out_of_memory_seconds
        rows += _rows(queries, result)
    progress(len(QUERIES), len(QUERIES), "done")
    return Outcome(rows, _findings(rows, failed), partial(_draw, rows, failed))


def _uncontrolled(queries: int, scale: Scale, seed: int) -> SimulationResult:
    memory = MEMORY_TUPLES // scale.copies
    load = paper_load(queries, scale.copies, seed)
    return run_node(
        load, scale, seed=seed, controller="none", seconds=SECONDS, memory_tuples=memory
    )


def _rows(queries: int, result: SimulationResult) -> list[Row]:
    """The mean latency of each five seconds."""
    parts: dict[int, list[PeriodRow]] = {}
    for row in result.rows:
        parts.setdefault(int((row.time_seconds - 1e-9) / ROW_SECONDS), []).append(row)
    rows: list[Row] = []
    for number, part in parts.items():
        known = [r.latency_mean_seconds for r in part if r.latency_mean_seconds is not None]
        rows.append(
            {
                "queries": queries,
                "time_seconds": (number + 1) * ROW_SECONDS,
                "latency_mean_seconds": float(np.mean(known)) if known else None,
                "waiting_simulated_tuples": part[-1].waiting,
            }
        )
    return rows


def _latencies(rows: Sequence[Row], queries: int) -> list[float]:
    return [
        float(row["latency_mean_seconds"])
        for row in rows
        if row["queries"] == queries and row["latency_mean_seconds"] is not None
    ]


def _findings(rows: Sequence[Row], failed: dict[int, float | None]) -> list[Finding]:
    end_of = {queries: _latencies(rows, queries)[-1] for queries in QUERIES}
    return [
        Finding(
            "80 queries: largest mean latency of 5 s, seconds",
            max(_latencies(rows, 80)),
            note="the paper: low, the node copes",
        ),
        Finding(
            "100 queries: mean latency at the end of the run, seconds",
            end_of[100],
            note="the paper: increases rapidly; it gives no number",
        ),
        Finding(
            "200 queries: out of memory after, seconds",
            failed[200],
            450,
            "the memory was chosen for this: 4 GB at 82 bytes a tuple. The paper says that "
            "nothing runs after the first 450 s and beyond, which is read as the earliest failure",
        ),
        Finding("80 queries: out of memory", failed[80] is not None, False),
        Finding(
            "Capacity of the simulated node, queries",
            CAPACITY_QUERIES,
            note="chosen between the paper's 80 (fine) and 100 (too many)",
        ),
    ]


def _draw(rows: Sequence[Row], failed: dict[int, float | None], figure: Figure) -> None:
    axes = figure.subplots()
    for colour, queries in zip(COLOURS, QUERIES, strict=False):
        mine = [row for row in rows if row["queries"] == queries]
        known = [row for row in mine if row["latency_mean_seconds"] is not None]
        times = [float(row["time_seconds"] or 0.0) for row in known]
        axes.plot(times, _latencies(rows, queries), color=colour, label=f"{queries} queries")
        if failed[queries] is not None:
            axes.plot(times[-1], _latencies(rows, queries)[-1], "x", color=colour, markersize=10)
            axes.annotate(
                f"out of memory at {failed[queries]:.0f} s",
                (times[-1], _latencies(rows, queries)[-1]),
                textcoords="offset points",
                xytext=(8, -3),
            )
    axes.set_xlabel("time, seconds")
    axes.set_ylabel("mean tuple latency, seconds (simulated)")
    axes.set_title("No control")
    axes.legend(loc="upper left")


LATENCY_FIGURE_5 = Experiment(
    "latency-figure-5",
    "Without control: fine to 80 queries, diverging from 100 on",
    "Latency control (2012), figure 5",
    _run,
    simulated=True,
)
