"""Differences between two tables of a node: what to send when a number has changed.

A full table is sent once. After a change of cost, selectivity or place only rows that
the parent cannot do without are sent (2007, section 8.2.5, figure 15 b and c).

With threshold 0 the parent's copy becomes the new table, row by row. With a threshold
t above 0 the parent keeps an old row while

- it can still be taken: some new row has at least its rates, and
- its score is right within t: what the new table earns at its rates differs by at most
  that share,

and a new row is sent only if no kept row needs as little and earns at least 1 - t of
it. So every row of the copy can be taken, and whatever the new table would find, the
copy finds within t. Not guaranteed: the sum of the errors over several nodes in a row;
`plan.gap` has the truth.

Cost: old rows times new rows, in arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.feasible_table import FeasibleTable, canonical_order

__all__ = ["TableDelta", "apply_delta", "same_columns", "table_delta"]

_ROUNDING = 1e-12
_CELLS = 4_000_000  # comparisons at a time


@dataclass(frozen=True)
class TableDelta:
    """Rows to remove, by their number in the old table, and rows to add."""

    removed: tuple[int, ...]
    rates: Floats
    scores: Floats
    planned: NDArray[np.bool_]
    loss: float

    @property
    def added(self) -> int:
        return len(self.scores)

    @property
    def wire_bytes(self) -> int:
        """4 bytes a removed row; 8 a rate, 8 a score and 1 for the mark of an added one."""
        columns = int(self.rates.shape[1])
        return 16 + 4 * len(self.removed) + self.added * (8 * (columns + 1) + 1)

    def to_dict(self) -> dict[str, Any]:
        return {
            "removed": list(self.removed),
            "rates": self.rates.tolist(),
            "scores": self.scores.tolist(),
            "planned": self.planned.tolist(),
            "loss": self.loss,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], columns: int) -> TableDelta:
        count = len(data["scores"])
        try:
            rates = np.array(data["rates"], dtype=np.float64).reshape(count, columns)
            scores = np.array(data["scores"], dtype=np.float64)
        except ValueError:
            raise PlanningError(
                f"a difference has rows that do not have {columns} rates; "
                "ask for the full table again"
            ) from None
        if not (np.all(np.isfinite(rates)) and np.all(np.isfinite(scores))):
            raise PlanningError("a difference has rows without a value; ask for the full table")
        planned = np.array(data["planned"], dtype=bool)
        return cls(tuple(data["removed"]), rates, scores, planned, float(data["loss"]))


def same_columns(one: FeasibleTable, other: FeasibleTable) -> bool:
    """True where a difference makes sense: the columns mean the same."""
    return (one.arcs, one.column_of, one.factor) == (other.arcs, other.column_of, other.factor)


def table_delta(old: FeasibleTable, new: FeasibleTable, threshold: float = 0.0) -> TableDelta:
    """What brings a copy of `old` to `new`, within `threshold`; the columns must be the same."""
    if not same_columns(old, new):
        raise PlanningError(
            f"the columns of the table of {new.node!r} have changed; send the full table"
        )
    kept, sent = _unequal(old, new) if threshold <= 0.0 else _uncovered(old, new, threshold)
    removed = np.setdiff1d(np.arange(len(old)), kept)
    return TableDelta(
        tuple(removed.tolist()), new.rates[sent], new.scores[sent], new.planned[sent], new.loss
    )


def apply_delta(old: FeasibleTable, delta: TableDelta) -> FeasibleTable:
    """The copy after a difference."""
    if delta.removed and not 0 <= min(delta.removed) <= max(delta.removed) < len(old):
        raise PlanningError(
            f"a difference for {old.node!r} removes rows that are not there; "
            "ask for the full table again"
        )
    stay = np.setdiff1d(np.arange(len(old)), np.array(delta.removed, dtype=np.int64))
    rates = np.concatenate([old.rates[stay], delta.rates])
    scores = np.concatenate([old.scores[stay], delta.scores])
    planned = np.concatenate([old.planned[stay], delta.planned])
    order = canonical_order(rates, scores)
    return replace(
        old, rates=rates[order], scores=scores[order], planned=planned[order], loss=delta.loss
    )


def _unequal(old: FeasibleTable, new: FeasibleTable) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Old rows that are in the new table, and new rows that are not in the old one."""
    place = {row: number for number, row in enumerate(_row_bytes(old))}
    known, fresh = [], []
    for number, row in enumerate(_row_bytes(new)):
        if row in place:
            known.append(place[row])
        else:
            fresh.append(number)
    return np.array(known, dtype=np.intp), np.array(fresh, dtype=np.intp)


def _row_bytes(table: FeasibleTable) -> list[bytes]:
    numbers = np.column_stack([table.rates, table.scores, table.planned.astype(np.float64)])
    return [row.tobytes() for row in np.ascontiguousarray(numbers)]


def _uncovered(
    old: FeasibleTable, new: FeasibleTable, threshold: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Old rows that may stay, and new rows that none of those stands for."""
    possible, earned = _under(old.rates, new)
    close = np.abs(old.scores - earned) <= threshold * earned + _ROUNDING
    kept = np.flatnonzero(possible & close)
    standing = replace(old, rates=old.rates[kept], scores=earned[kept], planned=old.planned[kept])
    _, found = _under(new.rates, standing)
    return kept, np.flatnonzero(found < (1.0 - threshold) * new.scores * (1.0 - _ROUNDING))


def _under(points: Floats, table: FeasibleTable) -> tuple[NDArray[np.bool_], Floats]:
    """For each point: is it below some row, and the best score of the rows below it."""
    possible = np.zeros(len(points), dtype=bool)
    best = np.full(len(points), -np.inf)
    if not len(table):
        return possible, best
    chunk = max(1, _CELLS // len(table))
    for start in range(0, len(points), chunk):
        part = points[start : start + chunk]
        below = np.ones((len(part), len(table)), dtype=bool)  # the point is below the row
        above = below.copy()
        for column in range(table.columns):
            mine, row = part[:, column][:, None], table.rates[:, column][None, :]
            below &= mine <= row * (1.0 + _ROUNDING)
            above &= mine >= row * (1.0 - _ROUNDING)
        possible[start : start + chunk] = np.any(below, axis=1)
        scores = np.where(above, table.scores[None, :], -np.inf)
        best[start : start + chunk] = np.max(scores, axis=1)
    return possible, best
