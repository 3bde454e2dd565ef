"""Checks that every planner passes. Planners are found, not listed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import headgate.planning
from headgate.errors import PlanningError
from headgate.network import Network
from headgate.planning import ExactPlanner
from tests.planning.networks import TABLE_1, chains, split
from tests.random_networks import random_network

PLANNERS = {
    member.name: member
    for _, member in inspect.getmembers(headgate.planning, inspect.isclass)
    if isinstance(getattr(member, "name", None), str) and hasattr(member, "plan")
}
NETWORKS: dict[str, Network] = {
    "table 1": TABLE_1,
    "split": split(1.0),
    "zero cost": chains([(0.0, 1.0), (1.0, 0.0)]),
    "zero weight": chains([(1.0,), (1.0,)], weights=[0.0, 1.0]),
    "no capacity": chains([(1.0,), (0.0,)], capacities=[0.0]),
    **{
        f"tree {seed}": random_network(np.random.default_rng(seed), max_streams=2, tree=True)
        for seed in range(6)
    },
}


def planner_for(name: str, network: Network) -> Any:
    try:
        return PLANNERS[name](network)
    except PlanningError as refusal:
        assert_says_what_to_do(str(refusal))
        return None


def assert_says_what_to_do(refusal: str) -> None:
    assert "exact" in refusal or "raise" in refusal, refusal


def test_all_planners_are_found() -> None:
    assert set(PLANNERS) == {"exact", "solver", "solver-w", "fit", "dfit", "dfit-sampled"}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_feasible_and_never_better_than_its_own_bound(name: str, network: str) -> None:
    planner = planner_for(name, NETWORKS[network])
    if planner is None:
        return
    exact = ExactPlanner(NETWORKS[network])
    rng = np.random.default_rng(1)
    for factor in (0.01, 0.5, 1.0, 3.0):
        rates = {
            s.name: (s.rate_per_second or 0.0) * factor * float(rng.uniform(0.5, 1.5))
            for s in NETWORKS[network].streams
        }
        plan, best = planner.plan(rates), exact.plan(rates)
        assert plan.planner == name
        assert plan.model.is_feasible(plan.flow, 1e-7)
        assert plan.score <= best.score * (1 + 1e-6) + 1e-9
        assert plan.objective_bound >= best.score * (1 - 1e-6) - 1e-9
        assert all(0.0 <= keep <= 1.0 for keep in plan.keep_fraction.values())
        if not best.sheds:
            assert not plan.sheds
        assert planner.plan(rates).score == pytest.approx(plan.score)


@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_the_same_questions_get_the_same_answers(name: str) -> None:
    network = NETWORKS["tree 1"]
    if planner_for(name, network) is None:
        return
    rates = {s.name: 2.0 * (s.rate_per_second or 0.0) for s in network.streams}
    first, second = PLANNERS[name](network), PLANNERS[name](network)
    assert first.plan(rates).to_dict() == second.plan(rates).to_dict()


@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_an_idle_network_is_left_alone(name: str) -> None:
    plan = PLANNERS[name](TABLE_1).plan({"r0": 0.0, "r1": 0.0})
    assert not plan.sheds
    assert plan.score == 0.0
