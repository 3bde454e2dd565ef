"""The split example of both papers: shared cost 1, branches of cost 2 and 5.

Dropping behind the split beats dropping at the input, and makes the node look as if
it could take a rate of 1/3.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from headgate.planning.exact import ExactPlanner
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.planning.sampled_tables.local_plan import drop_order
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.networks import split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SPLIT_EXAMPLE"]

RATE = 0.2


def _row(planner: FitPlanner, exact: ExactPlanner, rate: float) -> Row:
    plan, best = planner.plan({"r": rate}), exact.plan({"r": rate})
    return {
        "rate": rate,
        "keep_input": plan.keep_fraction["r->shared"],
        "keep_top": plan.keep_fraction["shared->top"],
        "keep_bottom": plan.keep_fraction["shared->bottom"],
        "score": plan.score,
        "best_score": best.score,
        "score_input_only": 2.0 * min(rate, 1.0 / 8.0),
    }


def _findings(planner: FitPlanner, exact: ExactPlanner) -> list[Finding]:
    best = exact.plan({"r": RATE})
    ours = _row(planner, exact, RATE)
    shape = planner.trees[0].root_table.shape
    order = drop_order(shape)
    kept = order.keep(np.array([[RATE, 0.0, 0.0]]), np.array([1.0]))[0]
    return [
        Finding(
            "r = 0.2: dropped of the costlier branch",
            float(1 - kept[2] / kept[0]),
            0.6,
            note="local plan of the greedy order for exactly this rate",
        ),
        Finding("r = 0.2: score of the local plan", float(kept @ shape.reward), 0.28),
        Finding("r = 0.2: score of the exact planner", best.score, 0.28),
        Finding(
            "r = 0.2: score of the fit planner at 0.1 %",
            ours["score"],
            0.28,
            note="the input is scaled to the next entry below 0.2",
        ),
        Finding("r = 0.2: score of dropping at the input", ours["score_input_only"], 0.25),
        Finding("r = 0.2: dropped at the input in that case", 1.0 - 0.125 / RATE, 0.375),
        Finding(
            "largest rate that the parent sees", float(np.max(planner.tables["A"].rates)), 1.0 / 3.0
        ),
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    rates = [row["rate"] for row in rows]
    left.plot(rates, [row["score"] for row in rows], color=COLOURS[0], label="local plans")
    left.plot(
        rates, [row["score_input_only"] for row in rows], "--", color=COLOURS[1], label="input only"
    )
    left.plot([RATE, RATE], [0.28, 0.25], "o", color=COLOURS[2], label="the papers")
    left.set_ylabel("score")
    for column, label, colour in (
        ("keep_input", "input", COLOURS[0]),
        ("keep_top", "branch of cost 2", COLOURS[1]),
        ("keep_bottom", "branch of cost 5", COLOURS[2]),
    ):
        right.plot(rates, [row[column] for row in rows], color=colour, label=label)
    right.set_ylabel("keep fraction")
    for axes in (left, right):
        axes.set_xlabel("input rate, tuples/s")
        axes.legend()


def _run(request: Request, progress: Progress) -> Outcome:
    progress(0, 1, "rates")
    planner = FitPlanner(split(), settings=FitSettings(max_error=0.001))
    exact = ExactPlanner(split())
    count = 11 if request.quick else 101
    rows = [_row(planner, exact, rate) for rate in np.linspace(0.0, 0.5, count).tolist()]
    return Outcome(rows, _findings(planner, exact), partial(_draw, rows))


SPLIT_EXAMPLE = Experiment(
    "split-example",
    "Local plans behind a split",
    "Overload (2006), figure 3; Staying FIT (2007), figure 7",
    _run,
)
