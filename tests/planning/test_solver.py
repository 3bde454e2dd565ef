"""The solver planner: the papers' numbers, its limits, and bad input."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from headgate.errors import PlanningError, StatisticsError
from headgate.network import Network, NetworkBuilder
from headgate.planning import ExactPlanner, Plan
from headgate.planning.regions.solver import SolverPlanner, SolverSettings
from headgate.reproduce.networks import fan_out, figure9, inputs, split, table1


def solver(network: Network, **settings: object) -> SolverPlanner:
    return SolverPlanner(network, settings=SolverSettings(**settings))  # type: ignore[arg-type]


def only_root(network: Network, **settings: object) -> SolverPlanner:
    """A planner that has not divided anything yet."""
    return SolverPlanner(
        network,
        settings=SolverSettings(**settings),  # type: ignore[arg-type]
        stop=lambda _error, _regions: True,
    )


def test_table_1_within_the_error() -> None:
    plan = solver(table1(), max_error=0.01).plan({"r1": 1.0, "r2": 1.0})
    assert 0.6 * 0.99 <= plan.score <= 0.6 + 1e-12
    assert plan.objective_bound == pytest.approx(0.6)
    assert plan.gap <= 0.01


def test_a_point_takes_the_plan_of_its_regions_bottom() -> None:
    box = {"r1": 1.0, "r2": 1.0}
    planner = only_root(table1(), max_error=0.3, max_rates_per_second=box)
    assert planner.error_reached == 1.0
    assert planner.improve() <= 0.3
    rates = planner.model.rates({"r1": 0.6, "r2": 0.9})
    bottom = planner.tree.bottoms(np.array([planner.region_of(rates)]))[0]
    assert bottom.tolist() == [0.5, 0.5]
    plan = planner.plan_rates(rates)
    # the best plan at the bottom admits (1/5, 2/5); the scaled keep fractions lead there
    assert plan.keep_fraction == pytest.approx({"r1->r1.A": 0.2 / 0.6, "r2->r2.A": 0.4 / 0.9})
    assert plan.gap == pytest.approx(0.0, abs=1e-12)


def test_a_bottom_that_fits_is_kept_whole() -> None:
    planner = only_root(table1(), max_rates_per_second={"r1": 0.4, "r2": 0.8})
    planner.improve(divisions=1)
    plan = planner.plan({"r1": 0.25, "r2": 0.45})  # region from (0.2, 0.4), which just fits
    assert plan.keep_fraction == pytest.approx({"r1->r1.A": 0.2 / 0.25, "r2->r2.A": 0.4 / 0.45})
    assert plan.score == pytest.approx(0.6)


def test_the_split_example_drops_behind_the_split() -> None:
    planner = solver(split(), max_error=0.01)
    plan = planner.plan({"r": 0.2})
    assert 0.28 * 0.99 <= plan.score <= 0.28 + 1e-12
    assert plan.keep_fraction["shared->bottom"] < 0.5
    assert planner.summary()["max_rates_per_second"] == pytest.approx({"r": 0.5})


def test_beyond_the_useful_rate_nothing_changes() -> None:
    planner = solver(split(), max_error=0.02)
    at_end, beyond = planner.plan({"r": 1.0}), planner.plan({"r": 1e6})
    assert beyond.score == pytest.approx(at_end.score)
    assert beyond.gap <= 0.02


def test_beyond_a_smaller_box_the_gap_is_still_true() -> None:
    planner = solver(table1(), max_rates_per_second={"r1": 0.1, "r2": 0.1})
    rates = {"r1": 1.0, "r2": 1.0}
    plan = planner.plan(rates)
    best = ExactPlanner(table1()).plan(rates).score
    assert plan.score == pytest.approx(0.2)
    assert plan.objective_bound >= best - 1e-12
    assert plan.gap >= 1.0 - plan.score / best - 1e-12


def test_a_load_that_fits_is_never_shed() -> None:
    plan = solver(figure9("b")).plan({"r1": 10.0, "r2": 10.0})
    assert not plan.sheds
    assert plan.gap == 0.0


def test_a_single_run_of_the_solver_can_serve_many_corners() -> None:
    summary = solver(figure9("e"), max_rates_per_second={"r1": 100.0, "r2": 100.0}).summary()
    assert summary["solver_runs"] < 10
    assert summary["corners"] > 1000
    assert summary["met"]


def test_it_can_be_stopped_at_any_time_with_the_error_reached() -> None:
    errors = []

    def after_five(error: float, _regions: int) -> bool:
        errors.append(error)
        return len(errors) == 5

    planner = SolverPlanner(figure9("c"), settings=SolverSettings(max_error=0.01), stop=after_five)
    assert planner.error_reached == errors[-1] > 0.01
    assert not planner.summary()["met"]
    assert planner.plan({}).gap <= planner.error_reached
    before = planner.error_reached
    assert planner.improve(divisions=20) <= before
    assert planner.improve() <= 0.01


def test_dividing_in_steps_gives_the_same_regions() -> None:
    at_once = solver(figure9("d"))
    stepwise = only_root(figure9("d"))
    while stepwise.error_reached > 0.05:
        stepwise.improve(divisions=7)
    assert stepwise.tree.count == at_once.tree.count
    rates = {"r1": 13.0, "r2": 21.0}
    assert stepwise.plan(rates).keep.tolist() == pytest.approx(at_once.plan(rates).keep.tolist())


def test_the_region_limit_ends_the_division_with_an_honest_error() -> None:
    planner = solver(inputs(4), max_error=0.01, max_regions=500)
    assert planner.tree.count <= 500
    assert planner.error_reached > 0.01
    assert planner.plan({}).gap <= planner.error_reached


def test_too_many_inputs_are_refused_with_advice() -> None:
    with pytest.raises(PlanningError, match=r"12 streams.*exact planner"):
        solver(inputs(12))


def test_a_thousand_inputs_that_cost_nothing_are_no_trouble() -> None:
    builder = NetworkBuilder("wide")
    builder.node("N")
    for i in range(1000):
        builder.query(f"q{i}", builder.stream(f"s{i}", 5.0))
    dear = builder.delay("dear", builder.stream("t", 9.0), "N", cost_seconds=1.0, selectivity=1.0)
    builder.query("q", dear)
    plan = solver(builder.build()).plan({})
    assert plan.score == pytest.approx(5000.0 + 1.0, rel=1e-3)
    assert plan.keep_fraction["s7->q7"] == 1.0


def test_guaranteed_minimums_that_are_not_met_are_named() -> None:
    network = table1()
    held = replace(network.queries[0], keep_at_least=0.3)
    plan = solver(replace(network, queries=(held, network.queries[1]))).plan({})
    assert plan.unmet_guarantees == ("r1.out",)


def test_a_network_can_be_pickled_with_its_plans() -> None:
    planner = solver(fan_out(3))
    copy = pickle.loads(pickle.dumps(planner))
    assert copy.plan({}).to_dict() == planner.plan({}).to_dict()
    assert copy.improve() == planner.error_reached


def test_the_summary_is_plain_data() -> None:
    planner = solver(table1())
    summary = json.loads(json.dumps(planner.summary()))
    assert summary["regions"] == planner.tree.count
    assert summary["error_reached"] <= 0.05
    assert summary["planner"] == "solver"


@pytest.mark.parametrize("max_error", [0.0, -0.1, 1.5, float("nan")])
def test_an_impossible_error_is_refused(max_error: float) -> None:
    with pytest.raises(PlanningError, match="max_error"):
        SolverSettings(max_error=max_error)


@pytest.mark.parametrize(
    ("box", "message"), [({"x": 1.0}, "unknown streams x"), ({"r1": -1.0}, "at least 0")]
)
def test_an_impossible_box_is_refused(box: dict[str, float], message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        solver(table1(), max_rates_per_second=box)


def test_an_impossible_limit_is_refused() -> None:
    with pytest.raises(PlanningError, match="max_regions"):
        solver(table1(), max_regions=0)


# -- degenerate networks


def test_zero_rates_need_no_plan() -> None:
    assert not solver(table1()).plan({"r1": 0.0, "r2": 0.0}).sheds


def test_a_zero_max_rate_closes_the_stream_when_there_is_overload() -> None:
    planner = solver(table1(), max_rates_per_second={"r1": 0.0})
    plan = planner.plan({"r1": 1.0, "r2": 1.0})
    assert plan.keep_fraction["r1->r1.A"] == 0.0
    assert plan.score == pytest.approx(0.5, rel=0.05)
    assert plan.objective_bound >= 0.6 - 1e-9
    assert planner.summary()["regions"] < 50


def capacity_zero() -> Network:
    """Table 1 with a third stream whose node cannot do anything."""
    builder = NetworkBuilder("closed")
    builder.node("A")
    builder.node("dead", capacity=0.0)
    for name, node, cost in (("live", "A", 1.0), ("lost", "dead", 2.0)):
        source = builder.stream(name, 2.0)
        done = builder.delay(f"{name}.op", source, node, cost_seconds=cost, selectivity=1.0)
        builder.query(f"{name}.out", done)
    return builder.build()


def test_a_node_without_capacity_gets_nothing_and_costs_nobody() -> None:
    planner = solver(capacity_zero())
    assert planner.summary()["planned_streams"] == ["live"]
    plan = planner.plan({"live": 0.5, "lost": 1.0})
    assert plan.keep_fraction == {"live->live.op": 1.0, "lost->lost.op": 0.0}
    assert plan.gap == pytest.approx(0.0)
    overloaded = planner.plan({"live": 5.0, "lost": 1.0})
    assert overloaded.score == pytest.approx(1.0, rel=0.05)
    assert overloaded.node_load["dead"] == 0.0


def worthless(selectivity: float, weight: float) -> Network:
    builder = NetworkBuilder("worthless")
    builder.node("A")
    numbers = {"cost_seconds": 1.0}
    good = builder.delay("good", builder.stream("g", 0.5), "A", selectivity=1.0, **numbers)
    idle = builder.delay("idle", builder.stream("i", 2.0), "A", selectivity=selectivity, **numbers)
    builder.query("good.out", good)
    builder.query("idle.out", idle, weight=weight)
    return builder.build()


@pytest.mark.parametrize(("selectivity", "weight"), [(0.0, 1.0), (1.0, 0.0)])
def test_what_earns_nothing_gets_what_is_left(selectivity: float, weight: float) -> None:
    plan: Plan = solver(worthless(selectivity, weight)).plan({})
    assert plan.keep_fraction == pytest.approx({"g->good": 1.0, "i->idle": 0.25})
    assert plan.node_load["A"] == pytest.approx(1.0)
    assert plan.gap == pytest.approx(0.0)


def test_nothing_earns_anything() -> None:
    network = worthless(1.0, 0.0)
    network = replace(network, queries=tuple(replace(q, weight=0.0) for q in network.queries))
    plan = solver(network).plan({})
    assert plan.score == plan.gap == 0.0
    assert plan.node_load["A"] <= 1.0 + 1e-9


def test_weights_far_apart() -> None:
    network = table1()
    heavy = replace(network.queries[0], weight=1e12)
    network = replace(network, queries=(heavy, network.queries[1]))
    planner = solver(network)
    for rates in ({"r1": 1.0, "r2": 1.0}, {"r1": 0.1, "r2": 1.0}):
        plan, best = planner.plan(rates), ExactPlanner(network).plan(rates)
        assert plan.score >= best.score * 0.95
        assert plan.gap <= 0.05 + 1e-9


def test_a_free_branch_is_never_cut_off() -> None:
    builder = NetworkBuilder("free")
    builder.node("N")
    head = builder.delay("head", builder.stream("s", 1.0), "N", cost_seconds=0.0, selectivity=1.0)
    builder.query("free.out", head)
    builder.query("dear.out", builder.delay("dear", head, "N", cost_seconds=1.0, selectivity=1.0))
    planner = solver(builder.build())
    plan = planner.plan({"s": 1e4})
    assert plan.keep_fraction["head->free.out"] == plan.keep_fraction["s->head"] == 1.0
    assert plan.score == pytest.approx(1e4 + 1.0, rel=1e-5)
    assert plan.objective_bound == pytest.approx(1e4 + 1.0)
