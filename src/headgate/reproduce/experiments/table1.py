"""Table 1 of both papers: five ways for node A to shed, and what each does to node B.

Exact arithmetic in fractions. A fair scheduler gives every subquery the same number of
tuples, as far as it has them, until the capacity is used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from headgate.planning.exact import ExactPlanner
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.networks import table1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TABLE_1", "fair_share"]

Rates = tuple[Fraction, Fraction]

COSTS_A, COSTS_B = (1, 2), (3, 1)
PLANS: tuple[Rates, ...] = (
    (Fraction(1), Fraction(1)),
    (Fraction(1, 3), Fraction(1, 3)),
    (Fraction(1), Fraction(0)),
    (Fraction(0), Fraction(1, 2)),
    (Fraction(1, 5), Fraction(2, 5)),
)
# Per plan: A.load, A.throughput, B.load, B.throughput, as the papers print them.
PAPER = (
    ("3", "1/3, 1/3", "4/3", "1/4, 1/4"),
    ("1", "1/3, 1/3", "4/3", "1/4, 1/4"),
    ("1", "1, 0", "3", "1/3, 0"),
    ("1", "0, 1/2", "1/2", "0, 1/2"),
    ("1", "1/5, 2/5", "1", "1/5, 2/5"),
)
MAX_ERROR = 0.01


def fair_share(rates: Rates, costs: tuple[int, int]) -> Rates:
    """Tuples per second that a fair scheduler of capacity 1 processes of each query."""
    if _load(rates, costs) <= 1:
        return rates
    level = Fraction(1, sum(costs))
    low = min(rates)
    if low < level:  # one query has less than its share; the other gets the rest
        first_is_low = rates[0] <= rates[1]
        rest = (1 - low * costs[0 if first_is_low else 1]) / costs[1 if first_is_low else 0]
        return (low, rest) if first_is_low else (rest, low)
    return (level, level)


def _load(rates: Rates, costs: tuple[int, int]) -> Fraction:
    return rates[0] * costs[0] + rates[1] * costs[1]


def _pair(rates: Rates) -> str:
    return f"{rates[0]}, {rates[1]}"


def _row(number: int, rates: Rates) -> Row:
    on_a = fair_share(rates, COSTS_A)
    on_b = fair_share(on_a, COSTS_B)
    return {
        "plan": number,
        "reduced_rates": _pair(rates),
        "a_load": str(_load(rates, COSTS_A)),
        "a_throughput": _pair(on_a),
        "b_load": str(_load(on_a, COSTS_B)),
        "b_throughput": _pair(on_b),
        "a_load_value": float(_load(rates, COSTS_A)),
        "b_load_value": float(_load(on_a, COSTS_B)),
        "delivered": float(sum(on_b)),
    }


def _findings(rows: Sequence[Row]) -> list[Finding]:
    columns = ("a_load", "a_throughput", "b_load", "b_throughput")
    found = [
        Finding(
            f"plan {row['plan']}: {column.replace('_', '.').upper()[:2]}{column[2:]}",
            row[column],
            paper,
        )
        for row, line in zip(rows, PAPER, strict=True)
        for column, paper in zip(columns, line, strict=True)
    ]
    best = ExactPlanner(table1()).plan({})
    fit = FitPlanner(table1(), settings=FitSettings(max_error=MAX_ERROR)).plan({})
    return [
        *found,
        Finding("best total throughput", best.score, 0.6),
        Finding("best rate of r1", best.flow.kept[0].item(), 0.2),
        Finding("best rate of r2", best.flow.kept[1].item(), 0.4),
        Finding(
            f"total throughput of the fit planner at {MAX_ERROR:.0%}",
            fit.score,
            0.6,
            note="the entry of highest score below (1, 1); within the error of the best",
        ),
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    plans = [float(row["plan"] or 0) for row in rows]
    series = (
        ("a_load_value", "load of A"),
        ("b_load_value", "load of B"),
        ("delivered", "delivered tuples/s"),
    )
    for shift, ((column, label), colour) in enumerate(zip(series, COLOURS, strict=False)):
        values = [float(row[column] or 0) for row in rows]
        axes.bar([p + 0.27 * (shift - 1) for p in plans], values, 0.25, label=label, color=colour)
    axes.axhline(1.0, color=COLOURS[7], linewidth=1, linestyle="--")
    axes.set_xticks(plans, [f"plan {row['plan']}\n({row['reduced_rates']})" for row in rows])
    axes.legend()


def _run(request: Request, progress: Progress) -> Outcome:
    del request  # exact, and the same at any size
    progress(0, 1, "five plans")
    rows = [_row(number, rates) for number, rates in enumerate(PLANS)]
    return Outcome(rows, _findings(rows), partial(_draw, rows))


TABLE_1 = Experiment(
    "table-1",
    "Five load shedding plans for node A, and what they do to node B",
    "Overload (2006) and Staying FIT (2007), table 1",
    _run,
)
