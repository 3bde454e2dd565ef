"""Random valid networks for property tests, the same network for the same seed.

What is in them: chains, splits in splits, splits that meet again, unions, joins
of two or three inputs, several nodes, limited links, queries on streams and on
split arcs, operators that are not listed in topological order. Some streams have
rate 0, some operators cost or select nothing, some queries weigh nothing.

What is not in them: missing statistics, `keep_at_least` above 0, nodes of zero
capacity. Add those in the test that needs them, with `dataclasses.replace`.

>>> import numpy
>>> network = random_network(numpy.random.default_rng(7))
>>> network == random_network(numpy.random.default_rng(7))
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from numpy.random import Generator

from headgate.network import (
    Link,
    Network,
    Node,
    Operator,
    OperatorKind,
    Query,
    Statistics,
    Stream,
)

__all__ = ["arc_rates", "node_loads", "random_network"]

T = TypeVar("T")
UNARY_KINDS = (
    OperatorKind.FILTER,
    OperatorKind.MAP,
    OperatorKind.AGGREGATE,
    OperatorKind.SQL,
    OperatorKind.DELAY,
)


def random_network(
    rng: Generator,
    *,
    max_streams: int = 4,
    max_nodes: int = 4,
    links: bool = True,
    tree: bool = False,
    joins: bool = True,
) -> Network:
    """A valid network with a rate on every stream.

    At these rates and without shedding, the fullest node typically has 0.8 to 4
    times the load it can carry; a limited link 0.5 to 3 times. If every rate
    or every cost is 0, nothing is overloaded.

    tree:  every node gets tuples from at most one other node. (Streams may enter
           at any node, and operators may still form any acyclic graph.)
    links: limit the bandwidth of about half the pairs of nodes that talk.
    joins: allow joins; without them the only merges are unions.
    """
    growth = _Growth(rng, max_streams, max_nodes, tree=tree, joins=joins)
    network = growth.grow()
    network = _with_overload(rng, network)
    return _with_links(rng, network) if links else network


def arc_rates(network: Network) -> dict[str, float]:
    """Tuples per second out of each stream and operator when nothing is dropped."""
    statistics = Statistics()
    rates = {s.name: s.rate_per_second or 0.0 for s in network.streams}
    for operator in network.operators_in_order:
        gains = statistics.gains(operator)
        rates[operator.name] = sum(
            rates[i] * gain for i, gain in zip(operator.inputs, gains, strict=True)
        )
    return rates


def node_loads(network: Network) -> dict[str, float]:
    """CPU seconds per second that each node needs when nothing is dropped."""
    rates = arc_rates(network)
    loads = {n.name: 0.0 for n in network.nodes}
    for operator in network.operators:
        arriving = sum(rates[i] for i in operator.inputs)
        loads[operator.node] += arriving * Statistics().cost_seconds(operator)
    return loads


@dataclass
class _Growth:
    """A network while it grows: operators are only ever added behind existing ones."""

    rng: Generator
    max_streams: int
    max_nodes: int
    tree: bool
    joins: bool
    streams: list[Stream] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    parents: list[int | None] = field(default_factory=list)
    place: dict[str, int | None] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def grow(self) -> Network:
        self._plant()
        for _ in range(self._between(1, 3 + 3 * len(self.streams))):
            self._merge() if self._chance(0.25) else self._extend()
        for source in self._open():
            if source in self._stream_names() and not self._chance(0.1):
                source = self._unary(source)
            self._query(source)
        for operator in [o for o in self.operators if self._chance(0.08)]:
            self._query(operator.name)
        if self._chance(0.5):
            self.rng.shuffle(self.operators)
        return Network(
            "random",
            tuple(self.streams),
            tuple(self.operators),
            tuple(self.queries),
            tuple(self.nodes),
        )

    def _plant(self) -> None:
        several = max(self._between(1, self.max_nodes), self._between(1, self.max_nodes))
        for i in range(several):
            self.nodes.append(Node(f"n{i}", self._uniform(0.5, 2.0)))
            self.parents.append(self._between(0, i - 1) if i and self._chance(0.8) else None)
        for i in range(self._between(1, self.max_streams)):
            rate = 0.0 if self._chance(0.07) else self._uniform(0.2, 2.0)
            self.streams.append(Stream(f"s{i}", rate, self._uniform(50, 500)))
            self.place[f"s{i}"] = None

    def _extend(self) -> None:
        """One more operator behind an open end, or a second branch behind any part."""
        ends = self._open()
        splits = not ends or self._chance(0.3)
        self._unary(self._pick(list(self.place) if splits else ends))

    def _unary(self, source: str) -> str:
        node = self._next_node(source)
        selectivity = 0.0 if self._chance(0.05) else self._uniform(0.1, 1.5)
        if self._chance(0.3):
            selectivity = 1.0
        return self._operator(self._pick(list(UNARY_KINDS)), [source], node, selectivity, None)

    def _merge(self) -> None:
        first = self._pick(list(self.place))
        node = self._next_node(first)
        others = [n for n in self.place if n != first and node in self._reachable(n)]
        if not others:
            return
        count = min(len(others), 2 if self._chance(0.2) else 1)
        chosen = self.rng.choice(len(others), size=count, replace=False)
        inputs = [first, *(others[int(i)] for i in chosen)]
        if self.joins and self._chance(0.5):
            windows = tuple(float(self._between(1, 50)) for _ in inputs)
            pairs = float(max(windows)) ** (len(inputs) - 1)
            selectivity = self._uniform(0.2, 1.0) / pairs
            self._operator(OperatorKind.JOIN, inputs, node, selectivity, windows)
        else:
            self._operator(OperatorKind.UNION, inputs, node, 1.0, None)

    def _operator(
        self,
        kind: OperatorKind,
        inputs: list[str],
        node: int,
        selectivity: float,
        windows: tuple[float, ...] | None,
    ) -> str:
        name = f"o{len(self.operators)}"
        cost = 0.0 if self._chance(0.05) else self._uniform(0.05, 1.0)
        size = self._uniform(20, 400)
        self.operators.append(
            Operator(
                name, kind, tuple(inputs), f"n{node}", cost, selectivity, windows, tuple_bytes=size
            )
        )
        self.place[name] = node
        self.taken.update(inputs)
        return name

    def _query(self, source: str) -> None:
        weight = 1.0 if self._chance(0.4) else self._uniform(0.1, 10.0)
        self.queries.append(
            Query(
                f"q{len(self.queries)}",
                source,
                0.0 if self._chance(0.07) else weight,
                query_class=self._pick([None, "gold", "silver"]),
                latency_target_seconds=self._pick([None, 0.5, 3.0]),
            )
        )
        self.taken.add(source)

    def _reachable(self, source: str) -> list[int]:
        """The nodes that an operator behind `source` may stand on."""
        here = self.place[source]
        if here is None:
            return list(range(len(self.nodes)))
        if self.tree:
            return [here, *(n for n, parent in enumerate(self.parents) if parent == here)]
        return list(range(here, len(self.nodes)))

    def _next_node(self, source: str) -> int:
        """Streams enter early and operators tend to move on, so that nodes do talk."""
        nodes = self._reachable(source)
        if self.place[source] is None:
            return min(self._pick(nodes), self._pick(nodes))
        onward = nodes[1:] if self._chance(0.7) else []
        return self._pick(onward or nodes)

    def _open(self) -> list[str]:
        return [name for name in self.place if name not in self.taken]

    def _stream_names(self) -> set[str]:
        return {s.name for s in self.streams}

    def _between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def _uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def _chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def _pick(self, choices: list[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]


def _with_overload(rng: Generator, network: Network) -> Network:
    """Scale all rates so that the fullest node has 0.8 to 4 times its capacity."""
    loads = node_loads(network)
    fullest = max(loads[n.name] / n.capacity for n in network.nodes)
    if fullest == 0:
        return network
    scale = float(rng.uniform(0.8, 4.0)) / fullest
    streams = tuple(
        replace(s, rate_per_second=(s.rate_per_second or 0.0) * scale) for s in network.streams
    )
    return replace(network, streams=streams)


def _with_links(rng: Generator, network: Network) -> Network:
    links = [
        Link(source, target, flow / float(rng.uniform(0.5, 3.0)) if flow else 1.0)
        for (source, target), flow in _link_flows(network).items()
        if rng.random() < 0.5
    ]
    return replace(network, links=tuple(links))


def _link_flows(network: Network) -> Mapping[tuple[str, str], float]:
    """Bytes per second between each pair of nodes that talk, when nothing is dropped."""
    rates = arc_rates(network)
    flows: dict[tuple[str, str], float] = {}
    for operator in network.operators:
        for source in operator.inputs:
            sender = network.operator_by_name.get(source)
            if sender is not None and sender.node != operator.node:
                pair = (sender.node, operator.node)
                size = sender.tuple_bytes or 0.0
                flows[pair] = flows.get(pair, 0.0) + rates[source] * size
    return flows
