"""Writing: what is read back is what was written."""

from __future__ import annotations

import string
from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.network import (
    Network,
    NetworkBuilder,
    Node,
    Operator,
    OperatorKind,
    Query,
    Stream,
    dump_network,
    parse_network,
)
from tests.random_networks import random_network

printable = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Zs"])
    | st.sampled_from(string.punctuation + " "),
    max_size=12,
)
names = printable.filter(lambda n: n and n == n.strip() and "->" not in n and n.isprintable())
numbers = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


def test_one_line_for_each_part_in_the_order_of_the_network():
    b = NetworkBuilder("two nodes")
    b.node("B", capacity=2)
    b.node("A", capacity=0.5)
    b.link("B", "A", 1e7)
    b.stream("x", rate_per_second=2000, tuple_bytes=300)
    b.stream("y")
    b.map("parsed", "x", node="B", cost_seconds=0.00012, tuple_bytes=200)
    b.join("j", ["parsed", "y"], node="A", selectivity=1e-05, window_tuples=(500, 0.5))
    b.sql("no", "j", node="A", code="SELECT 1\nFROM j")
    b.query("q", "no", weight=10, query_class="gold", latency_target_seconds=3, keep_at_least=0.5)
    assert dump_network(b.build()) == (
        "network: two nodes\n"
        "nodes:\n"
        "  B: {capacity: 2}\n"
        "  A: {capacity: 0.5}\n"
        "links:\n"
        "- {from: B, to: A, bandwidth: 10000000}\n"
        "streams:\n"
        "  x: {rate: 2000, tuple_bytes: 300}\n"
        "  y: {}\n"
        "operators:\n"
        "  parsed: {kind: map, input: x, node: B, cost: 0.00012, tuple_bytes: 200}\n"
        "  j: {kind: join, input: [parsed, y], node: A, selectivity: 1.0e-05,"
        " windows: [500, 0.5]}\n"
        "  'no': {kind: sql, input: j, node: A, code: \"SELECT 1\\nFROM j\"}\n"
        "queries:\n"
        "  q: {input: 'no', weight: 10, class: gold, latency: 3, keep_at_least: 0.5}\n"
    )


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_random_networks_come_back_equal(seed: int, tree: bool):
    network = random_network(numpy.random.default_rng(seed), tree=tree)
    text = dump_network(network)
    assert parse_network(text) == network
    assert dump_network(parse_network(text)) == text


def chain(title: str, parts: list[str], values: list[float], code: str | None) -> Network:
    stream, operator, query, node, group = parts
    return Network(
        title,
        (Stream(stream, values[0], values[1]),),
        (
            Operator(
                operator,
                OperatorKind.SQL,
                (stream,),
                node,
                values[2],
                values[3],
                tuple_bytes=values[4],
                code=code,
            ),
        ),
        (Query(query, operator, values[5], group, values[6], min(values[7], 1.0)),),
        (Node(node, values[8]),),
    )


@settings(deadline=None, max_examples=150)
@given(
    title=printable,
    parts=st.lists(names, min_size=5, max_size=5, unique=True),
    values=st.lists(numbers, min_size=9, max_size=9),
    code=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
)
def test_any_name_and_any_number_come_back(
    title: str, parts: list[str], values: list[float], code: str | None
):
    network = chain(title, parts, values, code)
    assert parse_network(dump_network(network)) == network


def test_numpy_numbers_are_numbers():
    network = chain("n", list("abcde"), [1.5] * 9, None)
    stream = replace(network.streams[0], rate_per_second=numpy.float32(2.5))
    assert "a: {rate: 2.5," in dump_network(replace(network, streams=(stream,)))
