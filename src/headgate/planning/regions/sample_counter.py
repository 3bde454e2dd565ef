"""Count the points of a fixed set that lie in each of many boxes: a k-d tree in arrays.

All boxes walk the tree together, one level a step: a cell outside a box is forgotten,
a cell inside it counts whole, and what is left at the leaves is compared point by
point. Cost: n log n to build; a query touches about n^(1 - 1/m) cells for m columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats

__all__ = ["SampleCounter"]

_LEAF = 16  # points in a leaf


class SampleCounter:
    """Points in half-open boxes [lower, upper)."""

    def __init__(self, points: Floats) -> None:
        levels = max(0, int(np.ceil(np.log2(max(1, len(points)) / _LEAF))))
        self._points, self._starts = _sorted_into_cells(points, levels)
        self._levels = levels
        self._lowest, self._highest = self._extents()

    def count(self, lower: Floats, upper: Floats) -> NDArray[np.int64]:
        """How many points each box holds; one row of `lower` and `upper` a box."""
        counts = np.zeros(len(lower), dtype=np.int64)
        box = np.arange(len(lower))
        cell = np.zeros(len(lower), dtype=np.int64)
        for level in range(self._levels + 1):
            low, high = self._lowest[level][cell], self._highest[level][cell]
            outside = np.any((high < lower[box]) | (low >= upper[box]), axis=1)
            inside = np.all((low >= lower[box]) & (high < upper[box]), axis=1) & ~outside
            width = 1 << (self._levels - level)
            sizes = self._starts[(cell + 1) * width] - self._starts[cell * width]
            np.add.at(counts, box[inside], sizes[inside])
            open_ = ~outside & ~inside
            box, cell = box[open_], cell[open_]
            if level < self._levels:
                box = np.repeat(box, 2)
                cell = np.repeat(2 * cell, 2)
                cell[1::2] += 1
        self._count_points(counts, box, cell, lower, upper)
        return counts

    def _count_points(
        self,
        counts: NDArray[np.int64],
        box: NDArray[np.intp],
        cell: NDArray[np.int64],
        lower: Floats,
        upper: Floats,
    ) -> None:
        sizes = self._starts[cell + 1] - self._starts[cell]
        for offset in range(int(np.max(sizes, initial=0))):
            has = sizes > offset
            which = box[has]
            point = self._points[self._starts[cell[has]] + offset]
            held = np.all((point >= lower[which]) & (point < upper[which]), axis=1)
            np.add.at(counts, which[held], 1)

    def _extents(self) -> tuple[list[Floats], list[Floats]]:
        """The smallest box around the points of each cell, by level; empty cells are nowhere."""
        lowest, highest = [], []
        for level in range(self._levels + 1):
            starts = self._starts[:: 1 << (self._levels - level)]
            low = np.full((len(starts) - 1, self._points.shape[1]), np.inf)
            high = -low
            for i in np.flatnonzero(np.diff(starts)).tolist():
                part = self._points[starts[i] : starts[i + 1]]
                low[i], high[i] = part.min(axis=0), part.max(axis=0)
            lowest.append(low)
            highest.append(high)
        return lowest, highest


def _sorted_into_cells(points: Floats, levels: int) -> tuple[Floats, NDArray[np.int64]]:
    """The points cell by cell, and where each of the 2^levels cells starts.

    Each cell is halved at its median along the column in which it is widest.
    """
    groups = [np.asarray(points)]
    for _ in range(levels):
        halves = []
        for group in groups:
            spread = np.ptp(group, axis=0) if len(group) else np.zeros(points.shape[1])
            order = np.argsort(group[:, int(np.argmax(spread))], kind="stable")
            middle = len(group) // 2
            halves += [group[order[:middle]], group[order[middle:]]]
        groups = halves
    starts = np.concatenate([[0], np.cumsum([len(g) for g in groups])]).astype(np.int64)
    return np.concatenate(groups), starts
