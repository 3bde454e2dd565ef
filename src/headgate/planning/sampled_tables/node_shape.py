"""From a node's part and its children's offers to the columns of its table.

The first of three passes that make the tables, from the leaves to the root. Each
node tells its parent in an `Offer` what the inputs of its subtree are worth, before
any table exists. The pass does four things:

1. *Worth.* What is one tuple worth at best, were there no other? Gates that can
   earn nothing (no weight, selectivity 0, a node or link without capacity behind
   them) are left out of everything else.
2. *Free worth.* A gate without any load is never a reason to drop. What it earns is
   moved up to whoever feeds it; what arrives at the node's own arcs that way is
   *free* for the subtree and needs no table.
3. *Columns.* Inputs that are interchangeable (same junction, same load and reward for
   one unit of what arrives there) are one column; its unit is what arrives. An exact
   reduction: the node cannot tell such inputs apart. (2007, section 8.2.4, suggests
   merging inputs; it does not say which.) Eight inputs of two kinds are two columns.
4. *Smallest score.* No infeasible input has an optimum below the smallest of
   capacity * worth / load over all constraints and inputs; see `sample_points`.

Arcs that streams feed directly further down are carried through as inputs that cost
this node nothing, so a root's table knows all streams of its tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.node_part import Gate, NodePart
from headgate.planning.sampled_tables.table_offer import Offer

__all__ = ["NodeShape", "node_shape"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class NodeShape:
    """A node as its table sees it: columns first, then the gates behind splits.

    load:     per gate and constraint, for one unit (columns) or tuple kept.
    target:   per gate: junction number; splits first, then the children's columns; -1 none.
    gain:     per gate: units at the junction for one unit kept.
    reward:   per gate: score that is earned on this node (or free further down).
    behind:   per gate: number of the split in front, -1 for columns.
    worth:    per gate: score of one unit at best, here and further down.
    fill:     per gate: the part of `worth` that is earned on this node.
    work:     per gate: CPU seconds on this node for one unit when nothing is dropped.
    gate_arc: per gate behind a split: its arc.
    """

    part: NodePart
    offer: Offer
    children: tuple[Offer, ...]
    capacities: Floats
    load: Floats
    target: Integers
    gain: Floats
    reward: Floats
    behind: Integers
    worth: Floats
    fill: Floats
    work: Floats
    gate_arc: tuple[str, ...]

    @property
    def columns(self) -> int:
        return len(self.offer.column_worth)

    @property
    def splits(self) -> int:
        return self.part.split_count

    @property
    def junctions(self) -> int:
        return self.splits + sum(len(child.column_worth) for child in self.children)

    @property
    def sampled_columns(self) -> Integers:
        return np.flatnonzero(self.fill[: self.columns] > 0.0)

    def suppliers(self, junction: int) -> Integers:
        """The gates whose tuples reach a junction."""
        return np.flatnonzero(self.target == junction)

    def gates_behind(self, split: int) -> Integers:
        return np.flatnonzero(self.behind == split)


@dataclass
class _Gate:
    """A gate while it is worked on; passed arcs are gates without load."""

    arc: str
    external: bool
    entry: bool
    behind: int
    load: Floats
    gain: float
    target: int
    reward: float
    downstream: float  # worth of one unit at the target, where that is a child's column
    worth: float = 0.0
    free: float = 0.0


def node_shape(part: NodePart, children: Sequence[Offer], *, join_inputs: bool = True) -> NodeShape:
    """The shape of one node; `children` in the order of `part.children`.

    join_inputs=False keeps every arc a column of its own, as in the paper.
    """
    gates = _gates(part, children)
    capacities = np.array(part.capacities)
    _set_worth(gates, capacities)
    _move_free_worth(gates)
    _set_worth(gates, capacities)
    gates = [g for g in gates if g.entry or g.worth > 0.0]
    _refuse_two_limits(part, gates)
    entries = [g for g in gates if g.entry]
    inner = [g for g in gates if not g.entry]
    column_of, factor, joined = _columns(entries, join_inputs)
    reduced = [*joined, *inner]
    fill = _fill(reduced)
    worth = np.array([g.worth for g in reduced])
    work = _work(reduced)
    offer = Offer(
        part.node,
        tuple(g.arc for g in entries),
        tuple(g.external for g in entries),
        tuple(column_of),
        tuple(factor),
        tuple(g.free for g in entries),
        tuple(g.worth for g in joined),
        min(
            [_smallest_score(reduced, len(joined), capacities, work)]
            + [child.smallest_score for child in children]
        ),
        int(np.sum(fill[: len(joined)] > 0.0)) + sum(child.sampled for child in children),
        0,
        True,
    )
    shape = NodeShape(
        part,
        offer,
        tuple(children),
        capacities,
        np.array([g.load for g in reduced]).reshape(len(reduced), len(capacities)),
        np.array([g.target for g in reduced], dtype=np.int64),
        np.array([g.gain for g in reduced]),
        np.array([g.reward for g in reduced]),
        np.array([g.behind for g in reduced], dtype=np.int64),
        worth,
        fill,
        work,
        tuple(g.arc for g in inner),
    )
    return _with_merges(shape)


def _gates(part: NodePart, children: Sequence[Offer]) -> list[_Gate]:
    """The part's gates and the carried arcs, with junctions numbered through."""
    place = _child_columns(part, children)
    own = [_own_gate(part, number, place) for number in range(len(part.gates))]
    passed = [
        _Gate(arc, True, True, -1, np.zeros(len(part.capacities)), *place[arc])
        for child in children
        for arc, external in zip(child.arcs, child.external, strict=True)
        if external
    ]
    entries = part.entry_count
    return [*own[:entries], *passed, *own[entries:]]


