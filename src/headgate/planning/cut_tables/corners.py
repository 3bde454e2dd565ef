"""The corners of the region below a set of cuts, kept up to date as cuts are added.

The region is {(x, v): x in the unit cube, 0 <= v <= 1, v <= every cut}. Its upper
corners are where an upper bound made of cuts can be furthest from a concave
function below it: between corners the bound is linear and the function is above
the straight line, so checking the corners checks everything.

This is the double description method: a corner is stored with the faces that it
lies on; a new cut removes the corners above it and adds one on every edge that it
crosses. Two corners share an edge when no third one lies on all the faces that they
have in common.

Cost: quadratic in the corners that a cut removes or keeps beside them. The number
of corners can grow exponentially with the dimension; callers bound it.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats

__all__ = ["Corners"]

_ON = 1e-11
_CHUNK = 2048


class Corners:
    """Corners of the region below the cuts over a unit cube of `dimension` inputs.

    Example: `Corners(2).add(0.1, np.array([0.5, 0.5]))` for the cut v <= 0.1 + (x + y) / 2.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.points = np.array(list(product((0.0, 1.0), repeat=dimension + 1)))
        self._on = np.concatenate([self.points == 0.0, self.points == 1.0], axis=1)

    def __len__(self) -> int:
        return len(self.points)

    def add(self, intercept: float, slopes: Floats) -> NDArray[np.bool_]:
        """Cut the region; returns which of the corners stay. New ones come after them."""
        slack = intercept + self.points[:, :-1] @ slopes - self.points[:, -1]
        size = 1.0 + float(np.sum(np.abs(slopes)))
        above: NDArray[np.bool_] = slack < -_ON * size
        below: NDArray[np.bool_] = slack > _ON * size
        if not np.any(above):
            return ~above
        inner, outer = self._edges(np.flatnonzero(below), np.flatnonzero(above))
        share = slack[inner] / (slack[inner] - slack[outer])
        fresh = self.points[inner] + share[:, None] * (self.points[outer] - self.points[inner])
        stays = ~above
        on_cut = stays & ~below
        faces = np.concatenate([self._on[stays], self._on[inner] & self._on[outer]])
        new_face = np.concatenate([on_cut[stays], np.ones(len(fresh), dtype=bool)])
        self.points = np.concatenate([self.points[stays], fresh])
        self._on = np.column_stack([faces, new_face])
        return stays

    def _edges(
        self, inner: NDArray[np.intp], outer: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The pairs of an inner and an outer corner that an edge joins."""
        on = self._on.astype(np.float32)
        common = on[inner] @ on[outer].T
        first, second = np.nonzero(common >= self.dimension)
        first, second = inner[first], outer[second]
        joined = np.zeros(len(first), dtype=bool)
        for start in range(0, len(first), _CHUNK):
            part = slice(start, start + _CHUNK)
            shared = on[first[part]] * on[second[part]]
            containing = shared @ on.T >= np.sum(shared, axis=1)[:, None]
            joined[part] = np.sum(containing, axis=1) == 2
        return first[joined], second[joined]
