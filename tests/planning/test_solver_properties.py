"""Solver plans on random networks against the exact planner."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from headgate.network import Network
from headgate.planning import ExactPlanner, Plan
from headgate.planning.regions import optimal_pieces
from headgate.planning.regions.region_planner import RegionPlanner
from headgate.planning.regions.solver import SolverPlanner, SolverSettings
from headgate.planning.regions.solver_w import SolverWPlanner, SolverWSettings
from tests.random_networks import random_network

SEEDS = range(60)


def network_of(seed: int) -> Network:
    """A random network; every fifth has a node without capacity."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    if seed % 5:
        return network
    dead = int(rng.integers(len(network.nodes)))
    nodes = (replace(n, capacity=0.0) if i == dead else n for i, n in enumerate(network.nodes))
    return replace(network, nodes=tuple(nodes))


def points(planner: RegionPlanner, seed: int, count: int = 12) -> np.ndarray:
    """Usual and extreme rates, and a corner of a region."""
    rng = np.random.default_rng(1000 + seed)
    usual = np.array([s.rate_per_second for s in planner.model.network.streams])
    near = usual * rng.uniform(0.0, 3.0, (count, len(usual)))
    far = usual * rng.choice([0.0, 0.1, 1.0, 50.0], (count // 2, len(usual)))
    corner = np.zeros((1, len(usual)))
    corner[0, planner.useful.streams] = planner.tree.tops(np.array([planner.tree.count // 2]))[0]
    return np.concatenate([near, far, corner])


def check(planner: RegionPlanner, plan: Plan, best: Plan) -> None:
    model = planner.model
    assert model.is_feasible(plan.flow)
    assert np.all((plan.keep >= 0.0) & (plan.keep <= 1.0))
    assert plan.objective_bound >= best.score * (1.0 - 1e-9)
    assert plan.score >= best.score * (1.0 - planner.error) * (1.0 - 1e-7)
    assert plan.gap <= planner.error + 1e-7
    if model.is_feasible(model.unshed(plan.rates), tolerance=0.0):
        assert not plan.sheds


@pytest.mark.parametrize("seed", SEEDS)
def test_feasible_within_the_error_and_honest(seed: int) -> None:
    network = network_of(seed)
    planner = SolverPlanner(network, settings=SolverSettings(max_error=0.1, max_regions=6000))
    exact = ExactPlanner(network)
    for rates in points(planner, seed):
        check(planner, planner.plan_rates(rates), exact.plan_rates(rates))


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_stopped_early_it_is_still_honest(seed: int) -> None:
    network = network_of(seed)
    planner = SolverPlanner(network, stop=lambda _error, regions: regions > 100)
    exact = ExactPlanner(network)
    for rates in points(planner, seed):
        check(planner, planner.plan_rates(rates), exact.plan_rates(rates))


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_solver_w_keeps_the_same_promises(seed: int) -> None:
    network = network_of(seed)
    planner = SolverWPlanner(network, settings=SolverWSettings(max_regions=6000))
    exact = ExactPlanner(network)
    for rates in points(planner, seed):
        check(planner, planner.plan_rates(rates), exact.plan_rates(rates))


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_the_same_network_gives_the_same_plans(seed: int) -> None:
    network = network_of(seed)
    settings = SolverSettings(max_regions=2000)
    one, two = (SolverPlanner(network, settings=settings) for _ in range(2))
    copy = pickle.loads(pickle.dumps(one))
    for rates in points(one, seed):
        keep = one.plan_rates(rates).keep.tolist()
        assert two.plan_rates(rates).keep.tolist() == keep
        assert copy.plan_rates(rates).keep.tolist() == keep


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_corner_scores_are_those_of_the_exact_planner(seed: int) -> None:
    planner = SolverPlanner(network_of(seed), settings=SolverSettings(max_regions=2000))
    exact = ExactPlanner(planner.model.network)
    rng = np.random.default_rng(seed)
    streams = planner.useful.streams
    at = planner.useful.useful_rates * rng.uniform(0.0, 1.0, (20, len(streams)))
    scores = planner.pieces.scores(at)
    for point, lower, upper in zip(at, scores.lower, scores.upper, strict=True):
        rates = np.zeros(len(planner.model.inputs))
        rates[streams] = point
        best = exact.plan_rates(rates).score
        assert lower == pytest.approx(best, rel=1e-6, abs=1e-12)
        assert upper == pytest.approx(best, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_without_room_for_pieces_the_solver_answers_every_corner(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(seed)
    settings = SolverSettings(max_regions=200)
    usual = SolverPlanner(network, settings=settings)
    monkeypatch.setattr(optimal_pieces, "MAX_PIECES", 1)
    bare = SolverPlanner(network, settings=settings)
    assert bare.pieces.count == 1
    assert bare.tree.count == usual.tree.count
    assert bare.error_reached == pytest.approx(usual.error_reached, rel=1e-6)
    exact = ExactPlanner(network)
    for rates in points(bare, seed):
        plan, best = bare.plan_rates(rates), exact.plan_rates(rates)
        assert bare.model.is_feasible(plan.flow)
        assert plan.score >= best.score * (1.0 - bare.error) * (1.0 - 1e-7)
        assert plan.objective_bound >= best.score * (1.0 - 1e-9)
