from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from headgate.names import LONGEST_NAME, nearest
from headgate.network import Link, Node, Operator, OperatorKind, Query, Stream
from headgate.network.validation import problems_of

MAP, JOIN, UNION, SQL = OperatorKind.MAP, OperatorKind.JOIN, OperatorKind.UNION, OperatorKind.SQL

VALID: dict[str, tuple[Any, ...]] = {
    "streams": (Stream("x", 1.0), Stream("y", 1.0)),
    "operators": (
        Operator("a", MAP, ("x",), "A", 0.1),
        Operator("j", JOIN, ("a", "y"), "B", 0.1, 0.5, (1.0, 2.0)),
    ),
    "queries": (Query("q", "j"),),
    "nodes": (Node("A"), Node("B")),
    "links": (),
}


def found(**changes: tuple[Any, ...]) -> list[tuple[tuple[str | int, ...], str]]:
    parts = {**VALID, **changes}
    problems = problems_of(
        parts["streams"], parts["operators"], parts["queries"], parts["nodes"], parts["links"]
    )
    return [(problem.field, problem.message) for problem in problems]


def changed_operators(name: str, **changes: Any) -> tuple[Operator, ...]:
    return tuple(replace(o, **changes) if o.name == name else o for o in VALID["operators"])


def test_a_valid_network_has_no_problem():
    assert found() == []


@pytest.mark.parametrize("name", ["", " x", "x ", "a->b"])
def test_impossible_names(name: str):
    problem = (("nodes", name), "a name must not be empty, padded or contain '->'")
    assert problem in found(nodes=(*VALID["nodes"], Node(name)))


@pytest.mark.parametrize("name", ["a\nb", "\x07", "\ud800", "n" * (LONGEST_NAME + 1)])
def test_names_that_cannot_be_shown(name: str):
    problem = (("nodes", name), "a name has at most 200 printable characters")
    assert found(nodes=(*VALID["nodes"], Node(name))) == [problem]


def test_streams_operators_and_queries_share_one_set_of_names():
    (problem,) = found(queries=(Query("q", "j"), Query("x", "j")))
    assert problem[0] == ("queries", "x")
    assert "used 2 times (streams, queries)" in problem[1]


def test_a_node_is_defined_once():
    assert found(nodes=(Node("A"), Node("B"), Node("A"))) == [
        (("nodes", "A"), "the node is defined 2 times")
    ]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "5", True])
@pytest.mark.parametrize(
    ("section", "part", "field"),
    [
        ("streams", Stream("z", rate_per_second=0.0), "rate_per_second"),
        ("streams", Stream("z", tuple_bytes=0.0), "tuple_bytes"),
        ("nodes", Node("z"), "capacity"),
        ("queries", Query("z", "j"), "weight"),
        ("queries", Query("z", "j"), "keep_at_least"),
        ("queries", Query("z", "j"), "latency_target_seconds"),
    ],
)
def test_impossible_numbers(section: str, part: Any, field: str, value: object):
    broken = replace(part, **{field: value})
    (problem,) = found(**{section: (*VALID[section], broken)})
    assert problem[0][:2] == (section, "z")
    assert problem[1].startswith("expected a number ")
    assert problem[1].endswith(f"got {value!r}")


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"inputs": ("z",)}, "input", "unknown stream or operator 'z'"),
        ({"inputs": ("x", "y")}, "input", "a map takes 1 input, got 2"),
        ({"inputs": ()}, "input", "a map takes 1 input, got 0"),
        ({"kind": JOIN}, "input", "a join needs at least 2 inputs"),
        ({"kind": UNION}, "input", "a union needs at least 2 inputs"),
        ({"kind": SQL, "inputs": ()}, "input", "the operator has no input"),
        ({"kind": UNION, "inputs": ("x", "x")}, "input", "'x' is given 2 times"),
        ({"node": ""}, "node", "on no node; give it one; expected one of 'A', 'B'"),
        ({"node": "C"}, "node", "unknown node 'C'; expected one of 'A', 'B'"),
        ({"cost_seconds": -0.1}, "cost", "at least 0, got -0.1"),
        ({"selectivity": math.nan}, "selectivity", "at least 0, got nan"),
        ({"tuple_bytes": -1.0}, "tuple_bytes", "at least 0, got -1.0"),
        ({"window_tuples": (1.0,)}, "windows", "only a join has windows; this is a map"),
    ],
)
def test_impossible_operators(changes: dict[str, Any], field: str, message: str):
    (problem,) = found(operators=changed_operators("a", **changes))
    assert problem[0] == ("operators", "a", field)
    assert message in problem[1]


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ((1.0,), "a window for each of the 2 inputs, got 1"),
        ((1.0, -2.0), "expected a number of at least 0, got -2.0"),
    ],
)
def test_impossible_windows(windows: tuple[float, ...], message: str):
    (problem,) = found(operators=changed_operators("j", window_tuples=windows))
    assert problem[0] == ("operators", "j", "windows")
    assert message in problem[1]


