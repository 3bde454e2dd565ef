"""Small networks without a solver: literal numbers, the general solver, and when to ask it."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.network import Network
from headgate.planning import ExactPlanner, compile_flow
from headgate.planning import exact as exact_module
from headgate.planning.small_program import small_program
from headgate.reproduce.networks import fan_out, figure9, inputs
from tests.planning.networks import TABLE_1, chains, split
from tests.random_networks import random_network


def general(network: Network, monkeypatch: pytest.MonkeyPatch) -> ExactPlanner:
    """A planner that asks HiGHS even for a small network."""
    with monkeypatch.context() as patch:
        patch.setattr(exact_module, "small_program", lambda _: None)
        return ExactPlanner(network)


def test_table_1_in_numbers() -> None:
    model = compile_flow(TABLE_1)
    program = small_program(model)
    assert program is not None
    found = program.solve(model.unshed(np.array([1.0, 1.0])))
    assert found is not None
    kept, prices = found
    assert kept == pytest.approx([0.2, 0.4])
    assert prices == pytest.approx([0.4, 0.2])  # 1 + 3 and 2 + 1 at these prices are worth 1


def test_behind_a_split() -> None:
    model = compile_flow(split())
    program = small_program(model)
    assert program is not None
    found = program.solve(model.unshed(np.array([0.2])))
    assert found is not None
    assert found[0] == pytest.approx([0.2, 0.2, 0.08])


@pytest.mark.parametrize("seed", range(150))
def test_as_good_as_the_general_solver(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    mine, other = ExactPlanner(network), general(network, monkeypatch)
    usual = np.array([s.rate_per_second or 1.0 for s in network.streams])
    for rates in (usual, 3.0 * usual, usual * rng.exponential(1.0, len(usual))):
        plan, expected = mine.plan_rates(rates), other.plan_rates(rates)
        assert plan.score == pytest.approx(expected.score, rel=1e-9, abs=1e-12)
        assert plan.gap < 1e-6
        assert plan.model.is_feasible(plan.flow)


@pytest.mark.parametrize("network", [figure9("a"), figure9("e"), inputs(8), fan_out(2)])
def test_no_solver_is_made_for_the_papers_networks(network: Network) -> None:
    planner = ExactPlanner(network)
    rates = np.array([100.0 * s.rate_per_second for s in planner.model.network.streams])
    assert planner.plan_rates(rates).gap < 1e-9
    assert planner._program is None


def test_a_large_network_or_one_without_capacity_is_for_the_general_solver() -> None:
    assert small_program(compile_flow(chains([(1.0, 1.0)] * 33))) is None
    assert small_program(compile_flow(chains([(1.0,), (0.0,)], capacities=[0.0]))) is None


def test_no_input_at_all_is_not_shed() -> None:
    assert ExactPlanner(TABLE_1).plan({"r0": 0.0, "r1": 0.0}).keep_fraction == {
        "r0->o0_0": 1.0,
        "r1->o1_0": 1.0,
    }


def test_an_input_that_rests_keeps_everything() -> None:
    plan = ExactPlanner(TABLE_1).plan({"r0": 0.0, "r1": 1.0})
    assert plan.keep_fraction == pytest.approx({"r0->o0_0": 1.0, "r1->o1_0": 0.5})


@pytest.mark.parametrize("factor", [1e-6, 1e-4, 1e-2, 1e4, 1e7])
def test_a_rate_that_leaves_its_scale_and_comes_back(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = random_network(np.random.default_rng(7))
    planner = general(network, monkeypatch)
    usual = np.array([3.0 * (s.rate_per_second or 1.0) for s in network.streams])
    away = usual.copy()
    away[0] *= factor
    for rates in (usual, away, usual, away):
        plan = planner.plan_rates(rates)
        fresh = general(network, monkeypatch).plan_rates(rates)
        assert plan.score == pytest.approx(fresh.score, rel=1e-7)
        assert plan.gap < 1e-6


@pytest.mark.parametrize("weight", [1e-3, 1e-5, 1e-6, 1e-8, 0.0])
def test_small_weights_get_what_is_left_on_either_way(
    weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = chains([(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)], weights=[1.0, weight, weight])
    rates = {"r0": 2.0, "r1": 1.0, "r2": 0.5}
    for planner in (ExactPlanner(network), general(network, monkeypatch)):
        assert planner.plan(rates).keep_fraction == pytest.approx(
            {"r0->o0_0": 0.5, "r1->o1_0": 0.0, "r2->o2_0": 1.0}, abs=1e-6
        )
