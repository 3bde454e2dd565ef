"""The experiments on tables: the papers' numbers, and the shape of the figures."""

from __future__ import annotations

from fractions import Fraction

import pytest

from headgate.reproduce.experiment import Experiment, Outcome, Request
from headgate.reproduce.experiments.figure15 import FIGURE_15A, FIGURE_15B, FIGURE_15C
from headgate.reproduce.experiments.split_example import SPLIT_EXAMPLE
from headgate.reproduce.experiments.spread_example import SPREAD_EXAMPLE, best_entry, entries
from headgate.reproduce.experiments.table1 import TABLE_1, fair_share
from headgate.reproduce.experiments.table3 import TABLE_3, least_entries
from headgate.reproduce.figures import new_figure

ALL = (TABLE_1, SPREAD_EXAMPLE, SPLIT_EXAMPLE, TABLE_3, FIGURE_15A, FIGURE_15B, FIGURE_15C)


def run(experiment: Experiment) -> Outcome:
    return experiment.run(Request(quick=True), lambda *_: None)


def found(outcome: Outcome) -> dict[str, object]:
    return {finding.what: finding.ours for finding in outcome.findings}


@pytest.mark.parametrize("experiment", ALL, ids=lambda e: e.name)
def test_runs_and_draws(experiment: Experiment) -> None:
    outcome = run(experiment)
    assert outcome.rows
    figure = new_figure()
    outcome.draw(figure)
    assert figure.axes


def test_table_1_in_every_cell() -> None:
    outcome = run(TABLE_1)
    for finding in outcome.findings:
        if finding.what.startswith("plan "):
            assert finding.ours == finding.paper, finding.what
        else:
            assert finding.ours == pytest.approx(finding.paper, rel=0.01), finding.what


def test_fair_share() -> None:
    third, half = Fraction(1, 3), Fraction(1, 2)
    assert fair_share((Fraction(1), Fraction(1)), (1, 2)) == (third, third)
    assert fair_share((Fraction(1, 4), Fraction(1)), (1, 1)) == (Fraction(1, 4), Fraction(3, 4))
    assert fair_share((Fraction(0), half), (3, 1)) == (0, half)


def test_spread_example() -> None:
    numbers = found(run(SPREAD_EXAMPLE))
    assert numbers["entries"] == 48
    assert numbers["entries, spreads added up in double precision"] == 46
    assert numbers["entries of the fit planner"] == 48
    assert numbers["observed (0.5, 0.5): reduced r1"] == 0.15
    assert numbers["observed (0.5, 0.5): load"] == 0.95
    assert numbers["observed (0.5, 0.5): score"] == 0.575
    tenth, half = Fraction(1, 10), Fraction(1, 2)
    assert best_entry(entries((tenth, tenth / 2)), (half, half)) == (tenth, half)


def test_split_example() -> None:
    for finding in run(SPLIT_EXAMPLE).findings:
        assert finding.ours == pytest.approx(finding.paper, rel=2e-3), finding.what


def test_table_3() -> None:
    numbers = found(run(TABLE_3))
    for count in (2, 4, 8):
        assert numbers[f"{count} inputs: largest error seen"] <= 0.1  # type: ignore[operator]
        assert numbers[f"{count} inputs: bytes per entry"] == 25
    assert [least_entries(count, 0.1) for count in (2, 4, 8)] == [1, 100, 1_000_000]


def test_figure_15a_fewer_entries_for_more_error_and_more_load() -> None:
    rows = run(FIGURE_15A).rows
    for sampling in ("share", "absolute"):
        for load in (1.0, 0.25):
            sizes = [r["entries"] for r in rows if r["sampling"] == sampling and r["load"] == load]
            assert sizes == sorted(sizes, reverse=True)  # type: ignore[type-var]
    by_load = [r["entries"] for r in rows if r["sampling"] == "absolute" and r["error"] == 0.1]
    assert by_load == sorted(by_load)  # type: ignore[type-var]


def test_figure_15b_more_for_a_larger_change_and_a_smaller_difference() -> None:
    rows = run(FIGURE_15B).rows
    share = {(str(r["change"]), float(r["difference"] or 0)): r["share"] for r in rows}
    changes = [f"selectivity {s}" for s in (0.9, 0.8, 0.7, 0.6, 0.5)]
    for change in changes:
        falling = [share[change, d / 10] for d in range(6)]
        assert falling == sorted(falling, reverse=True)  # type: ignore[type-var]
    for difference in (0.1, 0.2, 0.3):
        rising = [share[change, difference] for change in changes]
        assert rising == sorted(rising)  # type: ignore[type-var]


def test_figure_15c_some_entries_must_go_whatever_the_difference() -> None:
    rows = run(FIGURE_15C).rows
    last = [r for r in rows if r["change"] == "parent-to-child-24"]
    assert 0.05 < min(float(r["share"] or 0) for r in last) < 0.5
    assert all(float(r["share"] or 0) < 0.5 for r in rows)  # a difference, not the whole table