def test_a_query_that_no_stream_feeds():
    problems = found(queries=(Query("q", "j"), Query("r", "jj"), Query("s", "")))
    assert [field for field, _ in problems] == [
        ("queries", "r", "input"),
        ("queries", "s", "input"),
    ]
    assert all("no stream feeds the query" in message for _, message in problems)


def test_links_join_two_known_nodes_once():
    links = (Link("A", "C", 1.0), Link("B", "B", 1.0), Link("B", "A", -1.0), Link("B", "A", 1.0))
    assert [(field, message.split(";")[0]) for field, message in found(links=links)] == [
        (("links", 0, "to"), "unknown node 'C'"),
        (("links", 1), "a link joins two nodes"),
        (("links", 2, "bandwidth"), "expected a number of at least 0, got -1.0"),
        (("links", 3), "the link B->A is given 2 times"),
    ]


def test_output_over_a_limited_link_needs_a_size():
    (problem,) = found(links=(Link("A", "B", 1.0),))
    assert problem[0] == ("operators", "a", "tuple_bytes")
    assert "say how many bytes one tuple has" in problem[1]


def test_a_cycle_is_named_in_the_direction_of_the_flow():
    operators = (
        Operator("a", UNION, ("x", "c"), "A"),
        Operator("b", MAP, ("a",), "A"),
        Operator("c", MAP, ("b",), "A"),
    )
    (problem,) = found(operators=operators, queries=(Query("q", "c"),))
    assert problem[1] == "the operators form a cycle: a -> b -> c -> a"


def test_each_tangle_is_named_once():
    operators = (
        Operator("s", UNION, ("a", "c"), "A"),
        Operator("a", MAP, ("b",), "A"),
        Operator("b", MAP, ("a",), "A"),
        Operator("c", MAP, ("c",), "A"),
    )
    messages = [message for _, message in found(operators=operators, queries=(Query("q", "s"),))]
    assert messages == [
        "the operators form a cycle: a -> b -> a",
        "the operators form a cycle: c -> c",
    ]


def test_nodes_that_send_to_each_other():
    operators = (
        Operator("a", MAP, ("x",), "A"),
        Operator("b", MAP, ("a",), "B"),
        Operator("c", MAP, ("b",), "A"),
        Operator("d", MAP, ("c",), "C"),
    )
    nodes = (*VALID["nodes"], Node("C"))
    (problem,) = found(operators=operators, queries=(Query("q", "d"),), nodes=nodes)
    assert problem[0] == ("nodes", "B")
    assert "in a circle: A -> B -> A; move operators" in problem[1]  # C is not in it


def test_output_that_nobody_takes():
    operators = (*VALID["operators"], Operator("idle", MAP, ("x",), "A"))
    assert found(operators=operators) == [
        (
            ("operators", "idle"),
            "no operator and no query takes its output; add a query or remove it",
        )
    ]


def test_an_unknown_name_does_not_make_others_unused():
    operators = changed_operators("j", inputs=("aa", "y"))
    assert [field for field, _ in found(operators=operators)] == [("operators", "j", "input")]


def test_an_impossible_number_does_not_hide_a_cycle():
    operators = (
        Operator("a", UNION, ("x", "b"), "A", cost_seconds=-1.0),
        Operator("b", MAP, ("a",), "A"),
    )
    problems = found(operators=operators, queries=(Query("q", "b"),))
    assert [field for field, _ in problems] == [
        ("operators", "a", "cost"),
        ("operators", "b", "input"),
    ]


def test_a_long_chain_is_no_trouble():
    chain = [Operator(f"o{i}", MAP, (f"o{i - 1}" if i else "x",), "A") for i in range(5000)]
    assert found(operators=tuple(chain), queries=(Query("q", "o4999"),)) == []


@pytest.mark.parametrize(
    ("name", "valid", "hint"),
    [
        ("ordrs", ["orders", "payments"], "; did you mean 'orders'?"),
        ("zzz", ["b", "a"], "; expected one of 'a', 'b'"),
        ("zzz", [], "; none is defined"),
        ("zzz", [f"a{i}" for i in range(9)], "; expected one of 'a0', 'a1', 'a2', 'a3', 'a4', "),
        ("stream_5000x", [f"stream_{i}" for i in range(9999)], "; did you mean 'stream_5000'?"),
    ],
)
def test_the_nearest_name(name: str, valid: list[str], hint: str):
    assert nearest(name, valid).startswith(hint)
