"""The solver-w planner: expected error, order of work, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from headgate.errors import PlanningError, StatisticsError
from headgate.network import Network, NetworkBuilder
from headgate.planning.regions.solver import SolverPlanner, SolverSettings
from headgate.planning.regions.solver_w import SolverWPlanner, SolverWSettings
from headgate.planning.regions.workload import EmpiricalRates, ExponentialRates, Workload
from headgate.reproduce.networks import FIGURE9_COSTS_MS, figure9, table1

BOX = {"r1": 100.0, "r2": 100.0}
MEANS = ExponentialRates((12.0, 12.0))


def solver_w(network: Network, wanted: float, workload: Workload = MEANS) -> SolverWPlanner:
    settings = SolverWSettings(
        max_expected_error=wanted, workload=workload, max_rates_per_second=BOX
    )
    return SolverWPlanner(network, settings=settings)


def test_it_meets_the_expected_error() -> None:
    planner = solver_w(figure9("b"), 0.0144)
    assert planner.error_reached <= 0.0144
    assert planner.expected_error(MEANS) == pytest.approx(planner.error_reached)
    assert planner.error > 0.05
    assert planner.uncovered == pytest.approx(0.0)


@pytest.mark.parametrize("letter", FIGURE9_COSTS_MS)
def test_it_needs_fewer_corners_than_solver_for_the_same_expectation(letter: str) -> None:
    network = figure9(letter)
    solver = SolverPlanner(network, settings=SolverSettings(max_rates_per_second=BOX))
    same = solver_w(network, solver.expected_error(MEANS))
    assert same.tree.distinct_corners() < solver.tree.distinct_corners()


def test_it_divides_as_a_queue_worked_one_by_one_would() -> None:
    planner = solver_w(figure9("a"), 0.005)
    settings = planner.settings
    stepwise = SolverWPlanner(figure9("a"), settings=settings, stop=lambda _e, _n: True)
    while stepwise.error_reached > 0.005:
        stepwise.improve(divisions=1)
    assert stepwise.tree.count == planner.tree.count


def test_a_trace_makes_its_own_corner_of_the_box_precise() -> None:
    rng = np.random.default_rng(3)
    trace = EmpiricalRates(rng.normal((20.0, 5.0), 0.5, (300, 2)))
    planner = solver_w(figure9("d"), 0.005, trace)
    gaps = [planner.plan({"r1": a, "r2": b}).gap for a, b in trace.observed.tolist()]
    assert np.mean(gaps) <= 0.005
    assert planner.tree.count < solver_w(figure9("d"), 0.005).tree.count


def test_a_smaller_box_says_what_it_does_not_cover() -> None:
    settings = SolverWSettings(workload=MEANS, max_rates_per_second={"r1": 12.0, "r2": 12.0})
    planner = SolverWPlanner(figure9("b"), settings=settings)
    assert planner.uncovered == pytest.approx(1.0 - (1.0 - np.exp(-1.0)) ** 2)
    assert planner.summary()["uncovered"] == planner.uncovered


def test_the_described_rates_are_the_default_workload() -> None:
    planner = SolverWPlanner(table1())
    assert planner.workload == ExponentialRates((1.0, 1.0))
    assert planner.error_reached <= 0.01
    assert planner.plan({}).score == pytest.approx(0.6, rel=planner.error)


def test_rates_that_never_overload_need_one_region() -> None:
    planner = solver_w(figure9("b"), 0.01, EmpiricalRates(np.full((10, 2), 1.0)))
    assert planner.error_reached == 0.0
    assert planner.tree.count < 50


def test_it_is_picklable() -> None:
    planner = solver_w(figure9("c"), 0.02)
    copy = pickle.loads(pickle.dumps(planner))
    assert copy.plan({}).to_dict() == planner.plan({}).to_dict()


def test_a_workload_of_other_streams_is_refused() -> None:
    with pytest.raises(StatisticsError, match="describes 3 streams"):
        SolverWPlanner(table1(), settings=SolverWSettings(workload=ExponentialRates((1.0,) * 3)))


def test_no_described_rate_and_no_workload_is_refused() -> None:
    builder = NetworkBuilder("unknown")
    builder.node("N")
    builder.query("q", builder.delay("d", builder.stream("s"), "N", cost_seconds=1, selectivity=1))
    with pytest.raises(StatisticsError, match="no rate for stream 's'"):
        SolverWPlanner(builder.build())


@pytest.mark.parametrize("wanted", [0.0, 2.0, float("nan")])
def test_an_impossible_error_is_refused(wanted: float) -> None:
    with pytest.raises(PlanningError, match="max_expected_error"):
        SolverWSettings(max_expected_error=wanted)
