"""The network: what runs where, with the look-ups that every layer needs.

Build one with `NetworkBuilder`, or load it from a YAML file. A `Network` that
exists is valid: the constructor refuses anything else with every problem at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from headgate.errors import NetworkError
from headgate.network.elements import Arc, Link, Node, Operator, Query, Stream
from headgate.network.validation import problems_of

__all__ = ["Network"]


@dataclass(frozen=True)
class Network:
    """A valid query network. Names are unique among streams, operators and queries."""

    name: str
    streams: tuple[Stream, ...]
    operators: tuple[Operator, ...]
    queries: tuple[Query, ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        problems = problems_of(self.streams, self.operators, self.queries, self.nodes, self.links)
        if problems:
            raise NetworkError(problems)

    @cached_property
    def stream_by_name(self) -> Mapping[str, Stream]:
        return {s.name: s for s in self.streams}

    @cached_property
    def operator_by_name(self) -> Mapping[str, Operator]:
        return {o.name: o for o in self.operators}

    @cached_property
    def query_by_name(self) -> Mapping[str, Query]:
        return {q.name: q for q in self.queries}

    @cached_property
    def node_by_name(self) -> Mapping[str, Node]:
        return {n.name: n for n in self.nodes}

    @cached_property
    def arcs(self) -> tuple[Arc, ...]:
        """Every arc, operators' inputs first, in the order of the description."""
        into_operators = [Arc(i, o.name) for o in self.operators for i in o.inputs]
        return (*into_operators, *(Arc(q.input, q.name) for q in self.queries))

    @cached_property
    def arcs_from(self) -> Mapping[str, tuple[Arc, ...]]:
        """The arcs that leave each stream and operator."""
        return _grouped(self.arcs, (*self.stream_by_name, *self.operator_by_name))

    @cached_property
    def drop_locations(self) -> tuple[Arc, ...]:
        """Arcs where a gate may stand: input arcs and the arcs behind a split.

        Dropping anywhere else is never better: on a path without a split the
        earliest place saves the most work for the same loss. The order is
        topological: a location comes after every location that feeds it.
        """
        sources = (*(s.name for s in self.streams), *(o.name for o in self.operators_in_order))
        return tuple(
            arc
            for source in sources
            for arc in self.arcs_from[source]
            if source in self.stream_by_name or len(self.arcs_from[source]) > 1
        )

    @cached_property
    def operators_in_order(self) -> tuple[Operator, ...]:
        """Operators, each after everything that feeds it (stable)."""
        waiting = {
            o.name: sum(i in self.operator_by_name for i in o.inputs) for o in self.operators
        }
        ready = [o.name for o in self.operators if waiting[o.name] == 0]
        order: list[Operator] = []
        for name in ready:  # grows while it is read
            order.append(self.operator_by_name[name])
            for arc in self.arcs_from[name]:
                if arc.target in waiting:
                    waiting[arc.target] -= 1
                    if waiting[arc.target] == 0:
                        ready.append(arc.target)
        return tuple(order)

    def node_of(self, name: str) -> str | None:
        """The node an operator runs on; None for a stream or a query."""
        operator = self.operator_by_name.get(name)
        return None if operator is None else operator.node

    @cached_property
    def children_of(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that each node sends tuples to, without itself."""
        pairs = {
            (self.node_of(a.source), self.node_of(a.target))
            for a in self.arcs
            if self.node_of(a.source) is not None and self.node_of(a.target) is not None
        }
        return {
            n.name: tuple(m.name for m in self.nodes if m != n and (n.name, m.name) in pairs)
            for n in self.nodes
        }


def _grouped(arcs: Iterable[Arc], sources: Iterable[str]) -> dict[str, tuple[Arc, ...]]:
    groups: dict[str, list[Arc]] = {source: [] for source in sources}
    for arc in arcs:
        groups[arc.source].append(arc)
    return {source: tuple(group) for source, group in groups.items()}
