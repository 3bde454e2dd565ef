"""Random trees: feasible, within the stated error of the exact planner, gap true."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.errors import PlanningError
from headgate.network import Network
from headgate.planning.exact import ExactPlanner
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.planning.sampled_tables.local_plan import drop_order
from tests.random_networks import random_network

SETTINGS = [
    FitSettings(max_error=0.3, max_entries=30_000),
    FitSettings(max_error=0.1, max_entries=30_000),
    FitSettings(max_error=0.3, max_entries=30_000, join_inputs=False, exclude_redundant=False),
]


def planner_for(network: Network, settings: FitSettings) -> FitPlanner | None:
    try:
        return FitPlanner(network, settings=settings)
    except PlanningError:  # too large; tests/planning/test_fit_edges.py has the messages
        return None


def points(rng: np.random.Generator, planner: FitPlanner) -> list[Floats]:
    """Rates around the usual ones, far from them, and just above what is feasible."""
    model = planner.model
    usual = np.array([s.rate_per_second or 0.0 for s in model.network.streams])
    found = [usual * rng.uniform(0.05, 3.0, len(usual)) for _ in range(4)]
    found += [usual * 10.0 ** rng.uniform(-3.0, 3.0, len(usual)) for _ in range(3)]
    for rates in list(found[:3]):
        loads = model.unshed(rates).loads
        fullest = float(np.max(loads / model.capacities))
        if fullest > 0.0:
            found.append(rates / fullest * (1.0 + 10.0 ** rng.uniform(-9.0, -1.0)))
    return found


def test_most_random_trees_have_a_table() -> None:
    """The tests below are not empty: few trees are refused for their size."""
    trees = [
        random_network(np.random.default_rng((2007, seed)), tree=True, max_streams=3)
        for seed in range(24)
    ]
    assert sum(planner_for(tree, SETTINGS[0]) is not None for tree in trees) >= 14


@pytest.mark.parametrize("settings", SETTINGS, ids=["30%", "10%", "30% as printed"])
@pytest.mark.parametrize("seed", range(24))
def test_within_the_stated_error(seed: int, settings: FitSettings) -> None:
    rng = np.random.default_rng((2007, seed))
    network = random_network(rng, tree=True, max_streams=2 if settings.max_error < 0.2 else 3)
    planner = planner_for(network, settings)
    if planner is None:
        return
    exact = ExactPlanner(network)
    for rates in points(rng, planner):
        plan, best = planner.plan_rates(rates), exact.plan_rates(rates).score
        assert planner.model.is_feasible(plan.flow, tolerance=1e-9)
        assert plan.score >= (1.0 - settings.max_error) * best - 1e-9
        assert plan.objective_bound >= best * (1.0 - 1e-9)
        assert plan.gap <= settings.max_error + 1e-9
        if planner.model.is_feasible(planner.model.unshed(rates), tolerance=0.0):
            assert not plan.sheds


@pytest.mark.parametrize("seed", range(12))
def test_even_spreads_lose_at_most_their_error(seed: int) -> None:
    rng = np.random.default_rng((2006, seed))
    network = random_network(rng, tree=True, max_streams=2, joins=False)
    exact = ExactPlanner(network)
    top = exact.plan({}).score
    if top <= 0.0:
        return
    settings = FitSettings(spread_error=0.2 * top, max_error=0.2, max_entries=30_000)
    planner = planner_for(network, settings)
    if planner is None:
        return
    share = planner.trees[0].budget.merge_share
    for rates in points(rng, planner):
        plan, best = planner.plan_rates(rates), exact.plan_rates(rates).score
        assert planner.model.is_feasible(plan.flow, tolerance=1e-9)
        assert plan.score >= share * best - 0.2 * top * len(planner.trees) - 1e-9
        assert plan.objective_bound >= best * (1.0 - 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_greedy_order_is_optimal_on_one_node(seed: int) -> None:
    """The order of drops fills one node as well as the linear program does."""
    rng = np.random.default_rng((7, seed))
    network = random_network(rng, max_nodes=1, links=False)
    planner = planner_for(network, FitSettings(max_error=0.9, join_inputs=False))
    if planner is None:
        return
    shape = planner.trees[0].root_table.shape
    order = drop_order(shape)
    exact = ExactPlanner(network)
    streams = list(network.stream_by_name)
    for _ in range(5):
        rates = rng.uniform(0.0, 5.0, len(streams))
        offered = np.zeros((1, len(shape.gain)))
        free = 0.0
        offer = shape.offer
        for arc, column, worth in zip(offer.arcs, offer.column_of, offer.free_worth, strict=True):
            rate = rates[streams.index(arc.split("->")[0])]
            free += worth * rate
            if column >= 0:
                offered[0, column] = rate
        kept = order.keep(offered, shape.capacities[:1])
        direct = sum(
            q.weight * rates[streams.index(q.input)] for q in network.queries if q.input in streams
        )
        score = float(kept[0] @ shape.reward) + free + direct
        best = exact.plan_rates(rates).score
        assert score == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_feasible_as_they_stand(seed: int) -> None:
    """Every row's rates and local plans keep every node and link within its limits."""
    rng = np.random.default_rng((11, seed))
    network = random_network(rng, tree=True, max_streams=2)
    planner = planner_for(network, FitSettings(max_error=0.4, max_entries=20_000))
    if planner is None:
        return
    streams = list(network.stream_by_name)
    for tree in planner.trees:
        table = tree.root_table.table
        for number in rng.choice(len(table), size=min(20, len(table)), replace=False).tolist():
            rates = np.zeros(len(streams))
            for arc, column, factor in zip(table.arcs, table.column_of, table.factor, strict=True):
                if column >= 0:
                    members = table.column_of.count(column)
                    stream = streams.index(arc.split("->")[0])
                    rate = table.rates[number, column] / factor / members
                    rates[stream] = max(rates[stream], rate)
            plan = planner.plan_rates(rates)
            assert planner.model.is_feasible(plan.flow, tolerance=1e-9)
            assert plan.score >= 0.6 * table.scores[number] - 1e-9
