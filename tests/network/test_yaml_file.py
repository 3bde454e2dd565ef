"""Loading: what a good file means, and what each bad file is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import HeadgateError, NetworkError, Problem, UsageError
from headgate.network import (
    Link,
    Node,
    Operator,
    OperatorKind,
    Query,
    Sink,
    Source,
    Stream,
    dump_network,
    load_network,
    parse_network,
)
from headgate.network.yaml_file import MAX_PROBLEMS
from headgate.network.yaml_syntax import MAX_BYTES, MAX_DEPTH

SHOP = """\
network: shop
nodes:
  ingest: {capacity: 1}
  analytics: {capacity: 2}
links:
  - {from: ingest, to: analytics, bandwidth: 10 MB/s}
streams:
  orders: {rate: 2000/s, tuple_bytes: 300}
  payments: {}
operators:
  parsed: {kind: map, input: orders, node: ingest, cost: 120us, tuple_bytes: 200}
  matched: {kind: join, input: [parsed, payments], node: analytics, cost: 0.4ms, selectivity: 0.001, windows: [500, 600]}
queries:
  alerts: {input: matched, weight: 10, class: gold, latency: 3s, keep_at_least: 0.5}
  raw: {input: payments}
"""  # noqa: E501


def problems_in(text: str) -> tuple[Problem, ...]:
    with pytest.raises(NetworkError) as caught:
        parse_network(text, file="shop.yaml")
    assert all(problem.file == "shop.yaml" for problem in caught.value.problems)
    lines = [problem.line for problem in caught.value.problems]
    assert None not in lines
    assert lines == sorted(lines, key=lambda line: line or 0)
    return caught.value.problems


def found(text: str) -> list[tuple[int | None, str, str]]:
    return [
        (problem.line, ".".join(str(part) for part in problem.field), problem.message)
        for problem in problems_in(text)
    ]


def test_a_file_means_what_it_says():
    network = parse_network(SHOP)
    assert network.name == "shop"
    assert network.nodes == (Node("ingest", 1.0), Node("analytics", 2.0))
    assert network.links == (Link("ingest", "analytics", 1e7),)
    assert network.streams == (Stream("orders", 2000.0, 300.0), Stream("payments"))
    assert network.operators == (
        Operator("parsed", OperatorKind.MAP, ("orders",), "ingest", 0.00012, tuple_bytes=200.0),
        Operator(
            "matched",
            OperatorKind.JOIN,
            ("parsed", "payments"),
            "analytics",
            0.0004,
            0.001,
            (500.0, 600.0),
        ),
    )
    assert network.queries == (
        Query("alerts", "matched", 10.0, "gold", 3.0, 0.5),
        Query("raw", "payments"),
    )


def test_absent_and_empty_fields_take_their_defaults():
    network = parse_network(
        "network: small\nnodes: {a: }\nstreams:\n  s: ~\noperators: \n"
        "queries: {q: {input: [s], weight: , class: null}}\n"
    )
    assert network.nodes == (Node("a", 1.0),)
    assert network.streams == (Stream("s"),)
    assert network.operators == ()
    assert network.queries == (Query("q", "s"),)


def test_names_are_text_as_written():
    network = parse_network(
        "network: 2024-01-01\nnodes: {on: {}, 010: {}}\nstreams: {no: {}, 1.50: {}, ~: {}}\n"
        "operators: {yes: {kind: union, input: [no, 1.50], node: 010}}\n"
        "queries: {True: {input: yes, class: off}}\n"
    )
    assert network.name == "2024-01-01"
    assert [node.name for node in network.nodes] == ["on", "010"]
    assert [stream.name for stream in network.streams] == ["no", "1.50", "~"]
    assert network.operator_by_name["yes"].inputs == ("no", "1.50")
    assert network.query_by_name["True"].query_class == "off"


def test_anchors_stand_for_what_they_name():
    text = SHOP.replace("{capacity: 1}", "&one {capacity: 1}").replace("{capacity: 2}", "*one")
    assert parse_network(text).nodes == (Node("ingest", 1.0), Node("analytics", 1.0))


def test_code_may_span_lines():
    text = SHOP.replace(
        "  parsed: {kind: map, input: orders, node: ingest, cost: 120us, tuple_bytes: 200}",
        "  parsed:\n    kind: sql\n    input: orders\n    node: ingest\n    tuple_bytes: 200 B\n"
        "    code: |\n      SELECT *\n      FROM orders",
    )
    assert parse_network(text).operator_by_name["parsed"].code == "SELECT *\nFROM orders\n"


# Each row: what to replace in SHOP, by what, and the only problem that it causes.
ONE_MISTAKE = [
    # sections
    ("network: shop\n", "", 1, "network", "missing; give the network a name"),
    ("network: shop", "network: [a]", 1, "network", "expected text, got a list"),
    ("streams:", "stream:", 7, "stream", "unknown section; did you mean 'streams'?"),
    ("network: shop", "network: shop\nextra: 1", 2, "extra", "unknown section; expected one of"),
    ("queries:", "queries: 5\nquerys:", 13, "queries", "expected a name and the fields of a query"),
    # fields
    ("cost: 120us", "costs: 120us", 11, "operators.parsed.costs", "did you mean 'cost'?"),
    ("input: orders", "inputs: orders", 11, "operators.parsed.inputs", "did you mean 'input'?"),
    ("weight: 10", "wieght: 10", 14, "queries.alerts.wieght", "did you mean 'weight'?"),
    ("capacity: 2", "cores: 2", 4, "nodes.analytics.cores", "unknown field; expected one of"),
    ("cost: 120us", "cost:120us", 11, "operators.parsed.cost:120us", "a space after the colon"),
    ("input: orders", "input:orders", 11, "operators.parsed.input:orders", "a space after"),
    ("kind: map, ", "", 11, "operators.parsed.kind", "missing; give one of filter, map"),
    ("input: orders, ", "", 11, "operators.parsed.input", "missing; name the streams"),
    ("input: orders", "input: []", 11, "operators.parsed.input", "missing; name the streams"),
    ("node: ingest, ", "", 11, "operators.parsed.node", "the operator is on no node"),
    ("{input: payments}", "{}", 15, "queries.raw.input", "missing; no stream feeds the query"),
    ("to: analytics, ", "", 6, "links.0.to", "missing; name the node that receives"),
    (", bandwidth: 10 MB/s", "", 6, "links.0.bandwidth", "missing; give the limit"),
    # the same key twice
    ("  payments: {}", "  payments: {}\n  orders: {}", 10, "streams.orders", "first on line 8"),
    ("capacity: 2", "capacity: 2, capacity: 3", 4, "nodes.analytics.capacity", "given twice"),
    ("queries:", "streams: {}\nqueries:", 13, "streams", "given twice, first on line 7"),
    # types
    ("{capacity: 2}", "2", 4, "nodes.analytics", "expected a node with capacity, got '2'"),
    ("{capacity: 2}", "[2]", 4, "nodes.analytics", "expected a node with capacity, got a list"),
    ("capacity: 2", "capacity: many", 4, "nodes.analytics.capacity", "such as 0.5, got 'many'"),
    ("capacity: 2", "capacity: true", 4, "nodes.analytics.capacity", "such as 0.5, got 'true'"),
    ("capacity: 2", "capacity: [2]", 4, "nodes.analytics.capacity", "such as 0.5, got a list"),
    ("capacity: 2", 'capacity: ""', 4, "nodes.analytics.capacity", "such as 0.5, got ''"),
    ("[500, 600]", "500", 12, "operators.matched.windows", "a list of numbers, got '500'"),
    ("[500, 600]", "[500, no]", 12, "operators.matched.windows.1", "a number such as 0.5"),
    ("[parsed, payments]", "[parsed, {}]", 12, "operators.matched.input.1", "got a mapping"),
    ("input: payments", "input: [payments, orders]", 15, "queries.raw.input", "expected one name"),
    ("  - {from", "  x: {from", 6, "links", "expected a list, each line beginning with '- '"),
    ("kind: map", "kind: mop", 11, "operators.parsed.kind", "'mop'; did you mean 'map'?"),
    ("kind: join", "kind: nothing", 12, "operators.matched.kind", "unknown kind 'nothing'; exp"),
    ("  payments: {}", "  payments: {}\n  [a, b]: {}", 10, "streams", "a name before the colon"),
    ("{capacity: 2}", "{capacity: 2, <<: {}}", 4, "nodes.analytics", "<< is not supported"),
    # units
    ("120us", "120 usec", 11, "operators.parsed.cost", "unknown unit 'usec'; did you mean 'us'?"),
    ("10 MB/s", "10 Mb/s", 6, "links.0.bandwidth", "unknown unit 'Mb/s'; did you mean 'MB/s'?"),
    ("2000/s", "2000 Hz", 8, "streams.orders.rate", "unknown unit 'Hz'; expected one of"),
    ("weight: 10", "weight: 10%", 14, "queries.alerts.weight", "without the unit '%'"),
    # numbers
    ("120us", "-120us", 11, "operators.parsed.cost", "at least 0, got -0.00012"),
    ("0.001", ".nan", 12, "operators.matched.selectivity", "at least 0, got nan"),
    ("2000/s", ".inf", 8, "streams.orders.rate", "at least 0, got inf"),
    ("2000/s", "1e999", 8, "streams.orders.rate", "at least 0, got inf"),
    ("keep_at_least: 0.5", "keep_at_least: 50", 14, "queries.alerts.keep_at_least", "0 to 1, got"),
    # names
    ("input: orders", "input: ordrs", 11, "operators.parsed.input", "did you mean 'orders'?"),
    ("node: ingest", "node: injest", 11, "operators.parsed.node", "did you mean 'ingest'?"),
    ("{input: payments}", "{input: paid}", 15, "queries.raw.input", "no stream feeds the query"),
    ("to: analytics", "to: analytic", 6, "links.0.to", "did you mean 'analytics'?"),
    ("  raw:", "  orders:", 15, "queries.orders", "used 2 times (streams, queries)"),
    ("  payments: {}", "  payments: {}\n  '': {}", 10, "streams.", "must not be empty"),
    ("class: gold", "class: " + "g" * 201, 14, "queries.alerts.class", "at most 200 characters"),
    ("  payments: {}", "  payments: {}\n  ? " + "n" * 201 + "\n  : {}", 10, "streams", "at most"),
    # the graph
    ("input: orders", "input: parsed", 11, "operators.parsed.input", "parsed -> parsed"),
    (", tuple_bytes: 200", "", 11, "operators.parsed.tuple_bytes", "say how many bytes"),
    ("input: matched", "input: orders", 12, "operators.matched", "no query takes its output"),
    # tags
    ("shop", "!!python/name:os.system shop", 1, "network", "'!!python/name:os.system' is not"),
    ("{capacity: 2}", "!node {capacity: 2}", 4, "nodes.analytics", "the tag '!node' is not allo"),
    ("[500, 600]", "!!set [500, 600]", 12, "operators.matched.windows", "'!!set' is not allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "field", "message"), ONE_MISTAKE)
def test_one_mistake_is_one_problem(old: str, new: str, line: int, field: str, message: str):
    text = SHOP.replace(old, new, 1)
    assert text != SHOP
    problems = found(text)
    if field == "queries":  # 'querys' beside it is the second mistake of that row
        problems = [problem for problem in problems if problem[1] != "querys"]
    ((found_line, found_field, found_message),) = problems
    assert (found_line, found_field) == (line, field)
    assert message in found_message


SYNTAX = [
    ("", 1, "the file is empty; describe nodes, streams and queries"),
    ("# nothing\n\n", 1, "the file is empty"),
    ("network: shop\nnodes: {a: {capacity: 1}\nstreams: {}\n", 3, "begun on line 2"),
    ("network: shop\nnodes:\n\tA: {}\n", 3, "a tab cannot indent YAML; use spaces"),
    ("network: a: b\n", 1, "not valid YAML at column 11: mapping values are not allowed here"),
    ('network: "a\n', 2, "found unexpected end of stream"),
    ("network: a\n---\nnetwork: b\n", 2, "a file describes one network; remove '---'"),
    ("network: *name\n", 1, "undefined alias 'name'; define it with & above"),
    ("network: a\nnodes: &n {a: *n}\n", 2, "the alias *n contains itself"),
    ("network: a\nnodes: b\x00\n", 2, "the character '\\x00' is not allowed; remove it"),
    ('network: "\\Uffffffff"\n', 1, "not a YAML file"),
    ("network: a\n" + "[" * 5000, 2, "not valid YAML"),
    ("network: a\nnodes: " + "[" * 5000, 2, f"nested deeper than {MAX_DEPTH} levels"),
    ("network: a\nnodes:\n  " + "- " * 5000 + "a", 3, f"nested deeper than {MAX_DEPTH} levels"),
    ("network: " + "a" * MAX_BYTES, 1, "the file is larger than 2,000,000 bytes"),
    ("- a\n- b\n", 1, "expected the sections of a network"),
    ("shop\n", 1, "expected the sections of a network"),
]


@pytest.mark.parametrize(("text", "line", "message"), SYNTAX, ids=range(len(SYNTAX)))
def test_what_is_not_yaml_says_where_and_what_to_do(text: str, line: int, message: str):
    ((found_line, field, found_message),) = found(text)
    assert (found_line, field) == (line, "")
    assert message in found_message


def test_a_billion_laughs_is_refused_before_it_is_expanded():
    lines = ["network: a", "x0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for i in range(1, 30):
        lines.append(f"x{i}: &x{i} [" + ", ".join([f"*x{i - 1}"] * 10) + "]")
    ((line, _, message),) = found("\n".join(lines))
    assert line == 7
    assert "more than 300,000 values, with aliases written out" in message


def test_every_mistake_is_told_at_once():
    text = """\
