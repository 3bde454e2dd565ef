"""A network as linear algebra: what one tuple kept at a drop location does downstream.

Let k_d be the rate kept at drop location d (tuples per second behind the gate).
Every rate, load and score of the network is linear in these k_d, because each
stretch between two drop locations multiplies by known gains:

    offered_d   = rate of the stream            (input arcs)
    offered_d   = sum over d' of feed[d, d'] k_d'   (arcs behind a split)
    load_c      = sum over d of load[c, d] k_d      (nodes: CPU s/s, links: bytes/s)
    delivered_q = sum over d of delivered[q, d] k_d (tuples/s at query q)

and a plan is feasible when 0 <= k_d <= offered_d and load_c <= capacity_c. The
k_d are the paper's prefix variables (2007, section 3.2) times the input rate, so
that a change of rates moves bounds only and the program stays warm. Unions and
joins enter through their gains (section 3.3); any acyclic topology is covered.

Guarantee: `evaluate` computes in the order of flow, so its loads and rates are
those of the network, not of a solver's tolerances. Cost: linear in the number of
nonzero coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.network import Arc, Network, Statistics, check_rates

__all__ = ["Floats", "Flow", "FlowModel", "SparseMatrix", "compile_flow"]

Floats = NDArray[np.float64]
Terms = dict[int, float]


@dataclass(frozen=True)
class SparseMatrix:
    """Coordinate form; `dense` where a small matrix is wanted whole."""

    shape: tuple[int, int]
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Floats

    @classmethod
    def of(cls, shape: tuple[int, int], terms: Iterable[tuple[int, Terms]]) -> SparseMatrix:
        entries = [(r, c, v) for r, row in terms for c, v in sorted(row.items()) if v != 0.0]
        rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
        return cls(
            shape,
            np.array(rows, dtype=np.int32),
            np.array(columns, dtype=np.int32),
            np.array(values, dtype=np.float64),
        )

    def times(self, vector: Floats) -> Floats:
        """Matrix times vector."""
        products = self.values * vector[self.columns]
        return np.bincount(self.rows, products, self.shape[0]).astype(np.float64, copy=False)

    def transposed_times(self, vector: Floats) -> Floats:
        """Transposed matrix times vector."""
        products = self.values * vector[self.rows]
        return np.bincount(self.columns, products, self.shape[1]).astype(np.float64, copy=False)

    @cached_property
    def dense(self) -> Floats:
        matrix = np.zeros(self.shape)
        matrix[self.rows, self.columns] = self.values
        return matrix

    def select_rows(self, chosen: NDArray[np.bool_]) -> SparseMatrix:
        """The same matrix with every other row emptied."""
        mask = chosen[self.rows]
        return SparseMatrix(self.shape, self.rows[mask], self.columns[mask], self.values[mask])

    def select_columns(self, chosen: NDArray[np.bool_]) -> SparseMatrix:
        """The same matrix with every other column emptied."""
        mask = chosen[self.columns]
        return SparseMatrix(self.shape, self.rows[mask], self.columns[mask], self.values[mask])


@dataclass(frozen=True)
class Flow:
    """What happens under given keep fractions, in tuples, CPU seconds and bytes per second."""

    offered: Floats
    kept: Floats
    loads: Floats
    delivered: Floats
    score: float


@dataclass(frozen=True)
class FlowModel:
    """The linear model of one network under one set of statistics."""

    network: Network
    locations: tuple[Arc, ...]
    constraints: tuple[str, ...]
    capacities: Floats
    weights: Floats
    stream_of: NDArray[np.int32]  # per location: index of its stream, -1 behind a split
    feed: SparseMatrix
    load: SparseMatrix
    delivered: SparseMatrix
    levels: tuple[NDArray[np.int32], ...]  # locations by depth; level 0 are the input arcs

    @property
    def node_count(self) -> int:
        """The first `node_count` constraints are nodes; the rest are links."""
        return len(self.network.nodes)

    def rates(self, rates_per_second: Mapping[str, float]) -> Floats:
        """A rate for every stream, in the network's order, checked."""
        return np.fromiter(check_rates(self.network, rates_per_second).values(), dtype=np.float64)

    def input_rates(self, rates: Floats) -> Floats:
        """The offered rate of each input arc; 0 for arcs behind a split."""
        if not len(rates):
            return np.zeros(len(self.locations))
        return np.where(self.stream_of >= 0, rates[self.stream_of], 0.0)

    def evaluate(self, rates: Floats, keep_fractions: Floats) -> Flow:
        """Follow the tuples through the network under `keep_fractions`."""
        offered = self.input_rates(rates)
        kept = offered * keep_fractions
        for level, rows in zip(self.levels[1:], self._feed_by_level, strict=True):
            offered[level] = rows.times(kept)[level]
            kept[level] = offered[level] * keep_fractions[level]
        delivered = self.delivered.times(kept)
        return Flow(
            offered, kept, self.load.times(kept), delivered, float(self.weights @ delivered)
        )

    def unshed(self, rates: Floats) -> Flow:
        """What would happen without any drop."""
        return self.evaluate(rates, np.ones(len(self.locations)))

    def is_feasible(self, flow: Flow, tolerance: float = 1e-9) -> bool:
        """True when no node and no link is over its capacity (relative tolerance)."""
        return bool(np.all(flow.loads <= self.capacities * (1.0 + tolerance)))

    def value_of_flow(self, prices: Floats, weights: Floats) -> Floats:
        """What one tuple offered at each location is worth at given prices of capacity.

        With prices p >= 0 for the constraints, the worth of a tuple is
        max(0, direct reward - price of its direct load + worth of what it feeds),
        computed against the flow. For every p, `capacities . p + rates . worth` is an
        upper bound on the score of any plan (weak duality), whatever a solver says.
        """
        direct = self.delivered.transposed_times(weights) - self.load.transposed_times(prices)
        worth = np.zeros(len(self.locations))
        for position in range(len(self.levels) - 1, -1, -1):
            level = self.levels[position]
            downstream = self.feed.transposed_times(worth) if position < len(self.levels) - 1 else 0
            worth[level] = np.maximum(0.0, direct + downstream)[level]
        return worth

    def score_bound(self, rates: Floats, prices: Floats, weights: Floats) -> float:
        """The upper bound on the weighted score that these prices prove."""
        worth = self.value_of_flow(prices, weights)
        return float(self.capacities @ prices + self.input_rates(rates) @ worth)

    @cached_property
    def forwarding(self) -> tuple[tuple[int, NDArray[np.int32], Floats], ...]:
        """Locations whose tuples go to splits only, and to splits nobody else feeds.

        For each: its index, the locations it feeds, and the gain to each of them.
        """
        feeders = np.bincount(self.feed.rows, minlength=len(self.locations))
        answers = set(self.delivered.columns.tolist())
        found = []
        for location in np.unique(self.feed.columns).tolist():
            entries = self.feed.columns == location
            fed = self.feed.rows[entries]
            if location not in answers and np.all(feeders[fed] == 1):
                found.append((location, fed, self.feed.values[entries]))
        return tuple(found)

    @cached_property
    def _feed_by_level(self) -> tuple[SparseMatrix, ...]:
        masks = []
        for level in self.levels[1:]:
            chosen = np.zeros(len(self.locations), dtype=bool)
            chosen[level] = True
            masks.append(self.feed.select_rows(chosen))
        return tuple(masks)


