"""Which queries run together, and what a file lacks to be run. No Spark."""

from __future__ import annotations

import pytest

from headgate.errors import NetworkError, UsageError
from headgate.network import load_network, parse_network
from headgate.spark.networks.network_groups import as_it_runs
from headgate.spark.networks.network_needs import problems_to_run, stood_in_for

TWO_CLASSES = """\
network: shop
nodes: {A: {capacity: 1}, B: {capacity: 1}}
streams:
  orders: {rate: 100/s}
  clicks: {rate: 100/s}
operators:
  parsed: {kind: map, input: orders, node: A, cost: 1ms}
  fraud: {kind: filter, input: parsed, node: B, cost: 2ms, selectivity: 0.1}
  revenue: {kind: aggregate, input: parsed, node: B, cost: 1ms, selectivity: 0.1, window: 10s}
  visits: {kind: map, input: clicks, node: A, cost: 1ms}
queries:
  alerts: {input: fraud, class: gold, latency: 2s}
  dashboard: {input: revenue, class: silver, latency: 9s}
  audit: {input: fraud, class: gold, latency: 5s}
  pages: {input: visits, class: silver}
"""


def test_what_is_connected_runs_together_on_one_node() -> None:
    running = as_it_runs(parse_network(TWO_CLASSES), cores=4)
    named = {g.name: [q.name for q in g.queries] for g in running.groups}
    assert named == {
        "alerts+dashboard+audit": ["alerts", "dashboard", "audit"],
        "pages": ["pages"],
    }
    assert running.groups[0].latency_target_seconds == 2.0
    assert running.groups[0].query_class is None
    [node] = running.network.nodes
    assert node.capacity == 4.0
    assert {o.node for o in running.network.operators} == {node.name}
    locations = [arc.name for arc in running.network.drop_locations]
    assert locations == [
        "orders->parsed",
        "clicks->visits",
        "parsed->fraud",
        "parsed->revenue",
        "fraud->alerts",
        "fraud->audit",
    ]


def test_classes_run_apart_and_each_has_its_own_copy_of_what_they_share() -> None:
    running = as_it_runs(parse_network(TWO_CLASSES), 4, ("gold", "silver"))
    named = {g.name: g.operators for g in running.groups}
    assert named == {
        "shop: gold": ("parsed@gold", "fraud"),
        "dashboard": ("parsed@silver", "revenue"),
        "pages": ("visits",),
    }
    assert running.original["parsed@gold"] == "parsed"
    assert [g.query_class for g in running.groups] == ["gold", "silver", "silver"]
    inputs = {o.name: o.inputs for o in running.network.operators}
    assert inputs["fraud"] == ("parsed@gold",)
    assert inputs["revenue"] == ("parsed@silver",)


def test_every_class_needs_a_priority() -> None:
    with pytest.raises(UsageError, match=r"no priority for class silver.*silver=1"):
        as_it_runs(parse_network(TWO_CLASSES), 4, ("gold",))


def test_the_examples_can_be_run_with_stand_ins() -> None:
    for name in ("split", "shop", "table1"):
        network = load_network(f"examples/{name}.yaml")
        assert problems_to_run(network, stand_ins=True) == []
    shop = as_it_runs(load_network("examples/shop.yaml"), 2)
    assert sum(len(group.queries) for group in shop.groups) == 7


def test_what_is_missing_is_said_at_once_with_its_line_and_field() -> None:
    text = """\
network: x
nodes: {A: {capacity: 1}}
streams:
  a: {rate: 1/s}
  f: {rate: 1/s, source: {format: json, options: {path: in}}}
operators:
  m: {kind: map, input: a, node: A, code: enrich}
  j: {kind: join, input: [m, f], node: A}
  u: {kind: union, input: [j, m], node: A}
  d: {kind: delay, input: u, node: A}
queries:
  q: {input: d, sink: {format: parquet}}
  k: {input: m, sink: {format: kafka}}
"""
    with pytest.raises(NetworkError) as caught:
        parse_network(text, "x.yaml", lambda n: problems_to_run(n, stand_ins=False))
    fields = {(p.line, ".".join(map(str, p.field))) for p in caught.value.problems}
    assert fields == {
        (4, "streams.a.source"),
        (5, "streams.f.source.schema"),
        (7, "operators.m.code"),
        (8, "operators.j.code"),
        (10, "operators.d.cost"),
        (10, "operators.d.selectivity"),
        (12, "queries.q.sink.options.path"),
        (13, "queries.k.sink.options.kafka.bootstrap.servers"),
    }
    said = str(caught.value)
    assert "x.yaml:7: operators.m.code: expected SQL or module:function" in said
    assert "or run with stand-ins for what has no code" in said


def test_code_behind_a_stand_in_is_stood_in_for_too() -> None:
    shop = load_network("examples/shop.yaml")
    assert "suspicious" in stood_in_for(shop)  # it has SQL, but nobody makes its columns
    text = TWO_CLASSES.replace("cost: 2ms,", "code: SELECT * FROM parsed,")
    missing = problems_to_run(parse_network(text), stand_ins=True)
    assert [problem.field for problem in missing] == [("operators", "fraud", "cost")]
