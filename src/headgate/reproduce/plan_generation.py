"""What the experiments on plan generation share: boxes, the unit of lambda, timing.

Seconds differ from machine to machine; regions and corners do not. A *corner* is a
point whose best score the papers' method asks its solver for, once, so corners say what
plan generation costs there; `solver_runs` is what our planners needed instead.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from headgate.network import Network
from headgate.planning.regions.region_planner import RegionPlanner
from headgate.planning.regions.workload import ExponentialRates
from headgate.reproduce.experiment import Row

__all__ = [
    "LAMBDA_UNIT_PER_SECOND",
    "PAPER_BOX_PER_SECOND",
    "exponential",
    "fastest",
    "paper_box",
    "region_row",
]

# The papers do not say where the rate space of figures 10 to 14 ends; figure 5 draws 100.
PAPER_BOX_PER_SECOND = 100.0

# Nor do they give a unit for lambda. With this one, lambda = 5 is a mean of 12 tuples/s a
# stream, and the average over the five networks of figure 9 of the expected error of a 5 %
# Solver run is the paper's 1.44 % (of the means tried, 10 to 50, none gives more than 1.54 %).
LAMBDA_UNIT_PER_SECOND = 2.4

T = TypeVar("T")


def fastest(make: Callable[[], T], repeats: int) -> tuple[T, float]:
    """The result, and the seconds of the fastest of `repeats` runs."""
    best = float("inf")
    for _ in range(repeats):
        started = perf_counter()
        result = make()
        best = min(best, perf_counter() - started)
    return result, best


def paper_box(network: Network) -> dict[str, float]:
    """The same maximum rate for every stream."""
    return {stream.name: PAPER_BOX_PER_SECOND for stream in network.streams}


def exponential(lambda_: float, network: Network) -> ExponentialRates:
    """Independent exponential rates with the papers' lambda."""
    return ExponentialRates.from_lambda(lambda_, len(network.streams), LAMBDA_UNIT_PER_SECOND)


def region_row(planner: RegionPlanner, seconds: float) -> Row:
    """What a planner of regions did, as cells of a row."""
    return {
        "planner": planner.name,
        "regions": planner.tree.count,
        "corners": planner.tree.distinct_corners(),
        "solver_runs": planner.pieces.solver_runs,
        "error_reached": planner.error_reached,
        "met": planner.error_reached <= planner.error_wanted,
        "seconds": seconds,
    }
