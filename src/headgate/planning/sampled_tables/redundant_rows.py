"""Rows that no infeasible input is ever mapped to (2007, section 6.2.1).

An optimal plan for an infeasible input lies on the boundary of what is feasible:
strictly inside, something that is dropped could be kept. The row for it is the plan
rounded down to the grid. So a row is redundant when its whole cell, up to the next
grid values, lies strictly inside the feasible space. Two ways to know that:

- At a leaf: inside the *feasibility triangle* between the origin and the largest
  feasible rate of each column alone. That rate counts without local drops: an input
  that fits only with drops behind a split is infeasible and needs its row. Valid only
  where the leaf's columns are all the tree has (`Limits.triangle`); beside other
  leaves an optimal plan may lie inside.
- At a root whose columns are the leaves' own: below a row that needs no local drops.

Both are lossless. (The paper excludes rows inside the triangle themselves, not their
cells; then an input just above the boundary may find no row below it.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.feasible_table import Bools
from headgate.planning.sampled_tables.node_shape import NodeShape
from headgate.planning.sampled_tables.table_limits import Limits

__all__ = ["corner_shares", "near_boundary", "outside_triangle"]

_ROUNDING = 1e-9
_CELLS = 4_000_000  # comparisons at a time
_EFFORT = 200_000_000  # comparisons in all; beyond that rows stay


def corner_shares(shape: NodeShape, limits: Limits, grids: list[Floats]) -> list[Floats]:
    """For each sampled column and each value 0, grid[0], ... of it: the next value up, as a
    share of the largest rate that is feasible without local drops. A cell lies inside the
    triangle when its shares sum up to less than 1.
    """
    shares = []
    for column, grid in zip(shape.sampled_columns.tolist(), grids, strict=True):
        top = min(limits.column_bounds[column], shape.capacities[0] / shape.work[column])
        following = np.append(grid, np.inf)
        shares.append(following / top if top > 0.0 else np.full(len(following), np.inf))
    return shares


def outside_triangle(
    shape: NodeShape, limits: Limits, kept: Floats, grids: list[Floats]
) -> NDArray[np.intp]:
    """Rows of a leaf whose cell reaches out of the feasibility triangle."""
    if not len(grids):
        return np.arange(len(kept))
    total = np.zeros(len(kept))
    shares = corner_shares(shape, limits, grids)
    for column, grid, share in zip(shape.sampled_columns.tolist(), grids, shares, strict=True):
        place = np.searchsorted(grid, kept[:, column] * (1.0 + _ROUNDING), side="right")
        total += share[place]
    return np.flatnonzero(total >= 1.0 - _ROUNDING)


def near_boundary(rates: Floats, planned: Bools, step: float) -> NDArray[np.intp]:
    """Rows of a root whose cell does not lie below a row without local drops."""
    whole = rates[~planned]
    if not len(whole) or len(rates) * len(whole) > _EFFORT:
        return np.arange(len(rates))
    smallest = np.min(np.where(rates > 0.0, rates, np.inf), axis=0, initial=np.inf)
    corner = np.where(rates > 0.0, rates / (1.0 - step) * (1.0 + _ROUNDING), smallest)
    inside = np.zeros(len(rates), dtype=bool)
    chunk = max(1, _CELLS // len(whole))
    for start in range(0, len(rates), chunk):
        part = corner[start : start + chunk]
        below = np.ones((len(part), len(whole)), dtype=bool)
        for column in range(rates.shape[1]):
            below &= part[:, column][:, None] <= whole[:, column][None, :]
        inside[start : start + chunk] = np.any(below, axis=1)
    return np.flatnonzero(~inside)
