from __future__ import annotations

import pickle

import numpy
import pytest

from headgate.errors import NetworkError
from headgate.network import Arc, Network, NetworkBuilder
from tests.random_networks import random_network


def two_level_split() -> Network:
    """orders -> parsed -> {fraud -> alerts, totals -> {board, report}} on two nodes."""
    b = NetworkBuilder("two-level split")
    a, c = b.node("A"), b.node("C", capacity=2.0)
    # Listed against the flow on purpose.
    b.aggregate("totals", "parsed", node=c, cost_seconds=0.2, selectivity=0.5)
    b.filter("fraud", "parsed", node=a, cost_seconds=0.1, selectivity=0.1)
    b.map("parsed", "orders", node=a, cost_seconds=0.3)
    b.stream("orders", rate_per_second=2.0)
    b.query("alerts", "fraud")
    b.query("board", "totals")
    b.query("report", "totals")
    return b.build()


def test_arcs_are_operator_inputs_then_query_inputs_in_the_order_of_the_description():
    assert [arc.name for arc in two_level_split().arcs] == [
        "parsed->totals",
        "parsed->fraud",
        "orders->parsed",
        "fraud->alerts",
        "totals->board",
        "totals->report",
    ]


def test_drop_locations_are_input_arcs_and_split_arcs_upstream_first():
    assert two_level_split().drop_locations == (
        Arc("orders", "parsed"),
        Arc("parsed", "totals"),
        Arc("parsed", "fraud"),
        Arc("totals", "board"),
        Arc("totals", "report"),
    )


def test_operators_in_order_puts_each_after_what_feeds_it():
    order = [operator.name for operator in two_level_split().operators_in_order]
    assert order == ["parsed", "totals", "fraud"]


def test_arcs_from_has_every_source():
    network = two_level_split()
    assert set(network.arcs_from) == {"orders", "parsed", "fraud", "totals"}
    assert [arc.target for arc in network.arcs_from["totals"]] == ["board", "report"]


def test_node_of_knows_operators_only():
    network = two_level_split()
    assert network.node_of("totals") == "C"
    assert network.node_of("orders") is None
    assert network.node_of("alerts") is None


def test_children_of_lists_the_nodes_that_a_node_sends_to():
    assert dict(two_level_split().children_of) == {"A": ("C",), "C": ()}


def test_a_stream_that_feeds_a_query_directly_is_a_drop_location():
    b = NetworkBuilder("direct")
    b.node("A")
    b.stream("orders")
    b.query("all", "orders")
    assert b.build().drop_locations == (Arc("orders", "all"),)


def test_a_network_can_be_sent_to_another_process_after_it_was_used():
    network = two_level_split()
    assert network.drop_locations
    assert network.children_of
    assert pickle.loads(pickle.dumps(network)) == network


def test_a_network_that_exists_is_valid():
    with pytest.raises(NetworkError) as caught:
        Network("empty", (), (), (), ())
    assert [problem.field for problem in caught.value.problems] == [
        ("nodes",),
        ("streams",),
        ("queries",),
    ]


@pytest.mark.parametrize("seed", range(50))
def test_random_networks_are_ordered_and_consistent(seed: int):
    network = random_network(numpy.random.default_rng(seed))
    order = [operator.name for operator in network.operators_in_order]
    assert sorted(order) == sorted(operator.name for operator in network.operators)
    for operator in network.operators:
        for source in operator.inputs:
            if source in network.operator_by_name:
                assert order.index(source) < order.index(operator.name)
    assert sum(len(arcs) for arcs in network.arcs_from.values()) == len(network.arcs)
