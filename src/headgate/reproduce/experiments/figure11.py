"""Figure 11 of 2007: Solver-W against the provision level.

(a) Exponential rates: the load, and with it the planning, grows with lambda.
(c) A real trace: queries get cheaper, the system is provisioned better, planning shrinks.
Figure 11(b) is the distribution of the trace itself.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headgate.errors import UsageError
from headgate.network import Network
from headgate.planning import compile_flow
from headgate.planning.flow_model import Floats
from headgate.planning.regions.solver_w import SolverWPlanner, SolverWSettings
from headgate.planning.regions.workload import EmpiricalRates, Workload
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.networks import FIGURE9_COSTS_MS, figure9, two_servers
from headgate.reproduce.plan_generation import exponential, fastest, paper_box, region_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE_11A", "FIGURE_11C"]

MAX_EXPECTED_ERROR = 0.01
TRACE = "worldcup98_requests_per_minute.csv"
COSTS_MS = ((64, 32), (56, 28), (48, 24), (40, 20), (32, 16), (24, 12))
PROVISION = 0.2  # of the dearest queries, as in the paper


def _plan(network: Network, workload: Workload, repeats: int) -> Row:
    settings = SolverWSettings(
        max_expected_error=MAX_EXPECTED_ERROR,
        workload=workload,
        max_rates_per_second=paper_box(network),
    )
    planner, seconds = fastest(partial(SolverWPlanner, network, settings=settings), repeats)
    return region_row(planner, seconds)


def _fullest(network: Network, rates: Floats) -> Floats:
    """The load of the fullest server over its capacity, one row of rates each."""
    model = compile_flow(network)
    loads = rates[:, model.input_of] @ model.load.dense.T / model.capacities
    return np.asarray(np.max(loads, axis=1))


def _run_a(request: Request, progress: Progress) -> Outcome:
    lambdas = (1.0, 3.0, 5.0) if request.quick else tuple(float(i) for i in range(1, 9))
    rng = np.random.default_rng(request.seed)
    draws = rng.exponential(1.0, (20_000, 2))
    rows: list[Row] = []
    total = len(lambdas) * len(FIGURE9_COSTS_MS)
    for letter in FIGURE9_COSTS_MS:
        network = figure9(letter)
        for lambda_ in lambdas:
            progress(len(rows), total, f"network {letter}, lambda {lambda_:g}")
            workload = exponential(lambda_, network)
            fullest = _fullest(network, draws * np.array(workload.means_per_second))
            rows.append(
                {
                    "network": letter,
                    "lambda": lambda_,
                    "mean_per_second": workload.means_per_second[0],
                    "provision_level": float(np.mean(fullest <= 1.0)),
                    **_plan(network, workload, 1 if request.quick else 3),
                }
            )
    progress(total, total, "done")
    return Outcome(rows, _findings_a(rows), partial(_draw_a, rows))


def _series(rows: Sequence[Row], letter: str, column: str) -> list[float]:
    return [float(row[column] or 0.0) for row in rows if row["network"] == letter]


def _findings_a(rows: Sequence[Row]) -> list[Finding]:
    growth = [
        _series(rows, letter, "corners")[-1] / _series(rows, letter, "corners")[0]
        for letter in FIGURE9_COSTS_MS
    ]
    last = [_series(rows, letter, "corners")[-1] for letter in FIGURE9_COSTS_MS]
    note = "the paper plots seconds, without the threshold; ours is 1 %"
    return [
        Finding("corners at the largest lambda over the smallest, least of five", min(growth)),
        Finding(
            "corners at the largest lambda, network e over network a",
            last[-1] / last[0],
            note=note + "; planning grows with lambda and with the imbalance",
        ),
    ]


def _draw_a(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for letter, colour in zip(FIGURE9_COSTS_MS, COLOURS, strict=False):
        lambdas = _series(rows, letter, "lambda")
        axes.semilogy(lambdas, _series(rows, letter, "corners"), "o-", color=colour, label=letter)
    axes.legend(title="network")
    axes.set_xlabel("lambda (2.4 tuples per second each)")
    axes.set_ylabel("corners: LP runs of the paper's method")


def read_trace(path: Path) -> Floats:
    """Requests per second, one a minute of the trace."""
    if not path.is_file():
        raise UsageError(f"{path}: the trace is not there; give the directory that holds {TRACE}")
    with path.open(newline="", encoding="utf-8") as lines:
        return np.array([float(row["requests"]) / 60.0 for row in csv.DictReader(lines)])


def _trace(request: Request) -> tuple[str, Floats]:
    """The trace, or an exponential one in its place: the paper finds them much alike."""
    if request.data_directory is None:
        return "synthetic", np.random.default_rng(request.seed).exponential(100.0, 20_000)
    return TRACE, read_trace(request.data_directory / TRACE)


def _run_c(request: Request, progress: Progress) -> Outcome:
    source, trace = _trace(request)
    if request.quick:
        trace = trace[::10]
    observed = EmpiricalRates.from_trace(trace, 2, request.seed).observed
    fullest = _fullest(two_servers(COSTS_MS[0], "dearest"), observed)
    workload = EmpiricalRates(observed / np.quantile(fullest, PROVISION))
    rows: list[Row] = []
    for costs in COSTS_MS:
        progress(len(rows), len(COSTS_MS), f"costs {costs}")
        network = two_servers(costs, f"costs{costs[0]}")
        share = float(np.mean(_fullest(network, workload.observed) <= 1.0))
        rows.append(
            {
                "trace": source,
                "cost_ms": costs[0],
                "provision_level": share,
                **_plan(network, workload, 1 if request.quick else 3),
            }
        )
    progress(len(COSTS_MS), len(COSTS_MS), "done")
    return Outcome(rows, _findings_c(rows), partial(_draw_c, rows))


def _findings_c(rows: Sequence[Row]) -> list[Finding]:
    corners = [float(row["corners"] or 0.0) for row in rows]
    levels = [float(row["provision_level"] or 0.0) for row in rows]
    return [
        Finding(
            "provision level of (64, 32), percent",
            100.0 * levels[0],
            20.0,
            "set by scaling the trace, as the paper's trace has it",
        ),
        Finding(
            "corners at the lowest provision level over those at the highest",
            corners[0] / max(corners[-1], 1.0),
            note="the paper plots seconds that fall as the system is provisioned better",
        ),
    ]


def _draw_c(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    levels = [100.0 * float(row["provision_level"] or 0.0) for row in rows]
    axes.plot(levels, [float(row["corners"] or 0.0) for row in rows], "o-", color=COLOURS[0])
    axes.set_xlabel("provision level: observations that fit, percent")
    axes.set_ylabel("corners: LP runs of the paper's method")


FIGURE_11A = Experiment(
    "figure-11a",
    "Plan generation of Solver-W against lambda",
    "Staying FIT (2007), figure 11(a)",
    _run_a,
)
FIGURE_11C = Experiment(
    "figure-11c",
    "Plan generation of Solver-W against the provision level, on a trace",
    "Staying FIT (2007), figure 11(c)",
    _run_c,
)
