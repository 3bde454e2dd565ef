"""A box of rates divided into regions: each division halves every side (2^m children).

The tree knows geometry and each region's error, nothing of networks. Regions are
numbered in the order they were made; region 0 is the whole box and the children of
a region have consecutive numbers. Corners are dyadic fractions of the box, so that
neighbouring regions share corners exactly.

Cost: 8 m + 24 bytes a region; `divide` is vectorised over regions; `find` takes one
step a level. Reference: 2007, section 5.1 and figure 5.

>>> import numpy as np
>>> tree = RegionQuadtree(np.array([100.0, 100.0]))
>>> tree.divide(np.array([0])).tolist()
[1, 2, 3, 4]
>>> region = tree.find(np.array([60.0, 75.0]))
>>> tree.bottoms(np.array([region])).tolist()
[[50.0, 50.0]]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats

__all__ = ["MAX_DEPTH", "Ids", "RegionQuadtree"]

Ids = NDArray[np.intp]

MAX_DEPTH = 40  # a side of the box is never cut finer than 2^-40


class RegionQuadtree:
    """Regions of the box [0, top], with the error of each.

    `error` and `probability` are written by the owner for the regions it got from
    `divide`; both are 1 for region 0 until then.
    """

    def __init__(self, top: Floats) -> None:
        self.top = top
        self.count = 1
        self._cell = np.zeros((1, len(top)), dtype=np.int64)
        self._level = np.zeros(1, dtype=np.int64)
        self._first_child = np.full(1, -1, dtype=np.intp)
        self._error = np.ones(1)
        self._probability = np.ones(1)
        dimensions = np.arange(len(top), dtype=np.int64)
        self._steps = (np.arange(2 ** len(top), dtype=np.int64)[:, None] >> dimensions) & 1

    @property
    def children_per_region(self) -> int:
        return len(self._steps)

    @property
    def error(self) -> Floats:
        return self._error[: self.count]

    @property
    def probability(self) -> Floats:
        return self._probability[: self.count]

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        return self._first_child[: self.count] < 0

    @property
    def is_divisible(self) -> NDArray[np.bool_]:
        """Leaves that are not yet at the greatest depth."""
        return self.is_leaf & (self._level[: self.count] < MAX_DEPTH)

    @property
    def depth(self) -> int:
        return int(np.max(self._level[: self.count]))

    def bottoms(self, ids: Ids) -> Floats:
        """The lowest corner of each region, in tuples per second."""
        return self._corner(ids, 0)

    def tops(self, ids: Ids) -> Floats:
        """The highest corner of each region."""
        return self._corner(ids, 1)

    def touches_top(self, ids: Ids) -> NDArray[np.bool_]:
        """Per region and dimension: does it end where the box ends?"""
        edges: NDArray[np.bool_] = self._cell[ids] + 1 == (1 << self._level[ids])[:, None]
        return edges

    def divide(self, ids: Ids) -> Ids:
        """Halve every side of these leaves; the new regions' numbers, parent by parent."""
        fan = self.children_per_region
        new = np.arange(self.count, self.count + fan * len(ids), dtype=np.intp)
        self._reserve(self.count + len(new))
        self._first_child[ids] = new[::fan]
        cells = 2 * self._cell[ids][:, None, :] + self._steps[None, :, :]
        self._cell[new] = cells.reshape(len(new), -1)
        self._level[new] = np.repeat(self._level[ids] + 1, fan)
        self._first_child[new] = -1
        self._error[new] = np.repeat(self._error[ids], fan)
        self._probability[new] = 0.0
        self.count += len(new)
        return new

    def find(self, point: Sequence[float] | Floats) -> int:
        """The leaf that holds a point of the box; on a shared side, the upper neighbour."""
        at = np.asarray(point, dtype=np.float64) / self.top
        region, middle, half = 0, np.full(len(at), 0.5), 0.5
        while (first := int(self._first_child[region])) >= 0:
            above = at >= middle
            region = first + int(above @ (1 << np.arange(len(at))))
            half *= 0.5
            middle = np.where(above, middle + half, middle - half)
        return region

    def distinct_corners(self) -> int:
        """How many different points are a bottom or a top of some region."""
        finer = (self.depth - self._level[: self.count])[:, None]
        cell = self._cell[: self.count]
        points = np.concatenate([cell << finer, (cell + 1) << finer])
        return len(np.unique(points, axis=0))

    def _corner(self, ids: Ids, offset: int) -> Floats:
        fraction = (self._cell[ids] + offset) / (1 << self._level[ids])[:, None]
        return fraction * self.top

    def _reserve(self, count: int) -> None:
        """Room for `count` regions, at least doubled each time."""
        size = len(self._level)
        if count <= size:
            return
        extra = max(count, 2 * size) - size
        self._cell = np.concatenate([self._cell, np.zeros((extra, len(self.top)), np.int64)])
        self._level = np.concatenate([self._level, np.zeros(extra, np.int64)])
        self._first_child = np.concatenate([self._first_child, np.full(extra, -1, np.intp)])
        self._error = np.concatenate([self._error, np.zeros(extra)])
        self._probability = np.concatenate([self._probability, np.zeros(extra)])