def _child_columns(
    part: NodePart, children: Sequence[Offer]
) -> dict[str, tuple[float, int, float, float]]:
    """For each arc of a child: units, junction, free worth of a tuple, worth of a unit."""
    place: dict[str, tuple[float, int, float, float]] = {}
    first = part.split_count
    for child in children:
        rows = zip(child.arcs, child.column_of, child.factor, child.free_worth, strict=True)
        for arc, column, factor, free in rows:
            if column < 0:
                place[arc] = (0.0, -1, free, 0.0)
            else:
                place[arc] = (factor, first + column, free, child.column_worth[column])
        first += len(child.column_worth)
    return place


def _own_gate(
    part: NodePart, number: int, place: Mapping[str, tuple[float, int, float, float]]
) -> _Gate:
    gate: Gate = part.gates[number]
    entry = number < part.entry_count
    gain, target, reward, downstream = gate.gain, -1, gate.reward, 0.0
    if gate.split is not None:
        target = gate.split
    elif gate.leaving_arc is not None:
        units, target, free, downstream = place[gate.leaving_arc]
        gain, reward = gate.gain * units, gate.gain * free
    return _Gate(
        gate.arc,
        entry and part.external[number],
        entry,
        -1 if gate.behind is None else gate.behind,
        np.array(gate.load),
        gain if target >= 0 else 0.0,
        target if gain > 0.0 else -1,
        reward,
        downstream,
    )


def _set_worth(gates: list[_Gate], capacities: Floats) -> None:
    """Worth against the flow; nothing is worth anything where there is no capacity."""
    behind: dict[int, float] = {}
    for gate in reversed(gates):
        shut = bool(np.any((gate.load > 0.0) & (capacities <= 0.0)))
        at_target = gate.downstream or behind.get(gate.target, 0.0)
        gate.worth = 0.0 if shut else gate.reward + gate.gain * at_target
        if gate.behind >= 0:
            behind[gate.behind] = behind.get(gate.behind, 0.0) + gate.worth


def _move_free_worth(gates: list[_Gate]) -> None:
    """Move what a gate without load earns to its feeders; see point 2 of the module."""
    for gate in reversed(gates):
        if gate.worth <= 0.0 or np.any(gate.load > 0.0):
            if gate.worth <= 0.0:
                gate.reward = 0.0
            continue
        if gate.entry:
            gate.free = gate.reward
        else:
            for feeder in gates:
                if feeder.target == gate.behind:
                    feeder.reward += feeder.gain * gate.reward
        gate.reward = 0.0


