"""Make a node's table from its children's: merge, map to the inputs, eliminate, fill.

One procedure for leaves and inner nodes (2007, sections 6.2 and 6.3):

1. Rows of the children are combined, each with each; the scores add up.
2. *Reverse mapping.* What a row demands at the children's columns is followed up
   through the node. A junction that one gate supplies asks that gate for demand /
   gain. Behind a split the largest demand counts (the maximum rule); the others are
   reduced by drops there, which are kept with the row as its local plan. Where several
   gates supply a junction (union, join) every division of the demand into N equal
   parts becomes a row: with N >= (gates - 1) (1 - loss) / loss some row asks each gate
   for no more than its share of the optimal plan, if the demand is 1 - loss of that
   plan's. So a merge costs one factor 1 - loss, and no floor is needed.
3. Rows over the capacity of the node or of a link are eliminated.
4. *Fill.* Inputs that earn something on this node itself are raised to their sample
   points, and the CPU that is left goes to the node's own queries in the order of
   `local_plan`. What that leaves unused of an input is taken off the row again.
5. Rows that others beat, and rows that no infeasible input needs, are left out.

Cost: everything is arrays of rows; bounded by `max_entries` rows at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb

import numpy as np
from numpy.typing import NDArray

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.feasible_table import (
    Bools,
    FeasibleTable,
    canonical_order,
    undominated,
)
from headgate.planning.sampled_tables.local_plan import DropOrder, drop_order
from headgate.planning.sampled_tables.node_shape import NodeShape
from headgate.planning.sampled_tables.redundant_rows import (
    corner_shares,
    near_boundary,
    outside_triangle,
)
from headgate.planning.sampled_tables.sample_points import FitSettings, budget_for, column_grids
from headgate.planning.sampled_tables.similar_rows import dissimilar
from headgate.planning.sampled_tables.table_limits import Limits

__all__ = ["NodeTable", "node_table"]

_ROUNDING = 1e-9  # relative; a row on the boundary stays


@dataclass(frozen=True)
class NodeTable:
    """A table with what stays on the node: its local plans and the children's rows.

    gate_rates: per row and gate behind a split (`shape.gate_arc`): tuples kept per second.
    child_rows: per row and child: number of the child's row.
    """

    shape: NodeShape
    table: FeasibleTable
    gate_rates: Floats
    child_rows: NDArray[np.int64]


@dataclass
class _Rows:
    """Candidates: units kept at each gate, children's rows and scores."""

    kept: Floats
    child_rows: NDArray[np.int64]
    scores: Floats
    planned: Bools

    def take(self, rows: NDArray[np.intp] | Bools) -> _Rows:
        return _Rows(self.kept[rows], self.child_rows[rows], self.scores[rows], self.planned[rows])


def node_table(
    shape: NodeShape, children: Sequence[FeasibleTable], limits: Limits, settings: FitSettings
) -> NodeTable:
    """The table of one node; `children` in the order of the shape's children."""
    builder = _Builder(shape, children, limits, settings)
    rows = builder.fitting(builder.demanded(builder.combined()))
    order = drop_order(shape)
    grids, loss = builder.grids(order)
    rows = builder.filled(*builder.raised(rows, grids, order), order)
    rates = rows.kept[:, : shape.columns]
    keep = builder.needed(rows, grids)
    keep = keep[builder.unbeaten(rates[keep], rows.scores[keep])]
    keep = keep[builder.distinct(rows, keep)]
    keep = keep[builder.outermost(rates[keep], rows.planned[keep])]
    keep = keep[canonical_order(rates[keep], rows.scores[keep])]
    rows, rates = rows.take(keep), rates[keep]
    table = FeasibleTable(
        shape.part.node,
        shape.offer.arcs,
        shape.offer.column_of,
        shape.offer.factor,
        rates,
        rows.scores,
        rows.planned,
        loss + sum(child.loss for child in children),
    )
    return NodeTable(shape, table, rows.kept[:, shape.columns :], rows.child_rows)