network: shop
nodes:
  ingest: {capacity: yes}
  analytics: {capacity: -2}
  ingest: {capacity: 3}
links:
  - {from: ingest, to: analytcs, bandwidth: 10 mb/s}
  - {from: ingest}
stream:
  orders: {rate: 2000/s, tuple_bytes: .nan}
  payments: {rate: fast}
operators:
  parsed: {kind: mapp, inputs: orders, node: ingest, cost: -120us}
  no: 5
  loop1: {kind: filter, input: loop2, node: ingest}
  loop2: {kind: filter, input: loop1, node: ingest}
  matched:
    kind: join
    input: [parsed, paymnts]
    cost: 0.4 ms
    selectivity: !!python/object:os.system 0.001
    windows:
      - 500
      - 5x
queries:
  alerts: {input: matched, clas: gold, keep_at_least: 1.5}
  other: {input: no}
  nothing: {}
"""
    assert [(line, field) for line, field, _ in found(text)] == [
        (3, "nodes.ingest.capacity"),
        (4, "nodes.analytics.capacity"),
        (5, "nodes.ingest"),
        (7, "links.0.bandwidth"),
        (7, "links.0.to"),
        (8, "links.1.to"),
        (8, "links.1.bandwidth"),
        (9, "stream"),
        (10, "streams.orders.tuple_bytes"),
        (11, "streams.payments.rate"),
        (13, "operators.parsed.inputs"),
        (13, "operators.parsed.kind"),
        (13, "operators.parsed.cost"),
        (14, "operators.no"),
        (16, "operators.loop2.input"),
        (17, "operators.matched.node"),
        (19, "operators.matched.input"),
        (21, "operators.matched.selectivity"),
        (24, "operators.matched.windows.1"),
        (26, "queries.alerts.clas"),
        (26, "queries.alerts.keep_at_least"),
        (28, "queries.nothing.input"),
    ]


@pytest.mark.parametrize("section", ["nodes", "streams", "queries"])
@pytest.mark.parametrize("value", ["5", "[]", "{}", "~", ""])
def test_a_section_that_cannot_be_read_is_one_problem(section: str, value: str):
    lines = SHOP.splitlines()
    start = lines.index(f"{section}:")
    end = next((i for i in range(start + 1, len(lines)) if lines[i][0] != " "), len(lines))
    text = "\n".join([*lines[:start], f"{section}: {value}", *lines[end:]])
    assert [(line, field) for line, field, _ in found(text)] == [(start + 1, section)]


def test_an_unreadable_operators_section_is_one_problem():
    text = SHOP[: SHOP.index("  parsed:")] + "  - a\n" + SHOP[SHOP.index("queries:") :]
    assert [(line, field) for line, field, _ in found(text)] == [(11, "operators")]


def test_a_missing_section_is_named():
    assert [field for _, field, _ in found("network: a\n")] == ["nodes", "streams", "queries"]


def test_problems_without_end_are_cut_short():
    fields = ", ".join(f"f{i}: 1" for i in range(600))
    problems = found(
        SHOP.replace("{capacity: 1}", f"&x {{{fields}}}").replace("{capacity: 2}", "*x")
    )
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1][2] == "200 more problems; correct those above first"


def test_a_problem_reads_as_file_line_field_message():
    text = SHOP.replace("120us", "soon")
    (problem,) = problems_in(text)
    assert str(problem) == (
        "shop.yaml:11: operators.parsed.cost: expected a number such as 120us, got 'soon'"
    )


def test_load_network_reads_a_file(tmp_path: Path):
    file = tmp_path / "shop.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SHOP.encode())  # some editors write a byte order mark
    assert load_network(file) == parse_network(SHOP)
    assert load_network(str(file)) == parse_network(SHOP)


def test_problems_name_the_file_as_it_was_given(tmp_path: Path):
    file = tmp_path / "shop.yaml"
    file.write_text("network: [\n")
    with pytest.raises(NetworkError) as caught:
        load_network(file)
    assert [problem.file for problem in caught.value.problems] == [str(file)]


def test_a_missing_file_gets_the_nearest_name(tmp_path: Path):
    (tmp_path / "shop.yaml").write_text(SHOP)
    with pytest.raises(UsageError, match=r"there is no file '.*shp\.yaml'; did you mean 'shop"):
        load_network(tmp_path / "shp.yaml")
    with pytest.raises(UsageError, match=r"there is no directory '.*gone' either"):
        load_network(tmp_path / "gone" / "shop.yaml")


@pytest.mark.parametrize("path", [".", "a\0b"])
def test_what_is_not_a_file_is_refused(path: str):
    with pytest.raises(HeadgateError, match="cannot read the network file"):
        load_network(path)


def test_a_file_that_is_not_utf8_says_where(tmp_path: Path):
    file = tmp_path / "latin.yaml"
    file.write_bytes("network: shop\nnodes: {größe: {}}\n".encode("latin-1"))
    with pytest.raises(NetworkError) as caught:
        load_network(file)
    ((line, message),) = [(p.line, p.message) for p in caught.value.problems]
    assert (line, message) == (2, "the file is not UTF-8 text; save it as UTF-8")


@pytest.mark.parametrize("letter", ["a", "ö"])
def test_a_file_that_is_too_large_is_refused(tmp_path: Path, letter: str):
    file = tmp_path / "large.yaml"
    file.write_text("network: " + letter * MAX_BYTES, encoding="utf-8")
    with pytest.raises(NetworkError, match="larger than 2,000,000 bytes"):
        load_network(file)


RUN = """\
network: x
nodes: {A: {capacity: 1}}
streams:
  a:
    source:
      format: kafka
      options: {subscribe: orders, kafka.bootstrap.servers: "broker:9092", maxOffsetsPerTrigger: 9}
      arrival: timestamp
      identity: [partition, offset]
      event_time: timestamp
      watermark: 10s
