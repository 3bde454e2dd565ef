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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.network import Arc, Link, Network, Node, Operator, Statistics, check_rates

__all__ = ["Floats", "Flow", "FlowModel", "SparseMatrix", "compile_flow", "compile_part"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp] | slice
Terms = dict[int, float]


@dataclass(frozen=True)
class SparseMatrix:
    """Coordinate form; `dense` where a small matrix is wanted whole."""

    shape: tuple[int, int]
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    values: Floats

    @classmethod
    def of(cls, shape: tuple[int, int], terms: Iterable[tuple[int, Terms]]) -> SparseMatrix:
        entries = [(r, c, v) for r, row in terms for c, v in sorted(row.items()) if v != 0.0]
        rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
        return cls(
            shape,
            np.array(rows, dtype=np.intp),
            np.array(columns, dtype=np.intp),
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

    def take_rows(self, chosen: NDArray[np.intp]) -> SparseMatrix:
        """The matrix of these rows alone, in this order."""
        place = np.full(self.shape[0], -1, dtype=np.intp)
        place[chosen] = np.arange(len(chosen))
        rows = place[self.rows]
        mask = rows >= 0
        shape = (len(chosen), self.shape[1])
        return SparseMatrix(shape, rows[mask], self.columns[mask], self.values[mask])

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

    def thinned(self, keep_fraction: float, inputs: Index) -> Flow:
        """The flow if all inputs are kept by this much less; `inputs` are their locations."""
        offered = self.offered * keep_fraction
        offered[inputs] = self.offered[inputs]
        return Flow(
            offered,
            self.kept * keep_fraction,
            self.loads * keep_fraction,
            self.delivered * keep_fraction,
            self.score * keep_fraction,
        )


@dataclass(frozen=True)
class Forwarding:
    """Locations of one level that only feed splits of their own.

    The locations fed by `owners[i]` are `fed[starts[i]:starts[i + 1]]`.
    """

    owners: NDArray[np.intp]
    starts: NDArray[np.intp]
    fed: NDArray[np.intp]
    gains: Floats


@dataclass(frozen=True)
class FlowModel:
    """The linear model of a network, or of the part of it that runs on one node.

    inputs:  what flows in from outside: streams, and for a part the arcs that enter it.
    outputs: what flows out: queries, and for a part the arcs that leave it.
    """

    network: Network
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    locations: tuple[Arc, ...]
    constraints: tuple[str, ...]
    node_count: int  # the first constraints are nodes, the rest are links
    capacities: Floats
    weights: Floats  # score of one tuple at each output; 0 for arcs that leave the part
    input_of: NDArray[np.intp]  # per location: index of its input, -1 behind a split
    feed: SparseMatrix
    load: SparseMatrix
    delivered: SparseMatrix
    levels: tuple[NDArray[np.intp], ...]  # locations by depth; level 0 are the input arcs

    def rates(self, rates_per_second: Mapping[str, float]) -> Floats:
        """A rate for every stream of a whole network, in its order, checked."""
        return np.fromiter(check_rates(self.network, rates_per_second).values(), dtype=np.float64)

    def input_rates(self, rates: Floats) -> Floats:
        """The offered rate of each input arc; 0 for arcs behind a split."""
        offered = np.zeros(len(self.locations))
        self.set_inputs(offered, rates)
        return offered

    def set_inputs(self, offered: Floats, rates: Floats) -> None:
        """Write the rates of the input arcs into `offered`."""
        offered[self.entering] = rates[self._entering_of]

    def evaluate(self, rates: Floats, keep_fractions: Floats) -> Flow:
        """Follow the tuples through the network under `keep_fractions`."""
        offered = self.input_rates(rates)
        kept = offered * keep_fractions
        for level, feed in self._feed_by_level:
            arriving = feed.times(kept)
            offered[level] = arriving
            kept[level] = arriving * keep_fractions[level]
        delivered = self.delivered.times(kept)
        return Flow(
            offered, kept, self.load.times(kept), delivered, float(self.weights @ delivered)
        )

    def unshed(self, rates: Floats) -> Flow:
        """What would happen without any drop."""
        return self.evaluate(rates, np.ones(len(self.locations)))

    def is_feasible(self, flow: Flow, tolerance: float = 1e-9) -> bool:
        """True when no node and no link is over its capacity (relative tolerance)."""
        return bool((flow.loads <= self.capacities * (1.0 + tolerance)).all())

    def fullest(self, flow: Flow) -> float:
        """The largest load of a node or link that has a capacity, as a share of it."""
        limited, capacities = self._limited
        return float((flow.loads[limited] / capacities).max(initial=0.0))

    def worth(self, prices: Floats, weights: Floats) -> Floats:
        """What one tuple offered at each location is worth at given prices of capacity.

        With prices p >= 0 for the constraints, the worth of a tuple is
        max(0, direct reward - price of its direct load + worth of what it feeds),
        computed against the flow. For every p, `capacities . p + rates . worth` is an
        upper bound on the score of any plan (weak duality), whatever a solver says.
        """
        direct = self.delivered.transposed_times(weights) - self.load.transposed_times(prices)
        worth = np.zeros(len(self.locations))
        last = len(self.levels) - 1
        for position in range(last, -1, -1):
            downstream = self.feed.transposed_times(worth) if position < last else 0.0
            level = self.levels[position]
            worth[level] = np.maximum(0.0, direct + downstream)[level]
        return worth

    def input_worth(self, worth: Floats) -> Floats:
        """The worth of one tuple of each input: the sum over the arcs it feeds."""
        chosen = self.input_of >= 0
        sums = np.bincount(self.input_of[chosen], worth[chosen], len(self.inputs))
        return sums.astype(np.float64, copy=False)

    def score_bound(self, rates: Floats, prices: Floats, weights: Floats) -> float:
        """The upper bound on the weighted score that these prices prove."""
        return float(
            self.capacities @ prices + self.input_rates(rates) @ self.worth(prices, weights)
        )

    @cached_property
    def forwarding(self) -> tuple[Forwarding, ...]:
        """Locations whose tuples go to splits only, and to splits nobody else feeds.

        One entry a level, the deepest first.
        """
        if not len(self.feed.values):
            return ()
        feeders = np.bincount(self.feed.rows, minlength=len(self.locations))
        excluded = np.zeros(len(self.locations), dtype=bool)
        excluded[self.delivered.columns] = True
        excluded[self.feed.columns[feeders[self.feed.rows] > 1]] = True
        order = np.argsort(self.feed.columns, kind="stable")
        found = []
        for level in reversed(self.levels):
            here = order[np.isin(self.feed.columns[order], level)]
            here = here[~excluded[self.feed.columns[here]]]
            owners, starts = np.unique(self.feed.columns[here], return_index=True)
            if len(owners):
                fed, gains = self.feed.rows[here], self.feed.values[here]
                found.append(Forwarding(owners, starts, fed, gains))
        return tuple(found)

    @cached_property
    def entering(self) -> Index:
        """The locations that are input arcs."""
        return _index(np.flatnonzero(self.input_of >= 0))

    @cached_property
    def _entering_of(self) -> NDArray[np.intp]:
        return self.input_of[self.entering]

    @cached_property
    def _limited(self) -> tuple[Index, Floats]:
        """The constraints that have a capacity, and their capacities."""
        limited = np.flatnonzero(self.capacities > 0.0)
        return _index(limited), self.capacities[limited]

    @cached_property
    def _feed_by_level(self) -> tuple[tuple[Index, SparseMatrix], ...]:
        return tuple((_index(level), self.feed.take_rows(level)) for level in self.levels[1:])


def compile_flow(
    network: Network,
    statistics: Statistics | None = None,
    *,
    gates_between_nodes: bool = False,
) -> FlowModel:
    """The flow model of `network`; raises StatisticsError where a number is missing.

    With `gates_between_nodes` the arcs from node to node are drop locations too,
    as they are where each node decides alone.
    """
    locations = network.drop_locations
    if gates_between_nodes:
        chosen = {*locations, *(arc for arc in network.arcs if _crosses(network, arc))}
        order = {o.name: i for i, o in enumerate(network.operators_in_order)}
        locations = tuple(
            sorted(
                (arc for arc in network.arcs if arc in chosen),
                key=lambda arc: order.get(arc.source, -1),
            )
        )
    inputs = {s.name: index for index, s in enumerate(network.streams)}
    return _compile(
        network,
        statistics or Statistics(),
        network.operators_in_order,
        inputs=tuple(inputs),
        outputs=tuple(Arc(q.input, q.name) for q in network.queries),
        locations=locations,
        input_of=[inputs.get(arc.source, -1) for arc in locations],
        nodes=network.nodes,
        links=network.links,
    )


def compile_part(network: Network, node: str, statistics: Statistics | None = None) -> FlowModel:
    """The flow model of what runs on `node`: its own operators, node and outgoing links.

    Its inputs are the streams' arcs and the other nodes' arcs that enter it, each a
    drop location; its outputs are its queries and the arcs that leave it.
    """
    here = {o.name for o in network.operators if o.node == node}
    entering = [a for a in network.arcs if a.target in here and a.source not in here]
    leaving = [a for a in network.arcs if a.source in here and _crosses(network, a)]
    answers = [a for a in network.arcs if a.source in here and a.target in network.query_by_name]
    splits = [a for a in network.drop_locations if a.source in here]
    return _compile(
        network,
        statistics or Statistics(),
        tuple(o for o in network.operators_in_order if o.name in here),
        inputs=tuple(a.name for a in entering),
        outputs=(*answers, *leaving),
        locations=(*entering, *splits),
        input_of=[*range(len(entering)), *([-1] * len(splits))],
        nodes=(network.node_by_name[node],),
        links=tuple(link for link in network.links if link.source == node),
    )


def _index(rising: NDArray[np.intp]) -> Index:
    """The same places; as a slice where they stand side by side, which is quicker to use."""
    count = len(rising)
    if count == 0 or rising[-1] - rising[0] == count - 1:
        first = int(rising[0]) if count else 0
        return slice(first, first + count)
    return rising


def _crosses(network: Network, arc: Arc) -> bool:
    source, target = network.node_of(arc.source), network.node_of(arc.target)
    return source is not None and target is not None and source != target


def _compile(
    network: Network,
    statistics: Statistics,
    operators: Sequence[Operator],
    *,
    inputs: tuple[str, ...],
    outputs: tuple[Arc, ...],
    locations: tuple[Arc, ...],
    input_of: Sequence[int],
    nodes: Sequence[Node],
    links: Sequence[Link],
) -> FlowModel:
    """Walk the operators in the order of flow and collect all linear coefficients."""
    number = {arc: index for index, arc in enumerate(locations)}
    row_of: dict[str, int] = {node.name: index for index, node in enumerate(nodes)}
    row_of |= {link.name: len(nodes) + index for index, link in enumerate(links)}
    out: dict[str, Terms] = {}
    feed: dict[int, Terms] = {}
    load: dict[int, Terms] = {row: {} for row in row_of.values()}

    def arriving(arc: Arc) -> Terms:
        return {number[arc]: 1.0} if arc in number else out[arc.source]

    for operator in operators:
        cost = statistics.cost_seconds(operator)
        result: Terms = {}
        for source, gain in zip(operator.inputs, statistics.gains(operator), strict=True):
            terms = arriving(Arc(source, operator.name))
            _add(load[row_of[operator.node]], terms, cost)
            _add(result, terms, gain)
        out[operator.name] = result
        for arc in network.arcs_from[operator.name]:
            if arc in number:
                feed[number[arc]] = result
            if not links:
                continue
            link_row = row_of.get(f"{operator.node}->{network.node_of(arc.target)}")
            if link_row is not None and _crosses(network, arc):
                _add(load[link_row], arriving(arc), operator.tuple_bytes or 0.0)
    count = len(locations)
    return FlowModel(
        network=network,
        inputs=inputs,
        outputs=tuple(a.target if a.target in network.query_by_name else a.name for a in outputs),
        locations=locations,
        constraints=tuple(row_of),
        node_count=len(nodes),
        capacities=np.array(
            [n.capacity for n in nodes] + [link.bandwidth_bytes_per_second for link in links],
            dtype=np.float64,
        ),
        weights=np.array(
            [getattr(network.query_by_name.get(a.target), "weight", 0.0) for a in outputs],
            dtype=np.float64,
        ),
        input_of=np.array(input_of, dtype=np.intp),
        feed=SparseMatrix.of((count, count), sorted(feed.items())),
        load=SparseMatrix.of((len(row_of), count), sorted(load.items())),
        delivered=SparseMatrix.of(
            (len(outputs), count), [(i, arriving(a)) for i, a in enumerate(outputs)]
        ),
        levels=_levels(count, feed),
    )


def _add(total: Terms, terms: Terms, factor: float) -> None:
    for location, value in terms.items():
        total[location] = total.get(location, 0.0) + factor * value


def _levels(count: int, feed: Mapping[int, Terms]) -> tuple[NDArray[np.intp], ...]:
    if not feed:
        return (np.arange(count),)
    depth = np.zeros(count, dtype=np.intp)
    for location in sorted(feed):  # locations are in the order of flow
        depth[location] = 1 + max((int(depth[d]) for d in feed[location]), default=0)
    return tuple(np.flatnonzero(depth == d) for d in range(int(np.max(depth, initial=0)) + 1))
