"""What each gate must let pass so that every query gets its guaranteed share, end to end.

A guarantee speaks of a query's rows, a gate of a share at one place; gates in series multiply. The
exact planner meets all guarantees. But what a gate does is bounded by further loops (latency
feedback, shares of classes), and these know nothing of gates in series. So each gate has a floor,
below which no loop may go:

gates behind others   what the plan keeps, if a query with a guarantee is behind. Loops act on the
                      first gates anyway: a tuple is not thinned twice for one reason.
first gates           what the plan keeps, times the largest guarantee / planned share of the
                      queries behind. All paths of such a query shrink by one factor, so it gets
                      its guarantee of the sum over its paths, whatever the paths keep.
key gates             the guarantee itself over what the floors above let pass: gates of one key
                      have the lowest share of all of them, so each must keep enough for the others.

Guarantees: at the floors every query has its guaranteed share, if the plan had; no floor but that
of a key gate is above the plan. Without a plan everything is taken to be kept. Not guaranteed: that
the floors fit where the plan does not: a guarantee holds whatever happens.

Cost: linear in arcs and queries with a guarantee.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate.network import Arc, Network, Query
from headgate.planning.drop_kinds import DropKind, drops_of

__all__ = ["gate_floors", "keep_in_collision"]


def gate_floors(
    network: Network,
    planned: Mapping[str, float] | None = None,
    delivered: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """The least share that each drop location may keep, by name; empty without guarantees.

    planned: keep fractions by drop location; delivered: planned shares of the queries, end to end.
    What is not named keeps everything.
    """
    needs = {q.name: q.keep_at_least for q in network.queries if q.keep_at_least > 0.0}
    if not needs:
        return {}
    planned, delivered = planned or {}, delivered or {}
    behind = _guaranteed_behind(network)
    drops = drops_of(network)
    by_key = {name for name, drop in drops.items() if drop.kind is DropKind.KEY}
    floors: dict[str, float] = {}
    passed: dict[str, float] = {}  # by stream and operator: what the floors above let pass
    for source in (*network.stream_by_name, *(o.name for o in network.operators_in_order)):
        operator = network.operator_by_name.get(source)
        arcs = [] if operator is None else [Arc(name, source) for name in operator.inputs]
        above = (passed[arc.source] * floors.get(arc.name, 1.0) for arc in arcs)
        passed[source] = min(above, default=1.0)
        for arc in network.arcs_from[source]:
            queries = behind[arc.target]
            if arc not in network.drop_locations:
                continue
            floors[arc.name] = 0.0
            if not queries:
                continue
            keeps = planned.get(arc.name, 1.0)
            if arc.name in by_key:
                most = max(needs[query.name] for query in queries)
                floors[arc.name] = min(1.0, most / max(passed[source], most))
            elif operator is None:
                shrinks = (needs[q.name] / max(delivered.get(q.name, 1.0), 1e-12) for q in queries)
                floors[arc.name] = keeps * min(1.0, max(shrinks))
            else:
                floors[arc.name] = keeps
    _level_keys(network, floors, {name: drops[name].key for name in by_key})
    return floors


def keep_in_collision(network: Network, full: Collection[str]) -> dict[str, float]:
    """What to keep where the guarantees do not fit: what they ask for, and nothing for others.

    full: the nodes and links that are too small; none named means all. Gates whose tuples never
    come there keep everything. To keep all for the others too, as without a plan, would leave even
    less for those with a guarantee.
    """
    floors = gate_floors(network)
    there: dict[str, bool] = {query.name: False for query in network.queries}
    for operator in reversed(network.operators_in_order):
        arcs = network.arcs_from[operator.name]
        links = {f"{operator.node}->{network.node_of(arc.target)}" for arc in arcs}
        own = not full or operator.node in full or not links.isdisjoint(full)
        there[operator.name] = own or any(there[arc.target] for arc in arcs)
    return {
        arc.name: floors.get(arc.name, 1.0) if there[arc.target] else 1.0
        for arc in network.drop_locations
    }


def _guaranteed_behind(network: Network) -> dict[str, tuple[Query, ...]]:
    """The queries with a guarantee that each operator and query leads to."""
    found: dict[str, tuple[Query, ...]] = {
        q.name: (q,) if q.keep_at_least > 0.0 else () for q in network.queries
    }
    for operator in reversed(network.operators_in_order):
        arcs = network.arcs_from[operator.name]
        reached = {query.name: query for arc in arcs for query in found[arc.target]}
        found[operator.name] = tuple(reached.values())
    return found


def _level_keys(
    network: Network, floors: dict[str, float], keys: Mapping[str, tuple[str, ...]]
) -> None:
    """Key gates of one Spark query that have one key get the largest of their floors.

    What is connected by operators is one Spark query, see `spark.networks.network_groups`.
    """
    part = {operator.name: operator.name for operator in network.operators}

    def root(name: str) -> str:
        while part[name] != name:
            name = part[name]
        return name

    for arc in network.arcs:
        if arc.source in part and arc.target in part:
            part[root(arc.source)] = root(arc.target)
    highest: dict[tuple[str, tuple[str, ...]], float] = {}
    places = {
        arc.name: (root(arc.target), keys[arc.name])
        for arc in network.drop_locations
        if arc.name in keys and arc.target in part
    }
    for gate, place in places.items():
        highest[place] = max(highest.get(place, 0.0), floors.get(gate, 0.0))
    floors.update({gate: highest[place] for gate, place in places.items()})
