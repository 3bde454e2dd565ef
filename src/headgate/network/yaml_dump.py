"""Write a network as the YAML text that `parse_network` reads.

Guarantees: reading the text gives an equal network, and equal networks give equal
text. Not guaranteed: comments, units and layout of a file that was read before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import yaml

from headgate.network.elements import Link, Node, Operator, Query, Sink, Source, Stream
from headgate.network.model import Network

__all__ = ["dump_network"]


def dump_network(network: Network) -> str:
    """The network as YAML: one line for each part, in the network's own order.

    Numbers are plain and exact, in seconds, tuples per second and bytes.
    """
    sections = {
        "network": network.name,
        "nodes": {node.name: _node(node) for node in network.nodes},
        "links": [_link(link) for link in network.links],
        "streams": {stream.name: _stream(stream) for stream in network.streams},
        "operators": {operator.name: _operator(operator) for operator in network.operators},
        "queries": {query.name: _query(query) for query in network.queries},
    }
    present = {name: value for name, value in sections.items() if value or name == "network"}
    return yaml.dump(
        present,
        Dumper=_LineDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=sys.maxsize,
    )


class _Options(dict[str, str]):
    """Options as they are, on one line."""


class _Line(dict[str, Any]):
    """Fields that are written on one line; those without a value are left out."""

    def __init__(self, **fields: Any) -> None:
        super().__init__({k.rstrip("_"): v for k, v in fields.items() if v is not None})


class _LineDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_line(dumper: yaml.SafeDumper, line: _Line | _Options) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", line.items(), flow_style=True)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Double quotes around line breaks: PyYAML's other styles do not bring all of them back."""
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_LineDumper.add_representer(_Line, _represent_line)
_LineDumper.add_representer(_Options, _represent_line)
_LineDumper.add_representer(str, _represent_text)


def _node(node: Node) -> _Line:
    return _Line(capacity=_number(node.capacity))


def _link(link: Link) -> _Line:
    bandwidth = _number(link.bandwidth_bytes_per_second)
    return _Line(from_=link.source, to=link.target, bandwidth=bandwidth)


def _stream(stream: Stream) -> _Line:
    return _Line(
        rate=_number(stream.rate_per_second),
        tuple_bytes=_number(stream.tuple_bytes),
        source=None if stream.source is None else _source(stream.source),
    )


def _source(source: Source) -> _Line:
    return _Line(
        format=source.format,
        options=_Options(source.options) or None,
        schema=source.schema,
        arrival=source.arrival,
        identity=None if source.identity is None else list(source.identity),
        event_time=source.event_time,
        watermark=_number(source.watermark_seconds),
    )


def _sink(sink: Sink) -> _Line:
    return _Line(format=sink.format, options=_Options(sink.options) or None)


def _operator(operator: Operator) -> _Line:
    return _Line(
        kind=operator.kind.value,
        input=operator.inputs[0] if len(operator.inputs) == 1 else list(operator.inputs),
        node=operator.node,
        cost=_number(operator.cost_seconds),
        selectivity=_number(operator.selectivity),
        windows=_numbers(operator.window_tuples),
        tuple_bytes=_number(operator.tuple_bytes),
        code=operator.code,
        key=None if operator.key is None else list(operator.key),
        window=_number(operator.window_seconds),
        slide=_number(operator.slide_seconds),
    )


def _query(query: Query) -> _Line:
    return _Line(
        input=query.input,
        weight=_number(query.weight),
        class_=query.query_class,
        latency=_number(query.latency_target_seconds),
        keep_at_least=_number(query.keep_at_least) or None,
        sink=None if query.sink is None else _sink(query.sink),
    )


def _number(value: float | None) -> float | int | None:
    """The shortest text that reads back as the same number: whole numbers as such."""
    if value is None:
        return None
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def _numbers(values: Iterable[float] | None) -> list[float | int | None] | None:
    return None if values is None else [_number(value) for value in values]
