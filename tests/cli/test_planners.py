"""Planners are found by looking, and options go where a planner has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.cli.planners import complete_planner, make_planner, planner_classes
from headgate.errors import UsageError
from headgate.network import load_network
from headgate.planning import ExactPlanner, Objective
from tests.cli.conftest import Headgate


def test_the_default_comes_first_and_is_exact() -> None:
    assert next(iter(planner_classes().items())) == ("exact", ExactPlanner)


@pytest.mark.parametrize("name", planner_classes())
def test_every_planner_plans_from_the_command_line(
    headgate: Headgate, two_chains: Path, name: str
) -> None:
    result = headgate("plan", two_chains, "--planner", name)
    assert result.exit_code == 0, result.output
    assert f"planner {name}" in result.stdout


def test_an_unknown_planner_gets_the_nearest_name(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains, "--planner", "exakt")
    assert result.exit_code == 2
    assert "unknown planner 'exakt'; did you mean 'exact'?" in result.stderr


def test_an_option_that_does_not_apply_is_refused(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains, "--max-error", "5%")
    assert result.exit_code == 2
    assert "the planner 'exact' has no --max-error" in result.stderr


def test_options_become_settings(two_chains: Path) -> None:
    network = load_network(two_chains)
    planner = make_planner("exact", network, {"objective": Objective.FAIRNESS})
    assert isinstance(planner, ExactPlanner)
    assert planner.settings.objective is Objective.FAIRNESS


def test_an_option_of_no_planner_says_so(two_chains: Path) -> None:
    with pytest.raises(UsageError, match="no planner has it; leave it out"):
        make_planner("exact", load_network(two_chains), {"wings": 2})


def test_completion_offers_names_with_what_they_do() -> None:
    [(name, what)] = complete_planner("exa")
    assert name == "exact"
    assert what
    assert complete_planner("zzz") == []
