"""Figure 13 of 2007: plan generation against the fan-out 2^k, at 1 %."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headgate.planning.regions.solver import SolverPlanner, SolverSettings
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.networks import fan_out
from headgate.reproduce.plan_generation import fastest, region_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE_13"]

MAX_ERROR = 0.01


def _run(request: Request, progress: Progress) -> Outcome:
    powers = range(1, 4 if request.quick else 7)
    repeats = 1 if request.quick else 5
    rows: list[Row] = []
    for k in powers:
        progress(k - 1, len(powers), f"fan-out {2**k}")
        network = fan_out(k)
        settings = SolverSettings(max_error=MAX_ERROR)
        solver, seconds = fastest(partial(SolverPlanner, network, settings=settings), repeats)
        rows.append({"fan_out": 2**k, **region_row(solver, seconds)})
        table = FitSettings(max_error=MAX_ERROR)
        fit, seconds = fastest(partial(FitPlanner, network, settings=table), repeats)
        rows.append(
            {"fan_out": 2**k, "planner": fit.name, "entries": fit.entries, "seconds": seconds}
        )
    progress(len(powers), len(powers), "done")
    return Outcome(rows, _findings(rows), partial(_draw, rows))


def _column(rows: Sequence[Row], planner: str, column: str) -> list[float]:
    return [float(row[column] or 0.0) for row in rows if row["planner"] == planner]


def _findings(rows: Sequence[Row]) -> list[Finding]:
    corners = _column(rows, "solver", "corners")
    entries = _column(rows, "fit", "entries")
    solver = _column(rows, "solver", "seconds")
    fit = _column(rows, "fit", "seconds")
    claim = "the paper plots seconds: both grow with the fan-out"
    return [
        Finding(
            "Solver: corners at the largest fan-out over those at 2",
            corners[-1] / corners[0],
            note=claim + "; costs are ours, the paper gives none",
        ),
        Finding(
            "Solver: runs of the linear program at the largest fan-out, ours",
            int(_column(rows, "solver", "solver_runs")[-1]),
            note=f"the paper's method: {corners[-1]:.0f}",
        ),
        Finding("C-FIT: entries at the largest fan-out over those at 2", entries[-1] / entries[0]),
        Finding(
            "Solver seconds over C-FIT seconds at the largest fan-out",
            solver[-1] / fit[-1],
            note="the paper: C-FIT is faster above a fan-out of 2",
        ),
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    fans = _column(rows, "solver", "fan_out")
    left.loglog(fans, _column(rows, "solver", "corners"), "o-", color=COLOURS[0], base=2)
    left.loglog(fans, _column(rows, "fit", "entries"), "^-", color=COLOURS[1], base=2)
    left.legend(["Solver: corners", "C-FIT: entries"])
    left.set_ylabel("points")
    for planner, colour in (("solver", COLOURS[0]), ("fit", COLOURS[1])):
        seconds = _column(rows, planner, "seconds")
        right.loglog(fans, [1e3 * s for s in seconds], "o-", color=colour, base=2)
    right.legend(["Solver", "C-FIT"])
    right.set_ylabel("plan generation, milliseconds")
    for axes in (left, right):
        axes.set_xlabel("fan-out")


FIGURE_13 = Experiment(
    "figure-13",
    "Plan generation of Solver and C-FIT against the fan-out",
    "Staying FIT (2007), figure 13",
    _run,
)
