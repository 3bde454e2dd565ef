"""What one node of the network knows: its own operators, reduced to gates and junctions.

A node never sees the whole network. It knows the arcs that enter it, its
operators, its queries, its capacity and its outgoing links, and which child each
arc that leaves it goes to. All of that is reduced to *gates* (places where tuples
may be dropped) that each lead, through a chain of operators, to exactly one
*junction*: a split inside the node, an arc to a child, or a query.

    arcs into the node      are the first gates
    arcs behind a split     are the others, in the order of flow

The numbers come from `compile_part`, so unions, joins and any acyclic wiring
inside a node are covered. Needed: every node gets tuples from at most one other
node (2007, section 2: tree topologies); anything else raises PlanningError. A part
is plain data: numbers, names and tuples of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.errors import PlanningError
from headgate.network import Network, Statistics
from headgate.planning.flow_model import Floats, FlowModel, compile_part

__all__ = ["Gate", "NodePart", "node_parts"]


@dataclass(frozen=True, slots=True)
class Gate:
    """One place to drop, with what one tuple kept there does up to its junction.

    arc:         name of the arc that the gate stands on.
    behind:      number of the split in front of it; None for an arc into the node.
    load:        per constraint of the node: CPU seconds, then bytes on each link.
    gain:        tuples that reach the junction; 0 where none ever does.
    split:       number of the split they reach, or None.
    leaving_arc: name of the arc to a child that they reach, or None.
    reward:      weighted tuples that they bring to a query of this node.
    """

    arc: str
    behind: int | None
    load: tuple[float, ...]
    gain: float
    split: int | None
    leaving_arc: str | None
    reward: float


@dataclass(frozen=True, slots=True)
class NodePart:
    """All that a node knows before it hears from its neighbours.

    capacities: CPU seconds per second, then bytes per second of each outgoing link.
    gates:      arcs into the node first (one for each of `external`), then the others.
    external:   per arc into the node: True where it comes from a stream.
    child_of:   for each arc that leaves the node: its name and the child it goes to.
    """

    node: str
    parent: str | None
    children: tuple[str, ...]
    capacities: tuple[float, ...]
    gates: tuple[Gate, ...]
    external: tuple[bool, ...]
    child_of: tuple[tuple[str, str], ...]

    @property
    def entry_count(self) -> int:
        return len(self.external)

    @property
    def split_count(self) -> int:
        return 1 + max((g.behind for g in self.gates if g.behind is not None), default=-1)


def node_parts(network: Network, statistics: Statistics | None = None) -> dict[str, NodePart]:
    """Every node's own part, in the order of the network's nodes."""
    parents = _parents(network)
    return {
        name: _part(network, compile_part(network, name, statistics), name, parent)
        for name, parent in parents.items()
    }


def _parents(network: Network) -> dict[str, str | None]:
    parents: dict[str, str | None] = {n.name: None for n in network.nodes}
    for parent, children in network.children_of.items():
        for child in children:
            if parents[child] is not None:
                raise PlanningError(
                    f"node {child!r} gets tuples from {parents[child]!r} and from {parent!r}; "
                    "sampled tables need a tree of nodes (at most one parent each): "
                    "use the exact planner or dfit with exact tables"
                )
            parents[child] = parent
    return parents


def _part(network: Network, model: FlowModel, node: str, parent: str | None) -> NodePart:
    entries = len(model.inputs)
    leaving = [
        (arc.name, child)
        for arc in network.arcs
        if network.node_of(arc.source) == node
        and (child := network.node_of(arc.target)) not in (None, node)
        and child is not None
    ]
    load = model.load.dense if len(model.locations) else np.zeros((len(model.capacities), 0))
    splits = _split_numbers(model)
    return NodePart(
        node,
        parent,
        network.children_of[node],
        tuple(model.capacities.tolist()),
        tuple(_gate(model, load, splits, number) for number in range(len(model.locations))),
        tuple(arc.source in network.stream_by_name for arc in model.locations[:entries]),
        tuple(leaving),
    )


def _gate(model: FlowModel, load: Floats, splits: dict[str, int], number: int) -> Gate:
    arc = model.locations[number]
    fed = np.flatnonzero(model.feed.columns == number)
    reached = np.flatnonzero(model.delivered.columns == number)
    gain, split, leaving, reward = 0.0, None, None, 0.0
    if len(fed):
        gain = float(model.feed.values[fed[0]])
        split = splits[model.locations[int(model.feed.rows[fed[0]])].source]
    elif len(reached):
        gain = float(model.delivered.values[reached[0]])
        output = int(model.delivered.rows[reached[0]])
        if model.outputs[output] in model.network.query_by_name:
            reward = gain * float(model.weights[output])
        else:
            leaving = model.outputs[output]
    return Gate(
        arc.name,
        None if model.input_of[number] >= 0 else splits[arc.source],
        tuple(load[:, number].tolist()),
        gain,
        split,
        leaving,
        reward,
    )


def _split_numbers(model: FlowModel) -> dict[str, int]:
    sources: dict[str, int] = {}
    for location, entry in zip(model.locations, model.input_of.tolist(), strict=True):
        if entry < 0:
            sources.setdefault(location.source, len(sources))
    return sources