class _Builder:
    """The steps of the module, each from rows to rows."""

    def __init__(
        self,
        shape: NodeShape,
        children: Sequence[FeasibleTable],
        limits: Limits,
        settings: FitSettings,
    ) -> None:
        self.shape, self.children = shape, children
        self.limits, self.settings = limits, settings
        self.budget = budget_for(settings, limits.merges)
        self._triangle = settings.exclude_redundant and limits.triangle and not children

    def combined(self) -> _Rows:
        """Every combination of the children's rows that can fit for each child alone."""
        choices = [self._possible(number) for number in range(len(self.children))]
        count = 1
        for rows in choices:
            count *= len(rows)
            self._check(count)
        grid = np.meshgrid(*choices, indexing="ij") if choices else []
        picked = np.stack([g.ravel() for g in grid], axis=1) if grid else np.zeros((1, 0), int)
        scores, planned = np.zeros(len(picked)), np.zeros(len(picked), dtype=bool)
        for number, child in enumerate(self.children):
            scores = scores + child.scores[picked[:, number]]
            planned = planned | child.planned[picked[:, number]]
        kept = np.zeros((len(picked), len(self.shape.gain)))
        return _Rows(kept, picked.astype(np.int64), scores, planned)

    def demanded(self, rows: _Rows, only: int | None = None) -> _Rows:
        """Follow the demands up to the columns; see point 2 of the module."""
        shape = self.shape
        junction = shape.splits
        for number, child in enumerate(self.children):
            for column in range(child.columns):
                if only is None or only == number:
                    rows = self._supplied(rows, junction, (number, column))
                junction += 1
        for split in range(shape.splits - 1, -1, -1):
            rows = self._supplied(rows, split, None)
        return rows

    def fitting(self, rows: _Rows) -> _Rows:
        """Without the rows over a capacity."""
        loads = rows.kept @ self.shape.load
        return rows.take(np.all(loads <= self.shape.capacities * (1.0 + _ROUNDING), axis=1))

    def grids(self, order: DropOrder) -> tuple[list[Floats], float]:
        columns = self.shape.sampled_columns.tolist()
        last = np.array([order.load_at_last(c) for c in columns])
        return column_grids(self.shape, self.limits, self.settings, last)

    def raised(self, rows: _Rows, grids: list[Floats], order: DropOrder) -> tuple[_Rows, Floats]:
        """Rows with their sampled columns at each grid value above the demand.

        Returns the rows with their demands, and per row the rates of all columns.
        """
        shape = self.shape
        rates = rows.kept[:, : shape.columns].copy()
        cpu = rows.kept @ shape.load[:, 0]
        shares = corner_shares(shape, self.limits, grids) if self._triangle else None
        total = np.zeros(len(rates))  # of the shares; see `corner_shares`
        columns = shape.sampled_columns.tolist()
        for number, (column, grid) in enumerate(zip(columns, grids, strict=True)):
            least = shape.load[column, 0] if self.children else order.load_at_last(column)
            base = rates[:, column]
            room = (shape.capacities[0] * (1.0 + _ROUNDING) - cpu) / least if least else np.inf
            above = grid[None, :] > base[:, None] * (1.0 + _ROUNDING)
            above &= grid[None, :] - base[:, None] <= np.reshape(room, (-1, 1))
            if shares is not None and number == len(columns) - 1:
                above &= total[:, None] + shares[number][None, 1:] >= 1.0 - _ROUNDING
            self._check(len(base) + int(np.sum(above)))
            row, value = np.nonzero(above)
            source = np.append(np.arange(len(base)), row)
            cpu = np.append(cpu, cpu[row] + least * (grid[value] - base[row]))
            if shares is not None:
                total = np.append(total + shares[number][0], total[row] + shares[number][value + 1])
            rates = rates[source]
            rates[len(base) :, column] = grid[value]
            rows = rows.take(source)
        return rows, rates

    def filled(self, rows: _Rows, rates: Floats, order: DropOrder) -> _Rows:
        """Give the CPU that is left to the node's own queries."""
        shape = self.shape
        offered = np.zeros_like(rows.kept)
        offered[:, : shape.columns] = rates - rows.kept[:, : shape.columns]
        for split in range(shape.splits):
            behind = shape.gates_behind(split)
            offered[:, behind] = self._arriving(rows.kept, split) - rows.kept[:, behind]
        offered = np.maximum(offered, 0.0)
        spare = shape.capacities[0] - rows.kept @ shape.load[:, 0]
        kept = rows.kept + order.keep(offered, spare)
        drops = np.zeros(len(kept), dtype=bool)
        for split in range(shape.splits):
            behind = shape.gates_behind(split)
            drops |= np.any(kept[:, behind] < self._arriving(kept, split) * (1 - _ROUNDING), axis=1)
        return _Rows(kept, rows.child_rows, rows.scores + kept @ shape.reward, rows.planned | drops)

    def needed(self, rows: _Rows, grids: list[Floats]) -> NDArray[np.intp]:
        """Rows that an infeasible input may be mapped to."""
        if self._triangle:
            return outside_triangle(self.shape, self.limits, rows.kept, grids)
        return np.arange(len(rows.scores))

    def unbeaten(self, rates: Floats, scores: Floats) -> NDArray[np.intp]:
        """Rows that no other row beats; on chains alone every row is one."""
        if self.shape.offer.one_to_one and self.shape.splits == 0:
            return np.arange(len(scores))
        return undominated(rates, scores)

    def distinct(self, rows: _Rows, keep: NDArray[np.intp]) -> NDArray[np.intp]:
        """One of each group of similar rows, where that was asked for."""
        if self.settings.similarity <= 0.0:
            return np.arange(len(keep))
        rates = rows.kept[keep, : self.shape.columns]
        cpu = rows.kept[keep] @ self.shape.load[:, 0]
        return dissimilar(rates, rows.scores[keep], cpu, self.settings.similarity)

    def outermost(self, rates: Floats, planned: Bools) -> NDArray[np.intp]:
        """At a root: rows near the boundary of what is feasible."""
        shape, settings = self.shape, self.settings
        root = shape.part.parent is None and shape.offer.one_to_one
        if root and settings.exclude_redundant and settings.geometric:
            return near_boundary(rates, planned, self.budget.step)
        return np.arange(len(rates))

    def _possible(self, number: int) -> NDArray[np.intp]:
        """The child's rows that this node could supply if it did nothing else."""
        child = self.children[number]
        every = np.arange(len(child))
        if len(self.children) == 1:
            return every
        rows = _Rows(
            np.zeros((len(child), len(self.shape.gain))),
            np.repeat(every[:, None], len(self.children), axis=1),
            child.scores,
            child.planned,
        )
        rows = self.fitting(self.demanded(rows, only=number))
        return np.unique(rows.child_rows[:, number]).astype(np.intp)

    def _supplied(self, rows: _Rows, junction: int, source: tuple[int, int] | None) -> _Rows:
        """Ask the gates that supply a junction for what is demanded there."""
        shape = self.shape
        if source is None:
            behind = shape.gates_behind(junction)
            demand = np.max(rows.kept[:, behind], axis=1, initial=0.0)
        else:
            number, column = source
            demand = self.children[number].rates[rows.child_rows[:, number], column]
        suppliers = shape.suppliers(junction)
        if not np.any(demand > 0.0):
            return rows
        if not len(suppliers):
            return rows.take(demand <= 0.0)
        shares = self._shares(len(suppliers))
        times = np.where(demand > 0.0, len(shares), 1)
        self._check(int(np.sum(times)))
        source_row = np.repeat(np.arange(len(demand)), times)
        which = np.arange(len(source_row)) - np.repeat(np.cumsum(times) - times, times)
        rows = rows.take(source_row)
        asked = demand[source_row][:, None] * shares[which]
        rows.kept[:, suppliers] = asked / shape.gain[suppliers]
        return rows

    def _shares(self, gates: int) -> Floats:
        """All divisions of 1 among so many gates into equal parts; one division for one gate."""
        if gates == 1:
            return np.ones((1, 1))
        loss = self.budget.merge_loss
        parts = max(1, ceil((gates - 1) * (1.0 - loss) / loss - 1e-9))
        self._check(comb(parts + gates - 1, gates - 1))
        bars = np.array(list(combinations(range(parts + gates - 1), gates - 1)))
        edges = np.column_stack(
            [np.full(len(bars), -1), bars, np.full(len(bars), parts + gates - 1)]
        )
        return (np.diff(edges, axis=1) - 1) / parts

    def _arriving(self, kept: Floats, split: int) -> Floats:
        feeders = self.shape.suppliers(split)
        return (kept[:, feeders] @ self.shape.gain[feeders])[:, None]

    def _check(self, count: int) -> None:
        if count > self.settings.max_entries:
            shape = self.shape
            raise PlanningError(
                f"node {shape.part.node!r}: its table over {shape.columns} columns would pass "
                f"{self.settings.max_entries} rows (max_entries); raise max_error, set "
                "table_size, raise max_entries, or use the exact planner or dfit"
            )
