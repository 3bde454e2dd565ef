"""The point quadtree over a table's rows (2007, section 6.4), for any number of columns.

Every row is a node of the tree and divides the space at its own rates: a row goes to
the quadrant that says, column by column, whether it lies at or above the node. Rows
are inserted in descending order of score, so a node scores at least as much as all
below it. That replaces the paper's subtraction of subspaces: the row that a point is
mapped to is the first that fits in a search by score, and quadrants above the point
on some column are never entered.

Guarantee: the same entry as `EntryScan`. Cost: building is n log n for rows in random
order, n^2 / 2 at worst (rows on a line); a look-up visits the nodes that score more
than the answer and are not cut off by their quadrant.
"""

from __future__ import annotations

import heapq

import numpy as np

from headgate.planning.flow_model import Floats

__all__ = ["PointQuadtree"]

_ROUNDING = 1e-12


class PointQuadtree:
    """Finds the row of highest score that lies at or below a point on every column."""

    def __init__(self, rates: Floats, scores: Floats) -> None:
        order = np.lexsort((np.arange(len(scores)), -scores))
        self._row = order.tolist()
        self._rates = rates[order]
        self._quadrants: list[dict[int, int]] = [{} for _ in self._row]
        self._bits = 1 << np.arange(rates.shape[1], dtype=object)
        for node in range(1, len(self._row)):
            self._insert(node)

    @property
    def depth(self) -> int:
        """Nodes on the longest way down; 0 for a tree without rows."""
        depths = [1] * len(self._row)
        for node in range(len(self._row) - 1, -1, -1):  # children have higher numbers
            below = [depths[child] for child in self._quadrants[node].values()]
            depths[node] = 1 + max(below, default=0)
        return depths[0] if depths else 0

    def find(self, point: Floats) -> int | None:
        """The number of the row, or None where no row fits."""
        limit = point * (1.0 + _ROUNDING)
        waiting = [0] if self._row else []
        while waiting:  # node numbers are ranks by score
            node = heapq.heappop(waiting)
            above = self._rates[node] > limit
            if not np.any(above):
                return int(self._row[node])
            shut = int(self._bits[above].sum())
            for quadrant, child in self._quadrants[node].items():
                if not quadrant & shut:
                    heapq.heappush(waiting, child)
        return None

    def _insert(self, node: int) -> None:
        place = 0
        while True:
            quadrant = int(self._bits[self._rates[node] >= self._rates[place]].sum())
            following = self._quadrants[place].get(quadrant)
            if following is None:
                self._quadrants[place][quadrant] = node
                return
            place = following
