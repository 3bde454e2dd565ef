from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headgate.errors import GuaranteesCollideError
from headgate.network import Network, parse_network
from headgate.planning import ExactPlanner
from headgate.planning.guarantees import gate_floors, keep_in_collision
from tests.random_networks import random_network

SPLIT = """\
network: split
nodes: {A: {capacity: 2}}
streams: {a: {rate: 400/s}}
operators:
  shared: {kind: delay, input: a, node: A, cost: 1ms, selectivity: 1}
  light: {kind: delay, input: shared, node: A, cost: 2ms, selectivity: 1}
  heavy: {kind: delay, input: shared, node: A, cost: 5ms, selectivity: 1}
queries:
  top: {input: light}
  bottom: {input: heavy, keep_at_least: 0.5}
"""


def test_gates_in_series_share_one_guarantee() -> None:
    planned = {"a->shared": 0.9, "shared->light": 0.1, "shared->heavy": 0.7}
    floors = gate_floors(parse_network(SPLIT), planned, {"bottom": 0.63})
    assert floors["shared->heavy"] == 0.7  # as planned: other loops act on the first gate
    assert floors["a->shared"] * floors["shared->heavy"] == pytest.approx(0.5)
    assert floors["shared->light"] == 0.0  # nothing is owed to the other branch


def test_without_a_plan_the_first_gate_has_the_guarantee() -> None:
    floors = gate_floors(parse_network(SPLIT))
    assert floors == {"a->shared": 0.5, "shared->light": 0.0, "shared->heavy": 1.0}
    assert gate_floors(parse_network(SPLIT.replace(", keep_at_least: 0.5", ""))) == {}


def test_two_guarantees_behind_one_gate() -> None:
    text = SPLIT.replace("{input: light}", "{input: light, keep_at_least: 0.2}")
    planned = {"a->shared": 1.0, "shared->light": 0.4, "shared->heavy": 1.0}
    floors = gate_floors(parse_network(text), planned, {"top": 0.4, "bottom": 1.0})
    assert floors == {"a->shared": 0.5, "shared->light": 0.4, "shared->heavy": 1.0}
    # Of what the first lets pass the second is 0.4: that is the 0.2 of the other query.


def test_gates_of_one_key_have_the_largest_floor_of_them() -> None:
    network = parse_network("""\
network: keys
nodes: {A: {capacity: 1}}
streams: {l: {rate: 10/s}, r: {rate: 10/s}, x: {rate: 10/s}}
operators:
  j: {kind: join, input: [l, r], node: A, cost: 1ms, selectivity: 0.1, windows: [5, 5], key: k}
  i: {kind: join, input: [j, x], node: A, cost: 1ms, selectivity: 0.1, windows: [5, 5], key: k}
queries: {q: {input: i, keep_at_least: 0.5}}
""")
    floors = gate_floors(network, {"l->j": 1.0, "r->j": 0.01, "x->i": 1.0}, {"q": 0.9})
    assert floors == {"l->j": 0.5, "r->j": 0.5, "x->i": 0.5}


def with_guarantees(network: Network, share: float) -> Network:
    queries = tuple(
        replace(q, keep_at_least=share if place % 2 == 0 else 0.0)
        for place, q in enumerate(network.queries)
    )
    return replace(network, queries=queries)


@pytest.mark.parametrize("seed", range(40))
def test_at_the_floors_every_query_has_its_guarantee(seed: int) -> None:
    """Also in networks with splits behind splits, unions and joins."""
    plain = random_network(np.random.default_rng(seed))
    rates = {s.name: (s.rate_per_second or 0.0) * 3.0 for s in plain.streams}
    fair = min(ExactPlanner(plain).plan(rates).query_keep_fraction.values())
    share = max(0.05, 0.5 * fair)
    network = with_guarantees(plain, share)
    plan = ExactPlanner(network).plan(rates)
    floors = gate_floors(network, plan.keep_fraction, plan.query_keep_fraction)
    model = plan.model
    keep = np.array([floors[arc.name] for arc in model.locations])
    assert np.all(keep <= plan.keep + 1e-9)
    full, low = model.unshed(plan.rates).delivered, model.evaluate(plan.rates, keep).delivered
    for place, query in enumerate(network.queries):
        assert low[place] >= query.keep_at_least * full[place] * (1 - 1e-6)


def test_where_guarantees_do_not_fit_nothing_is_left_for_others() -> None:
    text = SPLIT.replace("nodes: {A: {capacity: 2}}", "nodes: {A: {capacity: 2}, B: {capacity: 9}}")
    text = text.replace(
        "streams: {a: {rate: 400/s}}", "streams: {a: {rate: 400/s}, b: {rate: 1/s}}"
    )
    text = text.replace(
        "queries:\n",
        "  far: {kind: delay, input: b, node: B, cost: 1ms, selectivity: 1}\n"
        "queries:\n  other: {input: far}\n",
    )
    network = parse_network(text)
    with pytest.raises(GuaranteesCollideError) as caught:
        ExactPlanner(network).plan({"a": 900.0})
    assert keep_in_collision(network, caught.value.constraints) == {
        "a->shared": 0.5,
        "shared->light": 0.0,
        "shared->heavy": 1.0,
        "b->far": 1.0,  # on a node that has room
    }
    assert keep_in_collision(network, ())["b->far"] == 0.0
