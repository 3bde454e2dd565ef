"""The exact planner: literal numbers, an independent formulation, and odd input."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from headgate.errors import GuaranteesCollideError, StatisticsError
from headgate.network import Network, NetworkBuilder, OperatorStatistics, Statistics
from headgate.planning import ExactPlanner, ExactSettings, Objective
from tests.planning.arc_program import best_score, unshed_rates
from tests.planning.networks import TABLE_1, chains, split
from tests.random_networks import random_network

FAIR = ExactSettings(objective=Objective.FAIRNESS)


def test_table_1_admits_a_fifth_and_two_fifths() -> None:
    plan = ExactPlanner(TABLE_1).plan({"r0": 1.0, "r1": 1.0})
    assert plan.keep_fraction == pytest.approx({"r0->o0_0": 0.2, "r1->o1_0": 0.4})
    assert plan.score == pytest.approx(0.6)
    assert plan.node_load == pytest.approx({"N0": 1.0, "N1": 1.0})
    assert plan.gap < 1e-9


def test_split_example_drops_60_percent_of_the_dear_branch() -> None:
    plan = ExactPlanner(split()).plan({})
    assert plan.keep_fraction == pytest.approx(
        {"r->shared": 1.0, "shared->cheap": 1.0, "shared->dear": 0.4}
    )
    assert plan.score == pytest.approx(0.28)


def test_beyond_a_third_the_input_is_dropped_and_the_dear_branch_gone() -> None:
    plan = ExactPlanner(split()).plan({"r": 1.0})
    assert plan.keep_fraction == pytest.approx(
        {"r->shared": 1 / 3, "shared->cheap": 1.0, "shared->dear": 0.0}
    )


def test_fairness_keeps_the_same_share_of_both() -> None:
    plan = ExactPlanner(TABLE_1, settings=FAIR).plan({})
    assert plan.query_keep_fraction == pytest.approx({"q0": 0.25, "q1": 0.25})
    assert plan.objective_value == pytest.approx(0.25)
    assert plan.gap < 1e-6


def test_fairness_gives_what_is_left_to_those_who_can_use_it() -> None:
    # q0 is limited by its own node N0 to a half; q1 shares nothing with it.
    builder = NetworkBuilder("two nodes")
    builder.node("A"), builder.node("B")
    builder.stream("a", 2.0), builder.stream("b", 1.25)
    builder.delay("oa", "a", "A", cost_seconds=1.0, selectivity=1.0)
    builder.delay("ob", "b", "B", cost_seconds=1.0, selectivity=1.0)
    builder.query("q0", "oa"), builder.query("q1", "ob")
    plan = ExactPlanner(builder.build(), settings=FAIR).plan({})
    assert plan.query_keep_fraction == pytest.approx({"q0": 0.5, "q1": 0.8})


def test_a_load_that_fits_is_kept_whole() -> None:
    plan = ExactPlanner(TABLE_1).plan({"r0": 0.1, "r1": 0.2})
    assert not plan.sheds
    assert plan.gap == 0.0


def test_a_guarantee_is_met_and_costs_score() -> None:
    free = ExactPlanner(split()).plan({})
    held = ExactPlanner(split(keep_at_least=0.5)).plan({})
    assert held.query_keep_fraction["q_dear"] == pytest.approx(0.5)
    assert held.score < free.score
    assert held.gap < 1e-6
    assert held.unmet_guarantees == ()


def test_fairness_with_a_guarantee_holds_both() -> None:
    network = chains([(1.0,), (1.0,)])
    queries = (replace(network.queries[0], keep_at_least=0.8), network.queries[1])
    plan = ExactPlanner(replace(network, queries=queries), settings=FAIR).plan({})
    assert plan.query_keep_fraction == pytest.approx({"q0": 0.8, "q1": 0.2})


def test_colliding_guarantees_are_named_without_bystanders() -> None:
    network = chains([(1.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
    queries = tuple(replace(q, keep_at_least=0.6) for q in network.queries)
    planner = ExactPlanner(replace(network, queries=queries))
    with pytest.raises(GuaranteesCollideError, match="q0, q1 do not fit together on N0") as error:
        planner.plan({"r2": 1.5})
    assert error.value.queries == ("q0", "q1")
    assert error.value.constraints == ("N0",)


def test_after_a_collision_the_planner_still_works() -> None:
    network = split(keep_at_least=0.6)
    planner = ExactPlanner(network)
    with pytest.raises(GuaranteesCollideError):
        planner.plan({"r": 1.0})
    assert planner.plan({"r": 0.15}).score == pytest.approx(
        ExactPlanner(network).plan({"r": 0.15}).score
    )


def test_a_bandwidth_limit_is_kept() -> None:
    builder = NetworkBuilder("link")
    builder.node("A", 10.0), builder.node("B", 10.0)
    builder.link("A", "B", 100.0)
    builder.stream("r", 4.0)
    builder.map("a", "r", "A", cost_seconds=0.1, tuple_bytes=50.0)
    builder.map("b", "a", "B", cost_seconds=0.1)
    builder.query("q", "b")
    plan = ExactPlanner(builder.build()).plan({})
    assert plan.link_load == pytest.approx({"A->B": 100.0})
    assert plan.keep_fraction == pytest.approx({"r->a": 0.5})


def test_measured_statistics_stand_in_front_of_the_description() -> None:
    measured = Statistics({"o0_1": OperatorStatistics(cost_seconds=0.5)})
    assert ExactPlanner(TABLE_1, measured).plan({}).score > ExactPlanner(TABLE_1).plan({}).score


@pytest.mark.parametrize("seed", range(60))
def test_equal_to_an_independent_formulation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    rates = {
        s.name: float((s.rate_per_second or 0.0) * rng.uniform(0.2, 3)) for s in network.streams
    }
    plan = ExactPlanner(network).plan(rates)
    best = best_score(network, rates)
    assert best is not None
    assert plan.score == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert plan.model.is_feasible(plan.flow)
    assert plan.gap < 1e-6


@pytest.mark.parametrize("seed", range(30))
def test_guarantees_equal_to_an_independent_formulation(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    network = random_network(rng)
    queries = tuple(
        replace(q, keep_at_least=float(rng.choice([0, 0.1, 0.4]))) for q in network.queries
    )
    network = replace(network, queries=queries)
    rates = {s.name: s.rate_per_second or 0.0 for s in network.streams}
    best = best_score(network, rates, guarantees=True)
    if best is None:
        with pytest.raises(GuaranteesCollideError):
            ExactPlanner(network).plan(rates)
        return
    plan = ExactPlanner(network).plan(rates)
    assert plan.score == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert plan.unmet_guarantees == ()


@pytest.mark.parametrize("seed", range(30))
def test_a_collision_is_minimal(seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    network = random_network(rng)
    queries = tuple(replace(q, keep_at_least=0.9) for q in network.queries)
    network = replace(network, queries=queries)
    rates = {s.name: s.rate_per_second or 0.0 for s in network.streams}
    try:
        ExactPlanner(network).plan(rates)
    except GuaranteesCollideError as error:
        named = set(error.queries)

        def with_only(kept: set[str]) -> Network:
            return replace(
                network,
                queries=tuple(
                    q if q.name in kept else replace(q, keep_at_least=0.0) for q in network.queries
                ),
            )

        assert best_score(with_only(named), rates, guarantees=True) is None
        for name in named:
            assert best_score(with_only(named - {name}), rates, guarantees=True) is not None


@pytest.mark.parametrize("seed", range(20))
def test_score_never_falls_when_rates_rise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    planner = ExactPlanner(network)
    rates = np.array([s.rate_per_second or 0.0 for s in network.streams])
    scores = [planner.plan_rates(rates * factor).score for factor in (0.1, 0.5, 1.0, 2.0, 8.0)]
    assert all(b >= a * (1 - 1e-7) - 1e-12 for a, b in pairwise(scores))


@pytest.mark.parametrize("seed", range(30))
def test_fairness_lifts_the_lowest_query_as_far_as_any_plan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    rates = {s.name: s.rate_per_second or 0.0 for s in network.streams}
    plan = ExactPlanner(network, settings=FAIR).plan(rates)
    assert plan.gap < 1e-6
    full = unshed_rates(network, rates)
    lowest = min((plan.query_keep_fraction[n] for n, r in full.items() if r > 0), default=1.0)
    assert plan.objective_value == pytest.approx(lowest)


def test_the_same_answer_whatever_was_asked_before() -> None:
    network = random_network(np.random.default_rng(12))
    warm = ExactPlanner(network)
    for factor in (5.0, 0.1, 3.0):
        warm.plan({s.name: (s.rate_per_second or 1.0) * factor for s in network.streams})
    rates = {s.name: (s.rate_per_second or 1.0) * 2.0 for s in network.streams}
    assert warm.plan(rates).score == pytest.approx(ExactPlanner(network).plan(rates).score)


# --- odd input --------------------------------------------------------------------------


def test_zero_rates_shed_nothing() -> None:
    plan = ExactPlanner(TABLE_1).plan({"r0": 0.0, "r1": 0.0})
    assert plan.score == 0.0
    assert not plan.sheds


def test_zero_capacity_keeps_nothing_that_costs() -> None:
    plan = ExactPlanner(chains([(1.0,), (0.0,)], capacities=[0.0])).plan({})
    assert plan.keep_fraction == {"r0->o0_0": 0.0, "r1->o1_0": 1.0}
    assert plan.node_load == {"N0": 0.0}


def test_a_weight_of_zero_gets_what_is_left_over() -> None:
    network = chains([(1.0, 0.0), (0.0, 1.0)], weights=[1.0, 0.0])
    plan = ExactPlanner(network).plan({"r0": 2.0, "r1": 0.5})
    assert plan.keep_fraction == pytest.approx({"r0->o0_0": 0.5, "r1->o1_0": 1.0})


def test_weights_of_very_different_size_are_all_served() -> None:
    network = chains([(1.0, 0.0), (1.0, 0.0), (0.0, 1.0)], weights=[1e12, 1.0, 1e-6])
    plan = ExactPlanner(network).plan({"r0": 0.6, "r1": 1.0, "r2": 0.5})
    assert plan.keep_fraction == pytest.approx(
        {"r0->o0_0": 1.0, "r1->o1_0": 0.4, "r2->o2_0": 1.0}, abs=1e-6
    )


def test_a_thousand_inputs() -> None:
    rng = np.random.default_rng(3)
    network = chains(rng.random((1000, 3)).tolist(), weights=rng.random(1000).tolist())
    plan = ExactPlanner(network).plan({})
    assert plan.gap < 1e-6
    assert plan.model.is_feasible(plan.flow)


def test_tiny_costs_and_large_rates() -> None:
    network = chains([(1e-7, 3e-7), (2e-7, 1e-7)])
    plan = ExactPlanner(network).plan({"r0": 1e7, "r1": 1e7})
    assert plan.keep_fraction == pytest.approx({"r0->o0_0": 0.2, "r1->o1_0": 0.4})


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(StatisticsError, match="r0"):
        ExactPlanner(TABLE_1).plan({"r0": rate})


def test_an_unknown_stream_is_refused() -> None:
    with pytest.raises(StatisticsError, match="unknown streams orders"):
        ExactPlanner(TABLE_1).plan({"orders": 1.0})


def test_a_plan_can_be_pickled_and_printed() -> None:
    plan = ExactPlanner(TABLE_1).plan({})
    assert pickle.loads(pickle.dumps(plan)).score == plan.score
    assert plan.to_dict()["keep_fraction"]["r1->o1_0"] == pytest.approx(0.4)


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_of_a_plan_is_its_own_whenever_it_is_asked_for(seed: int) -> None:
    network = random_network(np.random.default_rng(seed))
    planner = ExactPlanner(network)
    rates = np.array([3.0 * (s.rate_per_second or 1.0) for s in network.streams])
    asked_at_once = planner.plan_rates(rates)
    bound = asked_at_once.objective_bound
    asked_late = planner.plan_rates(rates)
    planner.plan_rates(5.0 * rates)  # the solver has other prices now
    assert asked_late.objective_bound == pytest.approx(bound, rel=1e-9)
    assert pickle.loads(pickle.dumps(asked_late)).objective_bound == asked_late.objective_bound
    assert asked_late.gap < 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_a_thinned_flow_is_the_flow_of_thinner_inputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = ExactPlanner(random_network(rng)).model
    rates, keep = rng.exponential(10.0, len(model.inputs)), rng.random(len(model.locations))
    thinned = model.evaluate(rates, keep).thinned(0.7, model.entering)
    keep[model.entering] *= 0.7
    followed = model.evaluate(rates, keep)
    for name in ("offered", "kept", "loads", "delivered", "score"):
        assert getattr(thinned, name) == pytest.approx(getattr(followed, name), rel=1e-12)
