"""The benchmarks' baseline (the papers' method with GLPK) agrees with ours."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.glpk_quadtree import GlpkProgram, GlpkQuadtree

from headgate.network import Network
from headgate.planning import ExactPlanner, compile_flow
from headgate.planning.regions.solver import SolverPlanner, SolverSettings
from headgate.reproduce.networks import fan_out, figure9, split, table1
from tests.random_networks import random_network


@pytest.mark.parametrize("seed", range(15))
def test_scores_are_those_of_the_exact_planner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    program, exact = GlpkProgram(compile_flow(network)), ExactPlanner(network)
    for _ in range(5):
        rates = np.array([s.rate_per_second for s in network.streams]) * rng.uniform(0.5, 4.0)
        score, _ = program.score(rates)
        assert score == pytest.approx(exact.plan_rates(rates).score, rel=1e-6)


@pytest.mark.parametrize(
    ("network", "box"),
    [(figure9("a"), 50.0), (figure9("b"), 50.0), (table1(), 1.0), (split(), 1.0)],
)
def test_it_divides_as_the_solver_planner_does(network: Network, box: float) -> None:
    rates = {s.name: box for s in network.streams}
    ours = SolverPlanner(
        network, settings=SolverSettings(max_error=0.047, max_rates_per_second=rates)
    )
    baseline = GlpkQuadtree(network, rates)
    assert baseline.divide(0.047) == pytest.approx(ours.error_reached)
    assert baseline.regions == ours.tree.count
    assert baseline.corners == ours.tree.distinct_corners()
    assert ours.pieces.solver_runs < baseline.solver_runs


def test_it_can_be_limited() -> None:
    baseline = GlpkQuadtree(fan_out(4), {"r": 1000.0})
    assert baseline.divide(0.001, max_regions=9) > 0.001
    assert baseline.regions <= 9
