from __future__ import annotations

import pytest

from headgate.errors import NetworkError
from headgate.network import Network, dump_network, parse_network
from headgate.planning import Drop, DropKind, ExactPlanner, drops_of

HEAD = """
network: n
nodes: {a: {capacity: 1}}
streams: {s: {rate: 10/s}, t: {rate: 10/s}}
operators:
"""
JOIN = "{kind: join, node: a, cost: 1ms, selectivity: 0.1, windows: [5, 5]"
AGGREGATE = "{kind: aggregate, node: a, cost: 1ms, selectivity: 0.1"
MAP = "{kind: map, node: a, cost: 1ms"


def network(operators: dict[str, str], queries: dict[str, str]) -> Network:
    lines = [f"  {name}: {text}" for name, text in operators.items()]
    outputs = [f"  {name}: {{input: {source}}}" for name, source in queries.items()]
    return parse_network(HEAD + "\n".join(lines) + "\nqueries:\n" + "\n".join(outputs) + "\n")


def shown(operators: dict[str, str], queries: dict[str, str]) -> dict[str, str]:
    return {arc: str(drop) for arc, drop in drops_of(network(operators, queries)).items()}


def test_a_key_drop_stands_above_a_join_and_a_window_drop_above_an_aggregate() -> None:
    operators = {
        "m": MAP + ", input: s}",
        "j": JOIN + ", input: [m, t], key: [customer, day]}",
        "g": AGGREGATE + ", input: m, window: 1min}",
    }
    drops = drops_of(network(operators, {"q": "j", "r": "g"}))
    assert {arc: str(drop) for arc, drop in drops.items()} == {
        "s->m": "random",  # its two branches want different drops
        "t->j": "key customer, day",
        "m->j": "key customer, day",
        "m->g": "window 60s",
    }
    assert drops["t->j"].why == "the join j pairs by customer, day"
    assert "the join j" in drops["s->m"].why
    assert "the aggregate g" in drops["s->m"].why


def test_only_the_first_operator_that_holds_tuples_counts() -> None:
    operators = {
        "j": JOIN + ", input: [s, t], key: customer}",
        "g": AGGREGATE + ", input: j, window: 1min}",
        "h": AGGREGATE + ", input: g, window: 1min}",
    }
    assert shown(operators, {"q": "h"}) == {"s->j": "key customer", "t->j": "key customer"}


def test_what_is_not_described_is_dropped_at_random_and_says_why() -> None:
    operators = {
        "j": JOIN + ", input: [s, t]}",
        "m": MAP + ", input: s}",
        "g": AGGREGATE + ", input: t}",
    }
    drops = drops_of(network(operators, {"q": "j", "r": "m", "u": "g"}))
    assert {str(drop) for drop in drops.values()} == {"random"}
    assert drops["s->j"].why == "the join j has no key in the description"
    assert drops["t->g"].why == "the aggregate g has no window in the description"
    assert drops["s->m"] == Drop()


@pytest.mark.parametrize(
    ("first", "second", "drop"),
    [
        ("window: 10s", "window: 1min", "window 60s"),
        ("window: 10s", "window: 15s", "random"),
        ("window: 10s, slide: 10s", "window: 10s", "window 10s"),
        ("window: 10s, slide: 5s", "window: 10s", "random"),
        ("window: 10s, slide: 5s", "window: 10s, slide: 5s", "window 10s/5s"),
    ],
)
def test_two_windows_behind_one_location(first: str, second: str, drop: str) -> None:
    operators = {
        "m": MAP + ", input: s}",
        "g": AGGREGATE + f", input: m, {first}}}",
        "h": AGGREGATE + f", input: m, {second}}}",
        "u": MAP + ", input: t}",
    }
    assert shown(operators, {"q": "g", "r": "h", "v": "u"})["s->m"] == drop


def test_joins_with_columns_in_common_share_these() -> None:
    operators = {
        "m": MAP + ", input: s}",
        "j": JOIN + ", input: [m, t], key: [customer, day]}",
        "k": JOIN + ", input: [m, t], key: [shop, customer]}",
    }
    assert shown(operators, {"q": "j", "r": "k"})["s->m"] == "key customer"


def test_the_plan_carries_the_drops_and_the_file_keeps_the_fields() -> None:
    operators = {
        "j": JOIN + ", input: [s, t], key: customer}",
        "g": AGGREGATE + ", input: s, window: 1min, slide: 10s}",
    }
    described = network(operators, {"q": "j", "r": "g"})
    assert parse_network(dump_network(described)) == described
    plan = ExactPlanner(described).plan({"s": 10.0, "t": 10.0}).to_dict()
    assert plan["drops"]["s->g"] == {
        "kind": "window",
        "window_seconds": 60.0,
        "slide_seconds": 10.0,
        "why": "the aggregate g has window 60s/10s",
    }
    assert plan["drops"]["t->j"]["kind"] == DropKind.KEY
    assert plan["drops"]["t->j"]["key"] == ["customer"]


@pytest.mark.parametrize(
    ("operator", "field", "message"),
    [
        (MAP + ", input: s, key: k}", "key", "only a join has a key; this is a map"),
        (JOIN + ", input: [s, t], window: 5s}", "window", "only an aggregate has a window"),
        (JOIN + ", input: [s, t], key: [k, k]}", "key", "different columns"),
        (JOIN + ", input: [s, t], key: []}", "key", "different columns"),
        (AGGREGATE + ", input: s, window: 0s}", "window", "a number above 0"),
        (AGGREGATE + ", input: s, slide: 5s}", "slide", "a slide needs a window"),
        (AGGREGATE + ", input: s, window: 5s, slide: 9s}", "slide", "longer than the window"),
    ],
)
def test_impossible_keys_and_windows(operator: str, field: str, message: str) -> None:
    with pytest.raises(NetworkError) as caught:
        network({"o": operator}, {"q": "o"})
    [problem] = caught.value.problems
    assert problem.field == ("operators", "o", field)
    assert message in problem.message
    assert problem.line is not None
