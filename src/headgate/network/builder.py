"""Describe a network in Python.

>>> from headgate.network import NetworkBuilder
>>> b = NetworkBuilder("two chains")
>>> a, n = b.node("A"), b.node("B", capacity=2.0)
>>> orders = b.stream("orders", rate_per_second=100)
>>> parsed = b.map("parsed", orders, node=a, cost_seconds=0.001)
>>> fraud = b.filter("fraud", parsed, node=n, cost_seconds=0.01, selectivity=0.1)
>>> _ = b.query("alerts", fraud, weight=5.0)
>>> network = b.build()
>>> [arc.name for arc in network.drop_locations]
['orders->parsed']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.errors import NetworkError, Problem
from headgate.names import nearest
from headgate.network.elements import Link, Node, Operator, OperatorKind, Query, Source, Stream
from headgate.network.model import Network

__all__ = ["NetworkBuilder"]


class NetworkBuilder:
    """Collects the parts; `build` checks them all at once.

    Every method returns the name it was given, so that a variable can stand for
    a part. Nothing but the kind of an operator is checked before `build`, which raises
    NetworkError with every problem.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._streams: list[Stream] = []
        self._operators: list[Operator] = []
        self._queries: list[Query] = []
        self._nodes: list[Node] = []
        self._links: list[Link] = []

    def node(self, name: str, capacity: float = 1.0) -> str:
        self._nodes.append(Node(name, capacity))
        return name

    def link(self, source: str, target: str, bandwidth_bytes_per_second: float) -> None:
        self._links.append(Link(source, target, bandwidth_bytes_per_second))

    def stream(
        self,
        name: str,
        rate_per_second: float | None = None,
        tuple_bytes: float | None = None,
        source: Source | None = None,
    ) -> str:
        self._streams.append(Stream(name, rate_per_second, tuple_bytes, source))
        return name

    def operator(
        self,
        kind: OperatorKind | str,
        name: str,
        inputs: str | Sequence[str],
        node: str,
        **numbers: Any,
    ) -> str:
        """Any operator; `numbers` are the remaining fields of `Operator`."""
        if kind not in list(OperatorKind):
            hint = nearest(str(kind), (k.value for k in OperatorKind))
            raise NetworkError(
                [Problem(("operators", name, "kind"), f"unknown kind {kind!r}{hint}")]
            )
        sources = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        self._operators.append(Operator(name, OperatorKind(kind), sources, node, **numbers))
        return name

    def filter(self, name: str, source: str, node: str, **numbers: Any) -> str:
        return self.operator(OperatorKind.FILTER, name, source, node, **numbers)

    def map(self, name: str, source: str, node: str, **numbers: Any) -> str:
        return self.operator(OperatorKind.MAP, name, source, node, **numbers)

    def aggregate(self, name: str, source: str, node: str, **numbers: Any) -> str:
        return self.operator(OperatorKind.AGGREGATE, name, source, node, **numbers)

    def join(self, name: str, sources: Sequence[str], node: str, **numbers: Any) -> str:
        return self.operator(OperatorKind.JOIN, name, sources, node, **numbers)

    def union(self, name: str, sources: Sequence[str], node: str, **numbers: Any) -> str:
        return self.operator(OperatorKind.UNION, name, sources, node, **numbers)

    def sql(self, name: str, sources: str | Sequence[str], node: str, **numbers: Any) -> str:
        return self.operator(OperatorKind.SQL, name, sources, node, **numbers)

    def delay(self, name: str, source: str, node: str, **numbers: Any) -> str:
        return self.operator(OperatorKind.DELAY, name, source, node, **numbers)

    def query(self, name: str, source: str, **settings: Any) -> str:
        """An output; `settings` are the remaining fields of `Query`."""
        self._queries.append(Query(name, source, **settings))
        return name

    def build(self) -> Network:
        return Network(
            self.name,
            tuple(self._streams),
            tuple(self._operators),
            tuple(self._queries),
            tuple(self._nodes),
            tuple(self._links),
        )
