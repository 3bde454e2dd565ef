"""What a child tells its parent before any table exists: the message of the first pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Offer"]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node tells its parent about the inputs of its subtree.

    arcs:           arcs into the node, then streams' arcs further down.
    external:       per arc: True where a stream feeds it.
    column_of:      per arc: its column in the table, -1 where it needs none.
    factor:         per arc: units of the column for one tuple per second.
    free_worth:     per arc: score of a tuple that costs the subtree nothing.
    column_worth:   per column: score of one unit at best, without the free worth.
    smallest_score: no infeasible input of this subtree has a smaller optimum.
    sampled:        columns of the subtree that are sampled from a grid.
    merges:         merges on the longest path through the subtree's inner nodes.
    one_to_one:     True where every column of a leaf is one column all the way up.
    """

    node: str
    arcs: tuple[str, ...]
    external: tuple[bool, ...]
    column_of: tuple[int, ...]
    factor: tuple[float, ...]
    free_worth: tuple[float, ...]
    column_worth: tuple[float, ...]
    smallest_score: float
    sampled: int
    merges: int
    one_to_one: bool

    @property
    def arcs_from_parent(self) -> set[str]:
        """Arcs that the parent must supply."""
        return {arc for arc, e in zip(self.arcs, self.external, strict=True) if not e}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None stands for a smallest score without limit."""
        data = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        if math.isinf(self.smallest_score):
            data["smallest_score"] = None
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Offer:
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        if values["smallest_score"] is None:
            values["smallest_score"] = math.inf
        return cls(**values)
