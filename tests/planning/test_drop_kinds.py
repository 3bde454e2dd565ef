from __future__ import annotations

from typing import Any

import pytest

from headgate.errors import NetworkError
from headgate.network import Network, dump_network, load_network, parse_network
from headgate.planning import (
    Drop,
    DropKind,
    ExactPlanner,
    ExactSettings,
    Objective,
    drops_of,
)

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
    assert drops["s->m"].mixed
    assert drops["s->m"].conflict == (
        "behind it stand window and key drops: sums there are wrong, and joins there keep x "
        "squared of their results at share x"
    )
    assert [arc for arc, drop in drops.items() if drop.mixed] == ["s->m"]


def test_a_location_is_mixed_only_if_its_branches_know_better() -> None:
    operators = {
        "m": MAP + ", input: s}",
        "g": AGGREGATE + ", input: m, window: 10s}",
        "h": AGGREGATE + ", input: m}",
        "n": MAP + ", input: t}",
        "i": AGGREGATE + ", input: n}",
        "k": AGGREGATE + ", input: n}",
    }
    drops = drops_of(network(operators, {"q": "g", "r": "h", "u": "i", "v": "k"}))
    assert drops["s->m"].conflict.startswith("behind it stand windows and others that are not")
    assert not drops["t->n"].mixed
    assert drops["t->n"].conflict == ""


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


CONFLICT = """
network: mixed
nodes: {a: {capacity: 1}}
streams:
  o: {rate: 1000/s}
  pay: {rate: 500/s}
operators:
  parsed: {kind: map, input: o, node: a, cost: COST}
  rev: {kind: aggregate, input: parsed, node: a, cost: 1ms, selectivity: 0.1, window: 10s}
  paid:
    {kind: join, input: [parsed, pay], node: a, cost: 1ms, selectivity: 0.001, windows: [500, 500],
     key: order}
queries:
  dashboard: {input: rev}
  alerts: {input: paid}
"""


def mixed(cost: str, **settings: Any) -> ExactPlanner:
    described = parse_network(CONFLICT.replace("COST", cost))
    return ExactPlanner(described, settings=ExactSettings(**settings))


@pytest.mark.parametrize("objective", list(Objective))
def test_the_plan_keeps_everything_where_kinds_conflict(objective: Objective) -> None:
    """The best plan drops at o->parsed; this one drops on the branches, each in its own way."""
    best = mixed("0.2ms", objective=objective, most_lost_for_right_answers=0.0).plan({})
    plan = mixed("0.2ms", objective=objective).plan({})
    assert best.keep_fraction["o->parsed"] < 1.0
    assert best.spared == ()
    assert set(best.mixed_drops) == {"o->parsed"}
    assert plan.keep_fraction["o->parsed"] == 1.0
    assert plan.mixed_drops == {}
    assert plan.spared == ("o->parsed",)
    assert 0.75 * best.objective_value <= plan.objective_value < best.objective_value
    assert plan.objective_bound == pytest.approx(best.objective_bound)  # the gap is what it costs
    assert plan.node_load["a"] <= 1.0 + 1e-9
    assert plan.to_dict()["spared_for_right_answers"] == ["o->parsed"]


@pytest.mark.parametrize("cost", ["0.7ms", "2ms"])  # too dear, and more than there is
def test_where_that_costs_too_much_the_plan_says_what_is_wrong(cost: str) -> None:
    plan = mixed(cost).plan({})
    assert plan.spared == ()
    assert plan.keep_fraction["o->parsed"] < 1.0
    assert "sums there are wrong" in plan.mixed_drops["o->parsed"]
    assert "sums there are wrong" in plan.to_dict()["wrong_answers"]["o->parsed"]
    assert plan.gap < 1e-6  # and is the best there is


def test_one_location_is_spared_where_another_cannot_be() -> None:
    dear = CONFLICT.replace("COST", "2ms").partition("queries:")
    cheap = """\
  parsed2: {kind: map, input: o2, node: b, cost: 0.2ms}
  rev2: {kind: aggregate, input: parsed2, node: b, cost: 1ms, selectivity: 0.1, window: 10s}
  rev3: {kind: aggregate, input: parsed2, node: b, cost: 1ms, selectivity: 0.1, window: 7s}
"""
    text = dear[0].replace("nodes: {a:", "nodes: {b: {capacity: 1}, a:")
    text = text.replace("  pay:", "  o2: {rate: 1000/s}\n  pay:") + cheap + dear[1] + dear[2]
    text += "  second: {input: rev2}\n  third: {input: rev3}\n"
    plan = ExactPlanner(parse_network(text)).plan({})
    assert plan.keep_fraction["o2->parsed2"] == 1.0
    assert plan.spared == ("o2->parsed2",)
    assert set(plan.mixed_drops) == {"o->parsed"}


def test_gates_behind_gates_are_spared_too() -> None:
    """A mixed location behind a split: the row of the program becomes an equation."""
    text = CONFLICT.replace("COST", "0.1ms").replace(
        "  rev:", "  again: {kind: map, input: parsed, node: a, cost: 0.1ms}\n  rev:"
    )
    text = text.replace("input: parsed, node: a, cost: 1ms", "input: again, node: a, cost: 1ms")
    text = text.replace("[parsed, pay]", "[again, pay]")
    plan = ExactPlanner(parse_network(text + "  raw: {input: parsed, weight: 0.0001}\n")).plan({})
    assert plan.keep_fraction["o->parsed"] == 1.0
    assert plan.keep_fraction["parsed->again"] == 1.0
    assert plan.mixed_drops == {}
    assert plan.node_load["a"] <= 1.0 + 1e-9


def test_with_a_guarantee_that_does_not_fit_the_best_plan_stands() -> None:
    text = CONFLICT.replace("COST", "0.45ms")
    held = text.replace("alerts: {input: paid}", "alerts: {input: paid, keep_at_least: 0.5}")
    plan = ExactPlanner(parse_network(held)).plan({})
    assert plan.unmet_guarantees == ()


def test_the_shop_uses_every_kind() -> None:
    shop = load_network("examples/shop.yaml")
    drops = {arc: str(drop) for arc, drop in drops_of(shop).items()}
    assert drops["payments->payments_parsed"] == "key order_id"
    assert drops["enriched->matched"] == "key order_id"
    assert drops["enriched->by_product"] == "window 60s"
    assert drops["clicks->clicks_parsed"] == "random"  # sessions
    plan = ExactPlanner(shop).plan({s.name: 1.5 * (s.rate_per_second or 0.0) for s in shop.streams})
    assert plan.spared == ("orders->orders_parsed",)
    assert plan.gap < 1e-6  # here right answers cost nothing
