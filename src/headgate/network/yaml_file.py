"""A network as one YAML file: load it, with every error at once, and write it.

    network: shop
    nodes:
      ingest: {capacity: 1}
      analytics: {capacity: 2}
    links:
      - {from: ingest, to: analytics, bandwidth: 10 MB/s}
    streams:
      orders: {rate: 2000/s, tuple_bytes: 300}
    operators:
      parsed: {kind: map, input: orders, node: ingest, cost: 120us, tuple_bytes: 200}
      large: {kind: filter, input: parsed, node: analytics, cost: 0.4ms, selectivity: 0.1}
    queries:
      alerts: {input: large, weight: 10, class: gold, latency: 3s, keep_at_least: 0.5}

Numbers are plain (seconds, tuples per second, bytes, bytes per second) or carry a
unit, see `headgate.quantities`. A cost, selectivity or rate that is absent is
left to be measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from headgate.errors import NetworkError, Problem
from headgate.network.elements import Link, Node, Operator, OperatorKind, Query, Stream
from headgate.network.model import Network
from headgate.network.text_file import TextFileError, TextFileKind, read_text_file
from headgate.network.validation import problems_of
from headgate.network.yaml_fields import (
    Document,
    Field,
    Path,
    read_entries,
    read_kind,
    read_name,
    read_names,
    read_one_name,
    read_quantities,
    read_quantity,
    read_text,
    read_values,
)
from headgate.network.yaml_spark import read_sink, read_source
from headgate.network.yaml_syntax import MAX_BYTES, YamlSyntaxError, compose
from headgate.quantities import AMOUNT, BANDWIDTH, DURATION, RATE, SIZE

__all__ = ["MAX_PROBLEMS", "load_network", "parse_network"]

MAX_PROBLEMS = 1000

_FILE = TextFileKind(
    "network file", (".yaml", ".yml"), MAX_BYTES, "split the network into several files"
)

_NODE = {"capacity": Field(read_quantity(AMOUNT))}
_STREAM = {
    "rate": Field(read_quantity(RATE)),
    "tuple_bytes": Field(read_quantity(SIZE)),
    "source": Field(read_source),
}
_OPERATOR = {
    "kind": Field(read_kind, "give one of " + ", ".join(kind.value for kind in OperatorKind)),
    "input": Field(read_names, "name the streams or operators that it reads"),
    "node": Field(read_name),  # validation says it if an operator is on no node
    "cost": Field(read_quantity(DURATION)),
    "selectivity": Field(read_quantity(AMOUNT)),
    "windows": Field(read_quantities(AMOUNT)),
    "tuple_bytes": Field(read_quantity(SIZE)),
    "code": Field(read_text),
    "key": Field(read_names),
    "window": Field(read_quantity(DURATION)),
    "slide": Field(read_quantity(DURATION)),
}
_QUERY = {
    "input": Field(read_one_name, "no stream feeds the query: name a stream or an operator"),
    "weight": Field(read_quantity(AMOUNT)),
    "class": Field(read_name),
    "latency": Field(read_quantity(DURATION)),
    "keep_at_least": Field(read_quantity(AMOUNT)),
    "sink": Field(read_sink),
}
_LINK = {
    "from": Field(read_name, "name the node that sends"),
    "to": Field(read_name, "name the node that receives"),
    "bandwidth": Field(read_quantity(BANDWIDTH), "give the limit, for example 10 MB/s"),
}


@dataclass(frozen=True)
class _Parts:
    """What could be read. A field without a value has one that causes no second error."""

    name: str
    streams: tuple[Stream, ...]
    operators: tuple[Operator, ...]
    queries: tuple[Query, ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


Check = Callable[[Network], Iterable[Problem]]


def load_network(path: str | os.PathLike[str], further: Check | None = None) -> Network:
    """The network that the file describes.

    further: what else to look for in a network that is valid; problems get their lines.

    Raises NetworkError with every problem, each with its line, and UsageError if
    there is no file that can be read. Files above 2 MB are refused.
    """
    try:
        text = read_text_file(path, _FILE)
    except TextFileError as error:
        raise NetworkError([Problem((), error.message, str(path), error.line)]) from None
    return parse_network(text, str(path), further)


def parse_network(text: str, file: str = "<text>", further: Check | None = None) -> Network:
    """The network that `text` describes; `file` is what problems call it.

    Raises NetworkError with every problem of the text, in the order of lines, and
    nothing else; beyond 1000 problems it only says how many more there are.

    Not reported: what comes after a syntax error, what merely follows from a field
    that could not be read, and the content of the second of two equal keys.
    """
    try:
        root = compose(text)
    except YamlSyntaxError as error:
        raise NetworkError([Problem((), error.message, file, error.line)]) from None
    if root is None:
        message = "the file is empty; describe nodes, streams and queries, see examples/table1.yaml"
        raise NetworkError([Problem((), message, file, 1)])
    document = Document(file)
    parts = _read_parts(document, root)
    if parts is not None:
        assumed = _with_what_was_not_read(document, parts)
        document.add_semantic(
            problems_of(
                assumed.streams, assumed.operators, assumed.queries, assumed.nodes, assumed.links
            )
        )
    if document.problems or parts is None:
        raise NetworkError(_in_order(document.problems))
    network = Network(
        parts.name, parts.streams, parts.operators, parts.queries, parts.nodes, parts.links
    )
    document.add_semantic(() if further is None else further(network))
    if document.problems:
        raise NetworkError(_in_order(document.problems))
    return network


def _in_order(problems: list[Problem]) -> list[Problem]:
    """By line; cut short where nobody would read on."""
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    shown, more = ordered[:MAX_PROBLEMS], len(ordered) - MAX_PROBLEMS
    if more > 0:
        message = f"{more} more problems; correct those above first"
        shown.append(replace(ordered[MAX_PROBLEMS], field=(), message=message))
    return shown


def _read_parts(document: Document, root: yaml.Node) -> _Parts | None:
    sections = {
        "network": Field(read_text, "give the network a name, for example network: shop"),
        "nodes": Field(_read_nodes, "describe at least one node, for example a: {capacity: 1}"),
        "links": Field(_read_links),
        "streams": Field(_read_streams, "describe at least one stream, for example a: {rate: 5/s}"),
        "operators": Field(_read_operators),
        "queries": Field(_read_queries, "describe at least one query, for example q: {input: a}"),
    }
    values = read_values(document, root, (), sections, "the sections of a network,")
    if values is None:
        return None
    return _Parts(
        name=values.get("network") or "",
        streams=values.get("streams") or (),
        operators=values.get("operators") or (),
        queries=values.get("queries") or (),
        nodes=values.get("nodes") or (),
        links=values.get("links") or (),
    )


def _read_nodes(document: Document, node: yaml.Node, path: Path) -> tuple[Node, ...]:
    return tuple(
        Node(name, **_given(capacity=values.get("capacity")))
        for name, values in _read_section(document, node, path, _NODE, "a node")
    )


def _read_streams(document: Document, node: yaml.Node, path: Path) -> tuple[Stream, ...]:
    return tuple(
        Stream(name, values.get("rate"), values.get("tuple_bytes"), values.get("source"))
        for name, values in _read_section(document, node, path, _STREAM, "a stream")
    )


def _read_operators(document: Document, node: yaml.Node, path: Path) -> tuple[Operator, ...]:
    return tuple(
        _operator(name, values)
        for name, values in _read_section(document, node, path, _OPERATOR, "an operator")
    )


def _operator(name: str, values: Mapping[str, Any]) -> Operator:
    kind, inputs = values.get("kind"), values.get("input")
    return Operator(
        name,
        kind=kind or OperatorKind.SQL,  # takes any number of inputs: no second error
        inputs=inputs or (),
        node=values.get("node") or "",
        cost_seconds=values.get("cost"),
        selectivity=values.get("selectivity"),
        window_tuples=values.get("windows") if kind and inputs else None,
        tuple_bytes=values.get("tuple_bytes"),
        code=values.get("code"),
        key=values.get("key") if kind else None,
        window_seconds=values.get("window") if kind else None,
        slide_seconds=values.get("slide") if kind and _read(values, "window") else None,
    )


def _read(values: Mapping[str, Any], name: str) -> bool:
    """False for a field that is there and could not be read."""
    return name not in values or values[name] is not None


def _read_queries(document: Document, node: yaml.Node, path: Path) -> tuple[Query, ...]:
    return tuple(
        Query(
            name,
            values.get("input") or "",
            query_class=values.get("class"),
            latency_target_seconds=values.get("latency"),
            sink=values.get("sink"),
            **_given(weight=values.get("weight"), keep_at_least=values.get("keep_at_least")),
        )
        for name, values in _read_section(document, node, path, _QUERY, "a query")
    )


def _read_links(document: Document, node: yaml.Node, path: Path) -> tuple[Link, ...] | None:
    if not isinstance(node, yaml.SequenceNode):
        document.refuse(path, "expected a list, each line beginning with '- '", node)
        return None
    links = []
    for position, item in enumerate(node.value):
        place = (*path, position)
        document.lines[place] = item.start_mark.line + 1
        values = read_values(document, item, place, _LINK, "a link") or {}
        source = values.get("from") or f"?from {position}"  # unlike every other end
        target = values.get("to") or f"?to {position}"
        links.append(Link(source, target, values.get("bandwidth") or 0.0))
    return tuple(links)


def _read_section(
    document: Document, node: yaml.Node, path: Path, fields: Mapping[str, Field], what: str
) -> list[tuple[str, dict[str, Any]]]:
    """The name and the values of each part; a part that cannot be read keeps its name."""
    entries = read_entries(document, node, path, f"a name and the fields of {what} on each line")
    return [
        (name, read_values(document, value, (*path, name), fields, what) or {})
        for name, value in (entries or {}).items()
    ]


def _given(**values: float | None) -> dict[str, Any]:
    """The values that are there, so that a dataclass uses its own default for the rest."""
    return {name: value for name, value in values.items() if value is not None}


def _with_what_was_not_read(document: Document, parts: _Parts) -> _Parts:
    """Assume that a section that could not be read defines every name that is used."""
    nodes, streams = parts.nodes, parts.streams
    if ("nodes",) in document.unread:
        used = [o.node for o in parts.operators] + [
            end for link in parts.links for end in (link.source, link.target)
        ]
        nodes = tuple(Node(name) for name in dict.fromkeys(used) if name)
    if document.unread & {("streams",), ("operators",)}:
        defined = {s.name for s in streams} | {o.name for o in parts.operators}
        used = [i for o in parts.operators for i in o.inputs] + [q.input for q in parts.queries]
        missing = [name for name in dict.fromkeys(used) if name and name not in defined]
        streams = (*streams, *(Stream(name) for name in missing))
    return replace(parts, nodes=nodes, streams=streams)
