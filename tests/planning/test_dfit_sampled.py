"""Nodes that only talk to their neighbours: equal to the centralised form."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headgate.errors import NetworkError, PlanningError
from headgate.network import Network
from headgate.planning.exact import ExactPlanner
from headgate.planning.sampled_tables.dfit_sampled import SampledDfit, SampledDfitSettings, deliver
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.planning.sampled_tables.fit_delta import apply_delta, table_delta
from headgate.planning.sampled_tables.fit_messages import FitMessage, Kind
from headgate.planning.sampled_tables.fit_node import FitNode
from headgate.planning.sampled_tables.node_part import node_parts
from headgate.reproduce.networks import figure9, inputs, table1
from tests.random_networks import random_network

COARSE_VALUES: dict[str, Any] = {"max_error": 0.3, "max_entries": 15_000}
COARSE = FitSettings(**COARSE_VALUES)


def changed(network: Network, operator: str, **numbers: float | str) -> Network:
    operators = tuple(replace(o, **numbers) if o.name == operator else o for o in network.operators)
    return replace(network, operators=operators)


def centralised(network: Network, settings: FitSettings = COARSE) -> FitPlanner | None:
    try:
        return FitPlanner(network, settings=settings)
    except PlanningError:
        return None


def assert_equal(nodes: SampledDfit, planner: FitPlanner) -> None:
    assert set(nodes.nodes) == set(planner.tables)
    for name, table in planner.tables.items():
        assert nodes.nodes[name].table.same_rows(table)


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_the_centralised_form(seed: int) -> None:
    rng = np.random.default_rng((5, seed))
    network = random_network(rng, tree=True, max_streams=3)
    planner = centralised(network)
    if planner is None:
        return
    nodes = SampledDfit(network, settings=SampledDfitSettings(**COARSE_VALUES))
    assert_equal(nodes, planner)
    usual = np.array([s.rate_per_second or 0.0 for s in network.streams])
    for _ in range(3):
        rates = usual * rng.uniform(0.2, 3.0, len(usual))
        one, other = planner.plan_rates(rates), nodes.plan_rates(rates)
        assert other.keep == pytest.approx(one.keep, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("threshold", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(8))
def test_after_changes(seed: int, threshold: float) -> None:
    rng = np.random.default_rng((6, seed))
    network = random_network(rng, tree=True, max_streams=3)
    if centralised(network) is None:
        return
    nodes = SampledDfit(network, settings=SampledDfitSettings(**COARSE_VALUES, threshold=threshold))
    usual = np.array([s.rate_per_second or 0.0 for s in network.streams])
    for _ in range(3):
        operator = network.operators[int(rng.integers(len(network.operators)))]
        network = changed(
            network,
            operator.name,
            cost_seconds=(operator.cost_seconds or 0.0) * float(rng.uniform(0.7, 1.3)),
            selectivity=(operator.selectivity or 0.0) * float(rng.uniform(0.7, 1.3)),
        )
        planner = centralised(network)
        if planner is None:
            return
        nodes.change(network)
        if threshold == 0.0:
            assert_equal(nodes, planner)
        best = ExactPlanner(network)
        for _ in range(3):
            rates = usual * rng.uniform(0.2, 3.0, len(usual))
            plan = nodes.plan_rates(rates)
            assert nodes.model.is_feasible(plan.flow, tolerance=1e-9)
            assert plan.objective_bound >= best.plan_rates(rates).score * (1.0 - 1e-9)


def test_an_operator_moves_to_the_other_node() -> None:
    network = table1()
    nodes = SampledDfit(network)
    moved = changed(network, "r1.A", node="B")
    nodes.change(moved)
    planner = centralised(moved, FitSettings())
    assert planner is not None
    assert_equal(nodes, planner)
    nodes.change(network)
    planner = centralised(network, FitSettings())
    assert planner is not None
    assert_equal(nodes, planner)


@pytest.mark.parametrize("seed", range(12))
def test_operators_move_about(seed: int) -> None:
    """Arcs, parents and columns change; offers and answers cross on their way."""
    rng = np.random.default_rng((9, seed))
    network = random_network(rng, tree=True, max_streams=3, links=False)
    if centralised(network) is None:
        return
    nodes = SampledDfit(network, settings=SampledDfitSettings(**COARSE_VALUES))
    for _ in range(6):
        operator = network.operators[int(rng.integers(len(network.operators)))]
        place = network.nodes[int(rng.integers(len(network.nodes)))].name
        try:
            moved = changed(network, operator.name, node=place)
        except NetworkError:  # nodes would send to each other in a circle
            continue
        planner = centralised(moved)
        if planner is None:
            continue
        network = moved
        nodes.change(network)
        assert_equal(nodes, planner)


def test_a_small_change_sends_a_difference() -> None:
    network = figure9("b")
    nodes = SampledDfit(network)
    assert nodes.traffic.messages == {Kind.OFFER: 1, Kind.LIMITS: 1, Kind.TABLE: 1}
    full = nodes.traffic.size_bytes[Kind.TABLE]
    assert full == nodes.nodes["server2"].table.wire_bytes
    traffic = nodes.change(changed(network, "r1.2", cost_seconds=0.0325))
    assert Kind.TABLE not in traffic.messages
    assert traffic.size_bytes[Kind.DELTA] < full / 2
    assert nodes.change(nodes.model.network).messages == {}


def test_only_the_affected_nodes_speak() -> None:
    """A change at the root alone moves no table below it, unless limits move."""
    network = figure9("b")
    nodes = SampledDfit(network)
    traffic = nodes.change(changed(network, "r1.1", cost_seconds=0.0645))
    assert traffic.rows.get(Kind.TABLE, 0) == 0
    planner = centralised(nodes.model.network, FitSettings())
    assert planner is not None
    assert_equal(nodes, planner)


@pytest.mark.parametrize("threshold", [0.0, 0.02, 0.1])
def test_a_threshold_trades_quality_for_traffic(threshold: float) -> None:
    network = inputs(2)
    old = FitPlanner(network).tables["server2"]
    new = FitPlanner(changed(network, "r1.2", selectivity=0.9)).tables["server2"]
    delta = table_delta(old, new, threshold)
    copy = apply_delta(old, delta)
    if threshold == 0.0:
        assert copy.same_rows(new)
        return
    assert delta.added < table_delta(old, new).added
    for rates, score in zip(new.rates, new.scores, strict=True):
        below = np.all(copy.rates <= rates * (1 + 1e-12), axis=1)
        assert np.max(copy.scores[below], initial=0.0) >= (1 - threshold) ** 2 * score - 1e-12
    for rates in copy.rates:
        assert np.any(np.all(new.rates >= rates * (1 - 1e-12), axis=1))


def test_messages_survive_json_in_any_order_of_start() -> None:
    parts = node_parts(inputs(4))
    planner = FitPlanner(inputs(4))
    for order in (list(parts), list(reversed(parts))):
        nodes = {name: FitNode(parts[name]) for name in order}
        messages = [message for name in order for message in nodes[name].start()]
        deliver(nodes, messages, as_json=True)
        for name, table in planner.tables.items():
            assert nodes[name].table.same_rows(table)


def test_a_message_is_plain_json() -> None:
    node = FitNode(node_parts(table1())["B"])
    (message,) = node.start()
    assert message.kind is Kind.OFFER
    assert FitMessage.from_json(message.to_json()) == message
    assert json.loads(message.to_json())["body"]["offer"]["column_worth"] == [1.0, 1.0]
    assert message.size_bytes > 0


def test_a_difference_that_does_not_fit_is_refused() -> None:
    parts = node_parts(table1())
    node = FitNode(parts["A"])
    body = {"removed": [], "rates": [], "scores": [], "planned": [], "loss": 0, "rows_before": 3}
    with pytest.raises(PlanningError, match="ask it for the full table"):
        node.handle(FitMessage("B", "A", Kind.DELTA, body))


def test_a_table_without_values_is_refused() -> None:
    planner = FitPlanner(table1())
    body = planner.tables["B"].to_dict()
    body["scores"] = [float("nan")] * len(body["scores"])
    node = FitNode(node_parts(table1())["A"])
    with pytest.raises(PlanningError, match="without a value"):
        node.handle(FitMessage("B", "A", Kind.TABLE, body))


def test_a_node_that_waits_says_so() -> None:
    node = FitNode(node_parts(table1())["A"])
    assert node.start() == []
    with pytest.raises(PlanningError, match="still waits"):
        _ = node.table


def test_picklable() -> None:
    nodes = SampledDfit(table1())
    again = pickle.loads(pickle.dumps(nodes))
    assert again.plan({}).keep_fraction == nodes.plan({}).keep_fraction


def test_settings_are_checked() -> None:
    with pytest.raises(PlanningError, match="threshold"):
        SampledDfitSettings(threshold=1.0)
    with pytest.raises(PlanningError, match="max_error"):
        SampledDfitSettings(max_error=2.0)


def test_columns_that_change_need_the_full_table() -> None:
    """At selectivity 0.5 the inputs of (64, 32) become interchangeable on the second server."""
    network = inputs(2)
    after = changed(network, "r1.2", selectivity=0.5)
    old, new = (FitPlanner(n).tables["server2"] for n in (network, after))
    assert (old.columns, new.columns) == (2, 1)
    with pytest.raises(PlanningError, match="send the full table"):
        table_delta(old, new)
    nodes = SampledDfit(network)
    assert nodes.change(after).messages[Kind.TABLE] == 1
    planner = centralised(after, FitSettings())
    assert planner is not None
    assert_equal(nodes, planner)
