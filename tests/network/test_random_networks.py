"""The generator that other property tests rely on keeps its promises."""

from __future__ import annotations

from collections import Counter

import numpy
import pytest

from headgate.network import Network, OperatorKind
from tests.random_networks import node_loads, random_network

SEEDS = range(300)


def networks(**options: bool) -> list[Network]:
    return [random_network(numpy.random.default_rng(seed), **options) for seed in SEEDS]


def several_parents(network: Network) -> bool:
    senders = Counter(child for children in network.children_of.values() for child in children)
    return any(count > 1 for count in senders.values())


def overload(network: Network) -> float:
    loads = node_loads(network)
    return max(loads[node.name] / node.capacity for node in network.nodes)


def test_the_seed_decides():
    assert networks()[:20] == networks()[:20]


def test_a_tree_has_one_parent_for_each_node_and_other_networks_need_not():
    assert not any(several_parents(network) for network in networks(tree=True))
    assert sum(several_parents(network) for network in networks()) > 20


def test_most_are_overloaded_and_none_by_much_more_than_four():
    overloads = [overload(network) for network in networks()]
    assert max(overloads) == pytest.approx(4.0, abs=0.1)
    assert sum(value > 1.0 for value in overloads) > 0.8 * len(overloads)


def test_joins_and_links_can_be_left_out():
    plain = networks(joins=False, links=False)
    assert not any(network.links for network in plain)
    assert not any(o.kind is OperatorKind.JOIN for network in plain for o in network.operators)


@pytest.mark.parametrize(
    "has",
    [
        lambda n: any(s.rate_per_second == 0 for s in n.streams),
        lambda n: any(o.selectivity == 0 for o in n.operators),
        lambda n: any(o.cost_seconds == 0 for o in n.operators),
        lambda n: any(q.weight == 0 for q in n.queries),
        lambda n: any(q.input in n.stream_by_name for q in n.queries),
        lambda n: bool(n.links),
        lambda n: any(o.kind is OperatorKind.JOIN and len(o.inputs) == 3 for o in n.operators),
        lambda n: any(o.kind is OperatorKind.UNION for o in n.operators),
        lambda n: any(len(n.arcs_from[o.name]) > 1 for o in n.operators),
        lambda n: n.operators != n.operators_in_order,
    ],
)
def test_the_rare_cases_are_there(has):  # type: ignore[no-untyped-def]
    assert sum(has(network) for network in networks()) >= 5
