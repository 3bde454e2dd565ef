"""The spread example of 2006: feasible points of node B with selectivities 0.5 and 1.

Exact arithmetic in fractions beside the planner's own table. Node B takes r1 at cost 3
and r2 at cost 1; the points (i s1, j s2) with 3 i s1 + j s2 <= 1 are its entries.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.networks import spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SPREAD_EXAMPLE", "best_entry", "entries"]

Point = tuple[Fraction, Fraction]

COSTS = (Fraction(3), Fraction(1))
SELECTIVITIES = (Fraction(1, 2), Fraction(1))
ERROR = Fraction(1, 10)
OBSERVED: Point = (Fraction(1, 2), Fraction(1, 2))


def spreads(error: Fraction, selectivities: Point) -> Point:
    """s_i = error / (m * selectivity_i) for m = 2 inputs."""
    return (error / (2 * selectivities[0]), error / (2 * selectivities[1]))


def entries(spread_by: Point) -> list[Point]:
    """All multiples of the spreads that the node can take."""
    found = []
    x = Fraction(0)
    while x * COSTS[0] <= 1:
        y = Fraction(0)
        while x * COSTS[0] + y * COSTS[1] <= 1:
            found.append((x, y))
            y += spread_by[1]
        x += spread_by[0]
    return found


def score(point: Point) -> Fraction:
    return point[0] * SELECTIVITIES[0] + point[1] * SELECTIVITIES[1]


def best_entry(table: list[Point], observed: Point) -> Point:
    """The entry of highest score at or below the observed rates."""
    below = [p for p in table if p[0] <= observed[0] and p[1] <= observed[1]]
    return max(below, key=score)


def _in_floats() -> int:
    """The same count in double precision, adding the spreads up."""
    count, x = 0, 0.0
    while 3.0 * x <= 1.0:
        y = 0.0
        while 3.0 * x + y <= 1.0:
            count += 1
            y += 0.05
        x += 0.1
    return count


def _findings(printed: list[Point], even: list[Point]) -> list[Finding]:
    settings = FitSettings(spread_error=float(ERROR), exclude_redundant=False)
    table = FitPlanner(spread(), settings=settings).tables["B"]
    fine = FitPlanner(spread(), settings=FitSettings(spread_error=float(ERROR) / 2))
    plan = fine.plan({"r1": 0.5, "r2": 0.5})
    coarse = best_entry(printed, OBSERVED)
    chosen = best_entry(even, OBSERVED)
    first, second = spreads(ERROR, SELECTIVITIES)
    return [
        Finding("spread of r1", float(first), 0.1),
        Finding("spread of r2", float(second), 0.05),
        Finding(
            "entries",
            len(printed),
            46,
            note="exact arithmetic; four points lie on the boundary, and a count in double "
            "precision loses two of them to rounding (which two depends on the order of sums)",
        ),
        Finding("entries, spreads added up in double precision", _in_floats(), 46),
        Finding("entries of the fit planner", len(table), 46, note="equal to exact arithmetic"),
        Finding("highest score in the table", float(max(map(score, printed))), 1.0),
        Finding(
            "observed (0.5, 0.5): reduced r1",
            float(chosen[0]),
            0.15,
            note="on a grid of 0.05 by 0.05, which is the paper's rule with both selectivities "
            f"1 ({len(even)} entries); the printed spreads 0.1 and 0.05 have no such point "
            f"and give ({coarse[0]}, {coarse[1]}) with score {float(score(coarse))}",
        ),
        Finding("observed (0.5, 0.5): reduced r2", float(chosen[1]), 0.5),
        Finding("observed (0.5, 0.5): load", float(3 * chosen[0] + chosen[1]), 0.95),
        Finding("observed (0.5, 0.5): score", float(score(chosen)), 0.575),
        Finding(
            "observed (0.5, 0.5): score of the fit planner at half the error",
            plan.score,
            0.575,
            note="spreads 0.05 and 0.025",
        ),
    ]


def _draw(rows: list[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for grid, colour, size in (("0.05 by 0.05", COLOURS[5], 12), ("as printed", COLOURS[0], 36)):
        chosen = [row for row in rows if row["grid"] == grid]
        axes.scatter(
            [float(row["r1"] or 0) for row in chosen],
            [float(row["r2"] or 0) for row in chosen],
            size,
            color=colour,
            label=grid,
        )
    axes.plot([0.0, 1 / 3], [1.0, 0.0], color=COLOURS[7], linewidth=1)
    axes.annotate("", (0.15, 0.5), (0.5, 0.5), arrowprops={"arrowstyle": "->"})
    axes.plot([0.5], [0.5], "x", color=COLOURS[1], label="observed")
    axes.set_xlabel("r1, tuples/s")
    axes.set_ylabel("r2, tuples/s")
    axes.legend()


def _run(request: Request, progress: Progress) -> Outcome:
    del request
    progress(0, 1, "feasible points")
    printed = entries(spreads(ERROR, SELECTIVITIES))
    even = entries(spreads(ERROR, (Fraction(1), Fraction(1))))
    rows: list[Row] = [
        {"grid": name, "r1": float(x), "r2": float(y), "score": float(score((x, y)))}
        for name, table in (("as printed", printed), ("0.05 by 0.05", even))
        for x, y in table
    ]
    return Outcome(rows, _findings(printed, even), partial(_draw, rows))


SPREAD_EXAMPLE = Experiment(
    "spread-example",
    "Feasible points of a node by even spreads",
    "Overload (2006), section 3.2, figure 2",
    _run,
)
