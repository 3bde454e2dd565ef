"""Figure 14 of 2007: plan generation for 2, 4 and 8 inputs.

(a) How the expected error of Solver-W falls with the work put in.
(b) What C-FIT needs for a given maximum error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from headgate.errors import PlanningError
from headgate.planning.regions.solver_w import SolverWPlanner, SolverWSettings
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.networks import inputs
from headgate.reproduce.plan_generation import exponential, fastest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE_14A", "FIGURE_14B"]

INPUTS = (2, 4, 8)
LAMBDA = 3.0
WANTED = 0.002


def _converge(count: int, max_regions: int) -> list[Row]:
    """The expected error after each step of Solver-W."""
    network = inputs(count)
    settings = SolverWSettings(
        max_expected_error=WANTED, workload=exponential(LAMBDA, network), max_regions=max_regions
    )
    steps: list[Row] = []
    started = perf_counter()

    def note(error: float, regions: int) -> bool:
        seconds = perf_counter() - started
        steps.append(
            {"inputs": count, "regions": regions, "expected_error": error, "seconds": seconds}
        )
        return False

    SolverWPlanner(network, settings=settings, stop=note)
    return steps


def _run_a(request: Request, progress: Progress) -> Outcome:
    max_regions = 20_000 if request.quick else 100_000
    rows: list[Row] = []
    for done, count in enumerate(INPUTS):
        progress(done, len(INPUTS), f"{count} inputs")
        rows += _converge(count, max_regions)
    progress(len(INPUTS), len(INPUTS), "done")
    return Outcome(rows, _findings_a(rows), partial(_draw_a, rows))


def _series(rows: Sequence[Row], count: int, column: str) -> list[float]:
    return [float(row[column] or 0.0) for row in rows if row["inputs"] == count]


def _findings_a(rows: Sequence[Row]) -> list[Finding]:
    note = "the paper plots curves over seconds: more inputs converge much more slowly"
    return [
        Finding(
            f"expected error reached for {count} inputs, percent",
            100.0 * _series(rows, count, "expected_error")[-1],
            note=f"{_series(rows, count, 'regions')[-1]:.0f} regions; {note}",
        )
        for count in INPUTS
    ]


def _draw_a(rows: Sequence[Row], figure: Figure) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for count, colour in zip(INPUTS, COLOURS, strict=False):
        errors = [100.0 * e for e in _series(rows, count, "expected_error")]
        left.loglog(_series(rows, count, "regions"), errors, color=colour, label=f"{count} inputs")
        right.loglog(_series(rows, count, "seconds"), errors, color=colour)
    left.legend()
    left.set_xlabel("regions")
    left.set_ylabel("expected maximum error, percent")
    right.set_xlabel("seconds")


def _fit_row(count: int, max_error: float, *, join: bool, repeats: int) -> Row:
    """A table's size and time, or the error's name where it would be too large."""
    settings = FitSettings(max_error=max_error, join_inputs=join)
    row = {"inputs": count, "max_error": max_error, "alike_inputs_joined": join}
    try:
        make = partial(FitPlanner, inputs(count), settings=settings)
        fit, seconds = fastest(make, repeats)
    except PlanningError:
        return {**row, "entries": None, "seconds": None, "refused": True}
    return {**row, "entries": fit.entries, "seconds": seconds, "refused": False}


def _run_b(request: Request, progress: Progress) -> Outcome:
    errors = (0.1, 0.5) if request.quick else (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
    repeats = 1 if request.quick else 3
    rows: list[Row] = []
    total = 2 * len(INPUTS) * len(errors)
    for join in (True, False):
        for count in INPUTS:
            for max_error in errors:
                progress(len(rows), total, f"{count} inputs at {max_error:.0%}")
                rows.append(_fit_row(count, max_error, join=join, repeats=repeats))
    progress(total, total, "done")
    return Outcome(rows, _findings_b(rows), partial(_draw_b, rows))


def _findings_b(rows: Sequence[Row]) -> list[Finding]:
    joined = next(
        r for r in rows if r["inputs"] == 8 and r["max_error"] == 0.1 and r["alike_inputs_joined"]
    )
    apart = {
        count: next(
            r["entries"]
            for r in rows
            if r["inputs"] == count and r["max_error"] == 0.5 and not r["alike_inputs_joined"]
        )
        for count in INPUTS
    }
    guarantee = (
        "each input apart, at 50 %, with an error guaranteed by look-up alone; "
        "None: more rows than the limit of the table"
    )
    return [
        Finding(
            "C-FIT for 8 inputs at 10 %, seconds",
            joined["seconds"],
            3600.0,
            "the paper: about an hour. Ours shares a column among inputs of equal cost",
        ),
        *(Finding(f"entries for {n} inputs", apart[n], note=guarantee) for n in INPUTS),
    ]


def _draw_b(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for join, line in ((True, "o-"), (False, "s--")):
        for count, colour in zip(INPUTS, COLOURS, strict=False):
            chosen = [
                (100.0 * float(r["max_error"] or 0.0), 1e3 * float(r["seconds"]))
                for r in rows
                if r["inputs"] == count
                and r["alike_inputs_joined"] is join
                and r["seconds"] is not None
            ]
            how = ("alike joined" if join else "apart") + ("" if chosen else ": too many rows")
            x, y = zip(*chosen, strict=True) if chosen else ((), ())
            axes.semilogy(x, y, line, color=colour, label=f"{count} inputs, {how}")
    axes.legend()
    axes.set_xlabel("maximum error, percent")
    axes.set_ylabel("plan generation, milliseconds")


FIGURE_14A = Experiment(
    "figure-14a",
    "The expected error of Solver-W against the work, for 2, 4 and 8 inputs",
    "Staying FIT (2007), figure 14(a)",
    _run_a,
)
FIGURE_14B = Experiment(
    "figure-14b",
    "Plan generation of C-FIT against the error, for 2, 4 and 8 inputs",
    "Staying FIT (2007), figure 14(b)",
    _run_b,
)