queries:
  q: {input: a, sink: {format: parquet, options: {path: out/q}}}
"""


def test_sources_and_sinks_are_read_and_written_again() -> None:
    network = parse_network(RUN)
    source = network.stream_by_name["a"].source
    assert source == Source(
        "kafka",
        (
            ("subscribe", "orders"),
            ("kafka.bootstrap.servers", "broker:9092"),
            ("maxOffsetsPerTrigger", "9"),
        ),
        None,
        "timestamp",
        ("partition", "offset"),
        "timestamp",
        10.0,
    )
    assert network.query_by_name["q"].sink == Sink("parquet", (("path", "out/q"),))
    assert parse_network(dump_network(network)) == network


def test_wrong_sources_and_sinks_are_reported_with_their_lines() -> None:
    text = RUN.replace("      watermark: 10s\n", "").replace("[partition, offset]", "[id, id]")
    text = text.replace("{path: out/q}", "{path: [1]}").replace("arrival:", "arival:")
    with pytest.raises(NetworkError) as caught:
        parse_network(text, "x.yaml")
    assert [str(problem) for problem in caught.value.problems] == [
        "x.yaml:5: streams.a.source.watermark: missing; event_time is of no use without it",
        "x.yaml:8: streams.a.source.arival: unknown field; did you mean 'arrival'?",
        "x.yaml:9: streams.a.source.identity: expected the names of different columns",
        "x.yaml:12: queries.q.sink.options.path: expected text, got a list",
    ]


def test_a_source_and_a_sink_need_a_format() -> None:
    text = RUN.replace("      format: kafka\n", "").replace("format: parquet, ", "")
    with pytest.raises(NetworkError) as caught:
        parse_network(text, "x.yaml")
    fields = [".".join(map(str, problem.field)) for problem in caught.value.problems]
    assert fields == ["streams.a.source.format", "queries.q.sink.format"]