def compile_flow(network: Network, statistics: Statistics | None = None) -> FlowModel:
    """The flow model of `network`; raises StatisticsError where a number is missing."""
    statistics = statistics or Statistics()
    locations = network.drop_locations
    number = {arc: index for index, arc in enumerate(locations)}
    streams = {s.name: index for index, s in enumerate(network.streams)}
    node_row = {n.name: index for index, n in enumerate(network.nodes)}
    link_row = {
        (link.source, link.target): len(node_row) + index
        for index, link in enumerate(network.links)
    }
    out: dict[str, Terms] = {}
    feed: dict[int, Terms] = {}
    load: dict[int, Terms] = {}

    def arriving(arc: Arc) -> Terms:
        return {number[arc]: 1.0} if arc in number else out[arc.source]

    for operator in network.operators_in_order:
        cost = statistics.cost_seconds(operator)
        row = load.setdefault(node_row[operator.node], {})
        result: Terms = {}
        for source, gain in zip(operator.inputs, statistics.gains(operator), strict=True):
            arc = Arc(source, operator.name)
            terms = arriving(arc)
            _add(row, terms, cost)
            _add(result, terms, gain)
            link = link_row.get((network.node_of(source) or "", operator.node))
            if link is not None:
                tuple_bytes = network.operator_by_name[source].tuple_bytes or 0.0
                _add(load.setdefault(link, {}), terms, tuple_bytes)
        out[operator.name] = result
        for arc in network.arcs_from[operator.name]:
            if arc in number:
                feed[number[arc]] = result
    deliver = [(i, arriving(Arc(q.input, q.name))) for i, q in enumerate(network.queries)]
    count = len(locations)
    constraints = (*(n.name for n in network.nodes), *(link.name for link in network.links))
    return FlowModel(
        network=network,
        locations=locations,
        constraints=constraints,
        capacities=np.array(
            [n.capacity for n in network.nodes]
            + [link.bandwidth_bytes_per_second for link in network.links],
            dtype=np.float64,
        ),
        weights=np.array([q.weight for q in network.queries], dtype=np.float64),
        stream_of=np.array([streams.get(arc.source, -1) for arc in locations], dtype=np.int32),
        feed=SparseMatrix.of((count, count), sorted(feed.items())),
        load=SparseMatrix.of((len(constraints), count), sorted(load.items())),
        delivered=SparseMatrix.of((len(network.queries), count), deliver),
        levels=_levels(count, feed),
    )


def _add(total: Terms, terms: Terms, factor: float) -> None:
    for location, value in terms.items():
        total[location] = total.get(location, 0.0) + factor * value


def _levels(count: int, feed: Mapping[int, Terms]) -> tuple[NDArray[np.int32], ...]:
    depth = np.zeros(count, dtype=np.int32)
    for location in sorted(feed):  # locations are in the order of flow
        depth[location] = 1 + max((int(depth[d]) for d in feed[location]), default=0)
    return tuple(np.flatnonzero(depth == d).astype(np.int32) for d in range(int(depth.max()) + 1))
