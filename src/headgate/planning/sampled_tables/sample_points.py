"""Which rates a table is sampled at, and what that loses: the error budget.

Three ways to choose the sample points of a column:

    by error    geometric: each value is (1 - step) times the next (2007, section 6.2.1)
    by spread   multiples of error / (m * worth), for an absolute error (2006, section 3.2)
    by size     equal errors per column such that a leaf has at most so many points (2006)

*Why the guarantee is true.* Let k be the flows of an optimal plan with score F. Round
the flow into each sampled column down to the grid.

- By error, a flow of at least the column's floor keeps a share 1 - step of itself. A
  smaller one becomes 0, which loses at most worth * floor. The scores of a subtree are
  concave in its inputs and 0 at 0, so what is left earns at least
  (1 - step) * (F - sum of worth * floor). The floors are chosen so that the sum is at
  most `floor_share` of the smallest optimum that any infeasible input has
  (`Offer.smallest_score`), hence of F.
- By spread or size, each column loses at most worth * spread: at least F - sum.

The paper leaves open how its grid reaches down to zero; the floor is our answer.
Rows travel up by exact reverse mapping: what a row demands is at most the flow of the
optimal plan on every arc, so it fits wherever the plan fits, and chains and splits of
any length add no error. A merge does: the shares of its inputs are sampled too (see
`table_merge`), which costs one factor for each merge in a row; together they keep
`merge_share` of the optimum. In all

    score >= (1 - step) * (merge_share * F - loss),    loss <= floor_share * F,

and the budget makes the right side (1 - max_error) * F. Read the other way round, the
same line is an upper bound on F from the score of the entry that was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.node_shape import NodeShape
from headgate.planning.sampled_tables.table_limits import Limits

__all__ = ["Budget", "FitSettings", "budget_for", "column_grids"]

_FLOOR_SHARE = 0.2  # of the error: what rounding small rates to zero may lose
_MERGE_SHARE = 0.4  # of the error: what sampling the shares at merges may lose


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How a table is sampled, pruned and bounded.

    max_error:         largest share of the best score that a plan may miss.
    spread_error:      instead: largest absolute loss of score, with even spreads (2006).
    table_size:        instead: points of a node's own grid, at most (2006).
    max_entries:       rows that a table may have while it is built, at most.
    exclude_redundant: leave out rows that no infeasible input can be mapped to.
    join_inputs:       interchangeable inputs share a column.
    similarity:        rows whose rates and scores differ by less than this share are one
                       row. Above 0 the error is not bounded in advance; `plan.gap` is.
    look_up:           "scan" or "quadtree"; the same entries either way.
    """

    max_error: float = 0.1
    spread_error: float | None = None
    table_size: int | None = None
    max_entries: int = 200_000
    exclude_redundant: bool = True
    join_inputs: bool = True
    similarity: float = 0.0
    look_up: str = "scan"

    def __post_init__(self) -> None:
        if not 0.0 < self.max_error < 1.0:
            raise PlanningError(f"max_error must lie between 0 and 1, not {self.max_error!r}")
        if self.spread_error is not None and not 0.0 < self.spread_error < math.inf:
            raise PlanningError(f"spread_error must be above 0, not {self.spread_error!r}")
        if self.table_size is not None and self.table_size < 2:
            raise PlanningError(f"table_size must be at least 2, not {self.table_size!r}")
        if not 0.0 <= self.similarity < 1.0:
            raise PlanningError(f"similarity must be from 0 to below 1, not {self.similarity!r}")
        if self.look_up not in ("scan", "quadtree"):
            raise PlanningError(f"look_up is 'scan' or 'quadtree', not {self.look_up!r}")

    @property
    def geometric(self) -> bool:
        return self.spread_error is None and self.table_size is None


@dataclass(frozen=True, slots=True)
class Budget:
    """The error, divided. See the module for how the parts add up."""

    step: float
    floor_share: float
    merge_share: float
    merges: int

    @property
    def merge_loss(self) -> float:
        """What one merge may lose."""
        return 1.0 - self.merge_share ** (1.0 / self.merges) if self.merges else 0.0

    def bound(self, score: float, loss: float) -> float:
        """No plan scores more than this where the entry found has `score`."""
        return (score / (1.0 - self.step) + loss) / self.merge_share


def budget_for(settings: FitSettings, merges: int) -> Budget:
    """Divide the error between grid, floor and merges."""
    error = settings.max_error
    merge_share = 1.0 - _MERGE_SHARE * error if merges else 1.0
    if not settings.geometric:
        return Budget(0.0, 0.0, merge_share, merges)
    floor_share = _FLOOR_SHARE * error
    return Budget(
        1.0 - (1.0 - error) / (merge_share - floor_share), floor_share, merge_share, merges
    )


def column_grids(
    shape: NodeShape, limits: Limits, settings: FitSettings, load_at_last: Floats
) -> tuple[list[Floats], float]:
    """Sample values above 0 for each sampled column, ascending, and the absolute loss.

    load_at_last: per sampled column, CPU seconds of a unit after all local drops; the
    capacity over it is the largest rate of use (the paper's maximum feasible rate).
    """
    columns = shape.sampled_columns
    bounds = np.array(limits.column_bounds)[columns]
    tops = np.minimum(bounds, shape.capacities[0] / load_at_last)
    worth = shape.fill[columns]
    if settings.geometric:
        budget = budget_for(settings, limits.merges)
        floors = budget.floor_share * limits.smallest_score / (limits.sampled * worth)
        grids = [_geometric(t, f, budget.step) for t, f in zip(tops, floors, strict=True)]
        return grids, float(np.sum(worth * np.minimum(floors, tops)))
    if settings.spread_error is not None:
        spreads = settings.spread_error / (limits.sampled * worth)
    else:
        spreads = _spreads_by_size(tops, worth, settings.table_size or 2)
    grids = [_even(t, s) for t, s in zip(tops, spreads, strict=True)]
    return grids, float(np.sum(worth * np.minimum(spreads, tops)))


def _geometric(top: float, floor: float, step: float) -> Floats:
    """The top, then powers of (1 - step), down to the first value at or below the floor.

    Powers of one number, and not of the top, so that a table stays comparable (and a
    difference small) when a cost or a selectivity moves the top.
    """
    if top <= 0.0:
        return np.zeros(0)
    base = math.log1p(-step)
    first = math.floor(math.log(top) / base) + 1
    last = max(first, math.ceil(math.log(min(floor, top)) / base))
    powers = np.exp(base * np.arange(last, first - 1, -1))
    grid: Floats = np.append(powers[powers < top * (1.0 - 1e-12)], top)
    return grid


def _even(top: float, spread: float) -> Floats:
    """Multiples of the spread up to the top."""
    count = math.floor(top / spread * (1.0 + 1e-12))
    grid: Floats = spread * np.arange(1, count + 1, dtype=np.float64)
    return grid


def _spreads_by_size(tops: Floats, worth: Floats, size: int) -> Floats:
    """Spreads with the same error per column whose grid has at most `size` points.

    A column has at least the points 0 and its top, also where that is more than `size`.
    """
    errors = tops * worth

    def steps(per_error: float) -> Floats:
        return np.maximum(1.0, np.floor(per_error * errors * (1.0 + 1e-12)))

    low, high = 0.0, size / float(np.min(errors[errors > 0.0], initial=1.0))
    for _ in range(200):
        middle = (low + high) / 2.0
        points = np.sum(np.log(steps(middle) + 1.0))
        low, high = (middle, high) if points <= math.log(size) + 1e-12 else (low, middle)
    return np.where(tops > 0.0, tops / steps(low), 1.0)