def _refuse_two_limits(part: NodePart, gates: Sequence[_Gate]) -> None:
    for gate in gates:
        if gate.worth > 0.0 and gate.reward > 0.0 and np.any(gate.load[1:] > 0.0):
            raise PlanningError(
                f"node {part.node!r}: what crosses a limited link behind {gate.arc!r} costs its "
                "receiver nothing, so CPU and bandwidth would have to be weighed against each "
                "other; give the receiving operator a cost, or use the exact planner"
            )


def _columns(
    entries: Sequence[_Gate], join_inputs: bool
) -> tuple[list[int], list[float], list[_Gate]]:
    """Interchangeable inputs as one column; see point 3 of the module."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, gate in enumerate(entries):
        if gate.worth > 0.0:
            key = _kind(gate) if join_inputs else (number,)
            groups.setdefault(key, []).append(number)
    column_of, factor = [-1] * len(entries), [0.0] * len(entries)
    joined = []
    for column, members in enumerate(groups.values()):
        alone = len(members) == 1
        for number in members:
            column_of[number] = column
            factor[number] = 1.0 if alone else _unit(entries[number])
        joined.append(_per_unit(entries[members[0]], factor[members[0]]))
    return column_of, factor, joined


def _unit(gate: _Gate) -> float:
    return gate.gain if gate.target >= 0 else gate.reward


def _kind(gate: _Gate) -> tuple[object, ...]:
    unit = _unit(gate)
    numbers = (*(gate.load / unit).tolist(), gate.reward / unit)
    return (gate.target, *(f"{number:.12e}" for number in numbers))


def _per_unit(gate: _Gate, factor: float) -> _Gate:
    return _Gate(
        gate.arc,
        gate.external,
        True,
        -1,
        gate.load / factor,
        gate.gain / factor,
        gate.target,
        gate.reward / factor,
        gate.downstream,
        gate.worth / factor,
    )


def _fill(gates: Sequence[_Gate]) -> Floats:
    """What one unit earns on this node itself."""
    behind: dict[int, float] = {}
    fill = np.zeros(len(gates))
    for number in range(len(gates) - 1, -1, -1):
        gate = gates[number]
        fill[number] = gate.reward + gate.gain * behind.get(gate.target, 0.0)
        if gate.behind >= 0:
            behind[gate.behind] = behind.get(gate.behind, 0.0) + float(fill[number])
    return fill


def _work(gates: Sequence[_Gate]) -> Floats:
    """CPU seconds on this node for one unit when nothing is dropped behind it."""
    behind: dict[int, float] = {}
    work = np.zeros(len(gates))
    for number in range(len(gates) - 1, -1, -1):
        gate = gates[number]
        work[number] = gate.load[0] + gate.gain * behind.get(gate.target, 0.0)
        if gate.behind >= 0:
            behind[gate.behind] = behind.get(gate.behind, 0.0) + float(work[number])
    return work


def _smallest_score(
    gates: Sequence[_Gate], columns: int, capacities: Floats, work: Floats
) -> float:
    """See point 4 of the module; infinite where nothing can be too much."""
    scores = [
        float(capacities[0]) * gates[i].worth / float(work[i])
        for i in range(columns)
        if work[i] > 0.0
    ]
    for gate in gates:
        for bandwidth, size in zip(capacities[1:], gate.load[1:], strict=True):
            if size > 0.0:
                scores.append(float(bandwidth) * gate.worth / float(size))
    return min(scores, default=float("inf"))


def _with_merges(shape: NodeShape) -> NodeShape:
    """Count the merges that a demand may have to pass on its way up to the node's arcs."""
    if not shape.children:
        return shape
    depth = [0] * shape.junctions
    for junction in range(shape.junctions):  # a split's feeders have lower numbers
        suppliers = shape.suppliers(junction)
        above = [depth[int(s)] for s in shape.behind[suppliers] if s >= 0]
        depth[junction] = (len(suppliers) > 1) + max(above, default=0)
    merges = max(depth[shape.splits :], default=0) + max(c.merges for c in shape.children)
    one_to_one = merges == 0 and shape.splits == 0 and all(c.one_to_one for c in shape.children)
    offer = replace(shape.offer, merges=merges, one_to_one=one_to_one)
    return replace(shape, offer=offer)
