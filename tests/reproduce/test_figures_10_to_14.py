"""The shape of the papers' figures on plan generation. Never the seconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from headgate.reproduce.experiment import Experiment, Outcome, Request, Row
from headgate.reproduce.experiments.figure10 import FIGURE_10A, FIGURE_10B
from headgate.reproduce.experiments.figure11 import FIGURE_11A, FIGURE_11C
from headgate.reproduce.experiments.figure13 import FIGURE_13
from headgate.reproduce.experiments.figure14 import FIGURE_14A, FIGURE_14B
from headgate.reproduce.figures import new_figure

ALL = [FIGURE_10A, FIGURE_10B, FIGURE_11A, FIGURE_11C, FIGURE_13, FIGURE_14A, FIGURE_14B]


@cache
def outcome(experiment_name: str) -> Outcome:
    experiment = next(e for e in ALL if e.name == experiment_name)
    return experiment.run(Request(quick=True), lambda _done, _total, _what: None)


def column(name: str, wanted: str, chosen: Callable[[Row], bool]) -> list[float]:
    return [float(row[wanted] or 0.0) for row in outcome(name).rows if chosen(row)]


@pytest.mark.parametrize("experiment", ALL, ids=lambda e: e.name)
def test_every_figure_has_rows_findings_and_a_picture(experiment: Experiment) -> None:
    result = outcome(experiment.name)
    assert result.rows
    assert result.findings
    figure = new_figure()
    result.draw(figure)
    assert figure.axes


def test_figure_10a_solver_is_more_sensitive_to_imbalance_than_fit() -> None:
    corners = column(
        "figure-10a", "corners", lambda r: r["planner"] == "solver" and r["box"] == "paper"
    )
    entries = column("figure-10a", "entries", lambda r: r["planner"] == "fit")
    assert corners == sorted(corners)
    assert corners[-1] / corners[0] > 5 * entries[-1] / entries[0]


def test_figure_10b_meets_the_papers_expected_error_with_fewer_corners() -> None:
    expected = column("figure-10b", "expected_error", lambda r: r["planner"] == "solver")
    assert sum(expected) / len(expected) == pytest.approx(0.0144, abs=0.0005)
    solver = column("figure-10b", "corners", lambda r: r["planner"] == "solver")
    solver_w = column("figure-10b", "corners", lambda r: r["planner"] == "solver-w")
    assert all(fewer < more for fewer, more in zip(solver_w, solver, strict=True))


@pytest.mark.parametrize("letter", "abcde")
def test_figure_11a_planning_grows_with_lambda(letter: str) -> None:
    corners = column("figure-11a", "corners", lambda r: r["network"] == letter)
    assert corners == sorted(corners)


def test_figure_11a_planning_grows_with_imbalance() -> None:
    corners = column("figure-11a", "corners", lambda r: r["lambda"] == 5.0)
    assert corners == sorted(corners)


def test_figure_11c_a_better_provisioned_system_plans_less() -> None:
    levels = column("figure-11c", "provision_level", lambda _row: True)
    corners = column("figure-11c", "corners", lambda _row: True)
    assert levels[0] == pytest.approx(0.2, abs=0.01)
    assert levels == sorted(levels)
    assert corners == sorted(corners, reverse=True)


def test_figure_13_both_grow_with_the_fan_out() -> None:
    for planner, wanted in (("solver", "corners"), ("fit", "entries")):
        sizes = column("figure-13", wanted, lambda r, p=planner: r["planner"] == p)
        assert sizes == sorted(sizes)
        assert sizes[-1] > 2 * sizes[0]


def test_figure_14a_more_inputs_converge_more_slowly() -> None:
    reached = {}
    for count in (2, 4, 8):
        errors = column("figure-14a", "expected_error", lambda r, n=count: r["inputs"] == n)
        assert errors == sorted(errors, reverse=True)
        reached[count] = errors[-1]
    assert reached[2] < reached[4] < reached[8]


def test_figure_14b_tables_explode_with_inputs_that_are_apart() -> None:
    def entries(count: int) -> Row:
        return next(
            r
            for r in outcome("figure-14b").rows
            if r["inputs"] == count and r["max_error"] == 0.5 and not r["alike_inputs_joined"]
        )

    assert float(entries(4)["entries"] or 0.0) > 10 * float(entries(2)["entries"] or 0.0)
    assert entries(8)["refused"]
