"""What a parent tells its children before they make their tables: the second pass.

From the root to the leaves, each node hands on what concerns the whole tree and says
how much can ever arrive at each of a child's columns (the paper's pass that keeps
"the smallest maximum feasible rate along each input dimension", 2007, section 6.2.1).
A child then samples no rates that its ancestors cannot send.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headgate.planning.sampled_tables.node_shape import NodeShape
from headgate.planning.sampled_tables.table_offer import Offer

__all__ = ["Limits", "child_limits", "root_limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Known to a node before it makes its table.

    smallest_score: of the whole tree; no infeasible input has a smaller optimum.
    sampled:        columns in the whole tree that are sampled from a grid.
    merges:         on the longest path of the whole tree.
    column_bounds:  per column of the node: more units per second never arrive.
    triangle:       True where every row strictly inside the feasibility triangle is
                    redundant: the node's inputs are all that the tree has, each of
                    them supplied from one place.
    """

    smallest_score: float
    sampled: int
    merges: int
    column_bounds: tuple[float, ...]
    triangle: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None stands for no limit."""
        data = asdict(self)
        data["column_bounds"] = [_finite(b) for b in self.column_bounds]
        data["smallest_score"] = _finite(self.smallest_score)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Limits:
        bounds = tuple(math.inf if b is None else float(b) for b in data["column_bounds"])
        score = data["smallest_score"]
        return cls(
            math.inf if score is None else float(score),
            int(data["sampled"]),
            int(data["merges"]),
            bounds,
            bool(data["triangle"]),
        )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def root_limits(offer: Offer) -> Limits:
    """The limits of a node that nobody feeds but streams."""
    bounds = (math.inf,) * len(offer.column_worth)
    return Limits(offer.smallest_score, offer.sampled, offer.merges, bounds, True)


def child_limits(shape: NodeShape, limits: Limits) -> dict[str, Limits]:
    """The limits of each child, by name."""
    bounds = _junction_bounds(shape, limits)
    triangle = (
        limits.triangle
        and len(shape.children) == 1
        and not len(shape.sampled_columns)
        and all(len(shape.suppliers(j)) <= 1 for j in range(shape.junctions))
    )
    found: dict[str, Limits] = {}
    first = shape.splits
    for child in shape.children:
        last = first + len(child.column_worth)
        found[child.node] = Limits(
            limits.smallest_score,
            limits.sampled,
            limits.merges,
            tuple(bounds[first:last]),
            triangle,
        )
        first = last
    return found


def _junction_bounds(shape: NodeShape, limits: Limits) -> list[float]:
    """The most that can arrive at each junction when nothing else is done."""
    cpu = np.zeros(len(shape.gain))  # least CPU seconds in front of a unit at each gate
    most = np.full(len(shape.gain), math.inf)
    most[: shape.columns] = limits.column_bounds
    bounds = [0.0] * shape.junctions
    for junction in range(shape.junctions):  # a split's feeders have lower numbers
        suppliers = shape.suppliers(junction)
        if not len(suppliers):
            continue
        for gate in suppliers.tolist():
            cpu[gate] += shape.load[gate, 0]
            demands = np.append(cpu[gate], shape.load[gate, 1:])
            limited = demands > 0.0
            room = shape.capacities[limited] / demands[limited]
            most[gate] = min(most[gate], float(np.min(room, initial=math.inf)))
        gain = shape.gain[suppliers]
        least = float(np.min(cpu[suppliers] / gain))
        bound = float(np.sum(most[suppliers] * gain))
        bounds[junction] = min(bound, shape.capacities[0] / least) if least > 0.0 else bound
        if junction < shape.splits:
            behind = shape.gates_behind(junction)
            cpu[behind], most[behind] = least, bounds[junction]
    return bounds
