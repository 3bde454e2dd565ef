from __future__ import annotations

import pytest

from headgate.errors import NetworkError
from headgate.network import Link, NetworkBuilder, Node, Operator, OperatorKind, Query, Stream


def test_every_part_arrives_as_it_was_given():
    b = NetworkBuilder("all parts")
    a = b.node("A")
    c = b.node("C", capacity=4.0)
    b.link(a, c, 1e6)
    x = b.stream("x", rate_per_second=10.0, tuple_bytes=100.0)
    y = b.stream("y")
    f = b.filter("f", x, node=a, cost_seconds=0.1, selectivity=0.5, tuple_bytes=50.0)
    j = b.join("j", [f, y], node=c, cost_seconds=0.2, selectivity=0.01, window_tuples=(5.0, 6.0))
    s = b.sql("s", j, node=c, code="SELECT 1")
    b.query("q", s, weight=3.0, query_class="gold", latency_target_seconds=2.0, keep_at_least=0.5)

    network = b.build()

    assert network.nodes == (Node("A", 1.0), Node("C", 4.0))
    assert network.links == (Link("A", "C", 1e6),)
    assert network.streams == (Stream("x", 10.0, 100.0), Stream("y"))
    assert network.operators == (
        Operator("f", OperatorKind.FILTER, ("x",), "A", 0.1, 0.5, tuple_bytes=50.0),
        Operator("j", OperatorKind.JOIN, ("f", "y"), "C", 0.2, 0.01, (5.0, 6.0)),
        Operator("s", OperatorKind.SQL, ("j",), "C", code="SELECT 1"),
    )
    assert network.queries == (Query("q", "s", 3.0, "gold", 2.0, 0.5),)


@pytest.mark.parametrize("kind", ["filter", "map", "aggregate", "sql", "delay"])
def test_each_kind_with_one_input_has_a_method(kind: str):
    b = NetworkBuilder("one")
    b.query("q", getattr(b, kind)("o", b.stream("x"), node=b.node("A")))
    assert b.build().operator_by_name["o"].kind == kind


def test_union_takes_several_inputs():
    b = NetworkBuilder("union")
    merged = b.union("u", [b.stream("x"), b.stream("y"), b.stream("z")], node=b.node("A"))
    b.query("q", merged)
    assert b.build().operator_by_name["u"].inputs == ("x", "y", "z")


def test_build_tells_every_problem_at_once():
    b = NetworkBuilder("bad")
    b.node("A", capacity=-1.0)
    b.stream("orders")
    b.filter("large", "ordrs", node="B")
    b.query("q", "large", keep_at_least=2.0)
    with pytest.raises(NetworkError) as caught:
        b.build()
    assert {problem.field for problem in caught.value.problems} == {
        ("nodes", "A", "capacity"),
        ("operators", "large", "input"),
        ("operators", "large", "node"),
        ("queries", "q", "keep_at_least"),
    }
    assert "4 problems in the network:" in str(caught.value)


def test_an_unknown_kind_is_refused_at_once_with_the_nearest() -> None:
    with pytest.raises(NetworkError, match="did you mean 'map'"):
        NetworkBuilder("x").operator("mapp", "parsed", "orders", "A")
