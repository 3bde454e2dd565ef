"""The distributed planner: equal to exact, only neighbours talk, only differences travel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headgate.errors import PlanningError
from headgate.network import Network, NetworkBuilder, OperatorStatistics, Statistics
from headgate.planning import DfitPlanner, DfitSettings, ExactPlanner
from headgate.planning.cut_tables.table_messages import TableChanged
from headgate.planning.cut_tables.table_node import TableNode, TableNodeSettings
from headgate.planning.cut_tables.value_table import TableSettings
from tests.planning.networks import TABLE_1, split
from tests.random_networks import random_network


def rates_of(network: Network, factor: float = 1.0) -> dict[str, float]:
    return {s.name: (s.rate_per_second or 0.0) * factor for s in network.streams}


def assert_same_as_exact(planner: DfitPlanner, network: Network, rates: dict[str, float]) -> None:
    plan, exact = planner.plan(rates), ExactPlanner(network).plan(rates)
    assert plan.score == pytest.approx(exact.score, rel=1e-6, abs=1e-9)
    assert plan.model.is_feasible(plan.flow, 1e-8)
    assert plan.gap < 1e-5


def test_the_parent_sheds_for_its_child() -> None:
    planner = DfitPlanner(TABLE_1)
    plan = planner.plan({})
    assert plan.keep_fraction == pytest.approx(
        {"r0->o0_0": 0.2, "r1->o1_0": 0.4, "o0_0->o0_1": 1.0, "o1_0->o1_1": 1.0}
    )
    assert planner.rounds == 1


def test_one_table_travels_and_it_is_small() -> None:
    planner = DfitPlanner(TABLE_1)
    assert planner.nodes["N1"].table.rows == 3
    assert planner.bytes_sent < 200


def test_the_split_example_is_a_local_matter() -> None:
    plan = DfitPlanner(split()).plan({})
    assert plan.keep_fraction["shared->dear"] == pytest.approx(0.4)
    assert plan.score == pytest.approx(0.28)


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_equal_to_exact_on_trees_and_on_nodes_with_several_parents(seed: int, tree: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, tree=tree)
    planner = DfitPlanner(network)
    for factor in (0.3, 1.0, 3.0):
        assert_same_as_exact(planner, network, rates_of(network, factor))


def test_a_child_with_two_parents() -> None:
    builder = NetworkBuilder("diamond")
    for name in ("A", "B", "C"):
        builder.node(name)
    builder.stream("a", 2.0), builder.stream("b", 2.0), builder.stream("c", 1.0)
    builder.delay("oa", "a", "A", cost_seconds=0.7, selectivity=1.0)
    builder.delay("ob", "b", "B", cost_seconds=0.4, selectivity=1.0)
    builder.delay("ca", "oa", "C", cost_seconds=0.5, selectivity=1.0)
    builder.delay("cb", "ob", "C", cost_seconds=0.9, selectivity=1.0)
    builder.delay("cc", "c", "C", cost_seconds=0.2, selectivity=1.0)
    for name in ("ca", "cb", "cc"):
        builder.query(f"q_{name}", name)
    network = builder.build()
    planner = DfitPlanner(network)
    assert_same_as_exact(planner, network, rates_of(network))
    receivers = {name: node.recipient for name, node in planner.nodes.items()}
    assert receivers == {"C": "B", "B": "A", "A": None}


@pytest.mark.parametrize("seed", range(15))
def test_tables_cut_short_are_mended_by_rows_on_demand(seed: int) -> None:
    network = random_network(np.random.default_rng(seed), tree=True)
    short = TableSettings(max_rows=1, max_systems=0)
    planner = DfitPlanner(network, settings=DfitSettings(node=TableNodeSettings(tables=short)))
    assert_same_as_exact(planner, network, rates_of(network, 2.0))


def test_a_changed_cost_sends_a_difference_not_the_table() -> None:
    planner = DfitPlanner(TABLE_1)
    planner.plan({})
    before = planner.bytes_sent
    statistics = Statistics({"o0_1": OperatorStatistics(cost_seconds=2.0)})
    planner.change(TABLE_1, statistics)
    assert 0 < planner.bytes_sent - before < before
    changed = replace(
        TABLE_1,
        operators=tuple(
            replace(o, cost_seconds=2.0) if o.name == "o0_1" else o for o in TABLE_1.operators
        ),
    )
    assert_same_as_exact(planner, changed, rates_of(changed))


def test_a_change_in_the_root_sends_nothing() -> None:
    planner = DfitPlanner(TABLE_1)
    planner.plan({})
    before = planner.bytes_sent
    planner.change(TABLE_1, Statistics({"o0_0": OperatorStatistics(cost_seconds=1.5)}))
    assert planner.bytes_sent == before


@pytest.mark.parametrize("seed", range(15))
def test_an_operator_that_moves_to_another_node(seed: int) -> None:
    network = random_network(np.random.default_rng(seed), tree=True, links=False)
    planner = DfitPlanner(network)
    leaf = next(o for o in reversed(network.operators_in_order))
    parent = next((network.node_of(i) for i in leaf.inputs if network.node_of(i)), leaf.node)
    moved = replace(
        network,
        operators=tuple(
            replace(o, node=parent or o.node) if o.name == leaf.name else o
            for o in network.operators
        ),
    )
    planner.change(moved)
    assert_same_as_exact(planner, moved, rates_of(moved))
    planner.change(network)
    assert_same_as_exact(planner, network, rates_of(network))


def test_a_threshold_trades_quality_for_traffic() -> None:
    statistics = Statistics({"o0_1": OperatorStatistics(cost_seconds=3.03)})
    scores, sent = [], []
    for threshold in (0.0, 0.05):
        node = TableNodeSettings(resend_above=threshold)
        planner = DfitPlanner(TABLE_1, settings=DfitSettings(node=node))
        before = planner.bytes_sent
        planner.change(TABLE_1, statistics)
        sent.append(planner.bytes_sent - before)
        plan = planner.plan({})
        assert plan.model.is_feasible(plan.flow, 1e-8)
        scores.append(plan.score)
    assert sent[1] == 0 < sent[0]
    assert scores[0] * 0.95 <= scores[1] <= scores[0] * (1 + 1e-9)


def test_a_difference_that_does_not_fit_is_refused() -> None:
    node: TableNode = DfitPlanner(TABLE_1).nodes["N0"]
    inputs = ("o0_0->o0_1", "o1_0->o1_1")
    owners = ((0, "N0"), (0, "N0"))
    for wrong in (
        TableChanged("N1", "N0", inputs[:1], owners[:1], False, (), {}, 0.0),
        TableChanged("N1", "N0", inputs, owners, False, (99,), {}, 0.0),
        TableChanged("N1", "N0", inputs, owners, False, (), {7: (1.0,)}, 0.0),
        TableChanged("N1", "N0", inputs, owners, False, (), {7: (1.0, float("nan"), 0.0)}, 0.0),
    ):
        with pytest.raises(PlanningError):
            node.handle(wrong)
