"""Complementary local plans: which gates behind splits give way, in which order.

A node that may shed behind its splits accepts more than it can process in full
(2007, section 6.2.2). The order is greedy: the gate with the smallest score per CPU
second goes first, the ratios of the gates that feed it are updated, and so on.

Guarantee: for the node's one CPU limit the order is optimal for every input at once.
Put a price p on a CPU second; a gate is worth keeping while its score per CPU second,
counted over the gates still open behind it, is above p. That ratio only grows when a
gate behind it closes, so as p rises each gate closes once, and the plan that fills
the capacity is all gates that close later, a part of the one that closes there.
This holds for any acyclic wiring, unions before splits included. Not guaranteed: two
limits at once (CPU and a link); see `node_shape`.

Cost: for G gates the order takes G steps of one path upwards each; a fill of n rows
is one n x G by G x G product.

Example: shared cost 1, branches 2 and 5, one tuple each: the ratios are 2/8, 1/2 and
1/5, so the branch of 5 goes first; then the input has 1/3, and the other branch 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.node_shape import NodeShape

__all__ = ["DropOrder", "drop_order"]

_ROUNDING = 1e-12  # of the capacity


@dataclass(frozen=True)
class DropOrder:
    """The order in which a node's gates close, and what is left after each step.

    gates:  gate numbers, the first to close first.
    step:   per gate its position in `gates`; -1 if it earns nothing here and never opens,
            the number of steps if it never closes (no load).
    ratio:  score per CPU second at which each gate of `gates` closes.
    load:   after k closures (row k), CPU seconds of a unit offered at each gate.
    earned: after k closures (row k), score of a unit offered at each gate.
    """

    shape: NodeShape
    gates: NDArray[np.int64]
    step: NDArray[np.int64]
    ratio: Floats
    load: Floats
    earned: Floats

    def load_at_last(self, gate: int) -> float:
        """CPU seconds of one unit when all that can be shed behind `gate` is shed.

        For a gate without load of its own: just before the last gate behind it closes.
        """
        loads = self.load[: int(self.step[gate]) + 1, gate]
        return float(loads[np.flatnonzero(loads > 0.0)[-1]]) if np.any(loads > 0.0) else 0.0

    def keep(self, offered: Floats, spare_cpu: Floats) -> Floats:
        """Units kept at each gate so that as much as possible is earned.

        offered:   per row and gate, units that arrive there by themselves (not from
                   another gate of this node).
        spare_cpu: per row, CPU seconds per second that may be used.
        """
        loads = offered @ self.load.T
        spare_cpu = np.maximum(spare_cpu, 0.0)
        fits = loads <= spare_cpu[:, None] + _ROUNDING * self.shape.capacities[0]
        closed = np.argmax(fits, axis=1)  # the last column always fits
        rows = np.arange(len(offered))
        before = loads[rows, np.maximum(closed - 1, 0)]
        after = loads[rows, closed]
        room = np.maximum(spare_cpu - after, 0.0)
        part = np.divide(room, before - after, out=np.zeros_like(room), where=before > after)
        return self._follow(offered, closed, np.clip(part, 0.0, 1.0))

    def _follow(self, offered: Floats, closed: NDArray[np.intp], part: Floats) -> Floats:
        shape = self.shape
        open_ = self.step[None, :] >= closed[:, None]
        at_edge = (self.step[None, :] == closed[:, None] - 1) & (self.step[None, :] >= 0)
        share = np.where(at_edge, part[:, None], open_.astype(np.float64))
        kept = offered * share
        for split in range(shape.splits):
            feeders, behind = shape.suppliers(split), shape.gates_behind(split)
            if len(feeders) and len(behind):
                arriving = kept[:, feeders] @ shape.gain[feeders]
                kept[:, behind] += arriving[:, None] * share[:, behind]
        return kept


def drop_order(shape: NodeShape) -> DropOrder:
    """The greedy order with updated ratios."""
    count = len(shape.gain)
    state = _State(shape)
    step = np.where(shape.fill > 0.0, count, -1).astype(np.int64)
    order: list[int] = []
    ratios: list[float] = []
    loads, earned = [state.load.copy()], [state.earned.copy()]
    while True:
        candidate = state.smallest_ratio()
        if candidate is None:
            break
        gate, ratio = candidate
        step[gate] = len(order)
        order.append(gate)
        ratios.append(ratio)
        state.close(gate)
        loads.append(state.load.copy())
        earned.append(state.earned.copy())
    step[step == count] = len(order)
    return DropOrder(
        shape,
        np.array(order, dtype=np.int64),
        step,
        np.array(ratios),
        np.array(loads).reshape(len(loads), count),
        np.array(earned).reshape(len(earned), count),
    )


class _State:
    """What a unit offered at each gate costs and earns with the gates still open."""

    def __init__(self, shape: NodeShape) -> None:
        self.shape = shape
        self.open = shape.fill > 0.0
        self.load = np.where(self.open, shape.load[:, 0], 0.0)
        self.earned = np.where(self.open, shape.reward, 0.0)
        self._behind = [shape.gates_behind(s) for s in range(shape.splits)]
        self._feeders = [shape.suppliers(s) for s in range(shape.splits)]
        self._update(set(range(shape.splits)))

    def smallest_ratio(self) -> tuple[int, float] | None:
        candidates = np.flatnonzero(self.open & (self.load > 0.0))
        if not len(candidates):
            return None
        ratios = self.earned[candidates] / self.load[candidates]
        best = int(np.argmin(ratios))
        return int(candidates[best]), float(ratios[best])

    def close(self, gate: int) -> None:
        self.open[gate] = False
        self.load[gate] = self.earned[gate] = 0.0
        if self.shape.behind[gate] >= 0:
            self._update({int(self.shape.behind[gate])})

    def _update(self, splits: set[int]) -> None:
        """Sum up again in front of these splits, against the flow."""
        shape = self.shape
        while splits:
            split = max(splits)
            splits.remove(split)
            behind = self._behind[split]
            load, earned = float(self.load[behind].sum()), float(self.earned[behind].sum())
            for gate in self._feeders[split][self.open[self._feeders[split]]].tolist():
                self.load[gate] = shape.load[gate, 0] + shape.gain[gate] * load
                self.earned[gate] = shape.reward[gate] + shape.gain[gate] * earned
                if shape.behind[gate] >= 0:
                    splits.add(int(shape.behind[gate]))
