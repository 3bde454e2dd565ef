"""Which plan applies where: the plane of two streams' rates, cut into regions.

A region is all points where the same queries lose. (Not: where the same arcs drop. Of
equally good plans that differ in the arc, a planner may return any.) Most of the plane
is found without planning: a square whose corners lie in one region is taken to lie in
it altogether. Squares with unlike corners are divided, down to one pixel.

Not guaranteed: a region thinner than the first squares (1/16 of the plane) can be
missed. Cost: about one plan for each pixel on a border between regions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.errors import GuaranteesCollideError
from headgate.planning import Plan

__all__ = ["COLLISION", "FITS", "Region", "region_of", "regions_on_grid"]

_TOLERANCE = 1e-7


@dataclass(frozen=True, slots=True)
class Region:
    """The queries that lose tuples, and the nodes and links that are full all over it."""

    losing: tuple[str, ...]
    full: tuple[str, ...]


FITS = Region((), ())
COLLISION = Region(("guaranteed minimums collide",), ())


def region_of(plan: Plan) -> Region:
    if not plan.sheds:
        return FITS
    model = plan.model
    loads, capacities = plan.flow.loads, model.capacities
    return Region(
        tuple(name for name, keep in plan.query_keep_fraction.items() if keep < 1.0 - _TOLERANCE),
        tuple(
            name
            for name, load, capacity in zip(model.constraints, loads, capacities, strict=True)
            if load >= capacity * (1.0 - _TOLERANCE)
        ),
    )


def regions_on_grid(
    region_at: Callable[[float, float], Region], x_end: float, y_end: float, pixels: int = 256
) -> tuple[NDArray[np.int_], list[Region]]:
    """The number of the region of each pixel, [row from below, column], and the regions.

    Pixel centres stand on ``end * (i + 0.5) / pixels``. `pixels` is a power of 2, at least 16.
    """
    grid = _Grid(region_at, x_end, y_end, pixels)
    step = pixels // 16
    for row in range(0, pixels, step):
        for column in range(0, pixels, step):
            grid.fill(row, column, step)
    return grid.numbers, grid.regions


class _Grid:
    """The pixels known so far; -1 is not known yet."""

    def __init__(
        self, region_at: Callable[[float, float], Region], x_end: float, y_end: float, pixels: int
    ) -> None:
        self.numbers = np.full((pixels, pixels), -1)
        self.regions: list[Region] = []
        self._region_at = region_at
        self._x = x_end * (np.arange(pixels) + 0.5) / pixels
        self._y = y_end * (np.arange(pixels) + 0.5) / pixels

    def fill(self, row: int, column: int, size: int) -> None:
        """Give every pixel of the square a region."""
        far_row, far_column = row + size - 1, column + size - 1
        corners = {self._at(r, c) for r in (row, far_row) for c in (column, far_column)}
        if len(corners) == 1:
            self.numbers[row : row + size, column : column + size] = corners.pop()
            return
        half = size // 2
        if half == 0:
            return
        for r in (row, row + half):
            for c in (column, column + half):
                self.fill(r, c, half)

    def _at(self, row: int, column: int) -> int:
        if self.numbers[row, column] < 0:
            region = self._planned(float(self._x[column]), float(self._y[row]))
            self.numbers[row, column] = self._number_of(region)
        return int(self.numbers[row, column])

    def _number_of(self, region: Region) -> int:
        """The region with the same losers; what is not full here is not full all over it."""
        for index, known in enumerate(self.regions):
            if known.losing == region.losing:
                full = tuple(name for name in known.full if name in region.full)
                self.regions[index] = Region(known.losing, full)
                return index
        self.regions.append(region)
        return len(self.regions) - 1

    def _planned(self, x: float, y: float) -> Region:
        try:
            return self._region_at(x, y)
        except GuaranteesCollideError:
            return COLLISION
