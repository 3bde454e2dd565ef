"""The feasible input table: which inputs a subtree can take, and what they score.

A row says: with these rates on its inputs the subtree can be kept within every limit,
by local drops where needed, and then earns this score (2007, section 6.1). A column
is an input, or several that are interchangeable, in units of `factor` per tuple.

A table promises nothing about inputs between its rows except this: what a row can
take, any smaller input can be taken too.

Wire form, little-endian: 8 bytes a rate and 8 the score, one byte that says whether
local drops are needed; names, columns and factors travel once. The paper's own sizes
(52, 96 and 184 bytes for 2, 4 and 8 inputs) are 8 bytes and 22 for each input.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.table_offer import Offer

__all__ = ["Bools", "FeasibleTable", "canonical_order", "undominated"]

Bools = NDArray[np.bool_]
_CHUNK = 512  # rows that are compared with all others at a time
_EFFORT = 100_000_000  # comparisons of rows in all; beyond that rows stay


@dataclass(frozen=True)
class FeasibleTable:
    """Rows of one node's subtree, in descending order of their rates.

    arcs, column_of, factor: which arcs make up each column, see `Offer`.
    rates:    rows x columns, units per second.
    scores:   weighted tuples per second over the subtree's queries, without what is free.
    planned:  per row: True where the subtree drops behind its splits.
    loss:     score that rounding to the grid may have lost (see `sample_points`).
    """

    node: str
    arcs: tuple[str, ...]
    column_of: tuple[int, ...]
    factor: tuple[float, ...]
    rates: Floats
    scores: Floats
    planned: Bools
    loss: float

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def columns(self) -> int:
        return int(self.rates.shape[1])

    def column_rates(self, arc_rates: Floats) -> Floats:
        """Units per second on each column, from tuples per second on each arc."""
        column = np.array(self.column_of, dtype=np.int64)
        used = column >= 0
        units = arc_rates[used] * np.array(self.factor)[used]
        return np.bincount(column[used], units, self.columns).astype(np.float64, copy=False)

    @property
    def bytes_per_entry(self) -> int:
        return struct.calcsize(f"<{self.columns + 1}d?")

    @property
    def paper_bytes_per_entry(self) -> int:
        """What the paper's own count gives for a table with an input per arc."""
        return 8 + 22 * len(self.arcs)

    @property
    def wire_bytes(self) -> int:
        return len(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The wire form."""
        names = "\n".join(self.arcs).encode()
        head = struct.pack("<IIId", len(self), self.columns, len(names), self.loss)
        columns = struct.pack(f"<{len(self.arcs)}i", *self.column_of)
        factors = struct.pack(f"<{len(self.arcs)}d", *self.factor)
        numbers = np.column_stack([self.rates, self.scores]).astype("<f8").tobytes()
        return head + names + columns + factors + numbers + self.planned.astype("u1").tobytes()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "node": self.node,
            "arcs": list(self.arcs),
            "column_of": list(self.column_of),
            "factor": list(self.factor),
            "rates": self.rates.tolist(),
            "scores": self.scores.tolist(),
            "planned": self.planned.tolist(),
            "loss": self.loss,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeasibleTable:
        """The table that `to_dict` wrote; refuses rows of the wrong shape or without value."""
        columns = 1 + max(data["column_of"], default=-1)
        try:
            scores = np.array(data["scores"], dtype=np.float64)
            rates = np.array(data["rates"], dtype=np.float64)
        except ValueError:
            raise PlanningError(
                f"a table from {data['node']!r} has rows of different lengths; "
                "ask for the full table again"
            ) from None
        if rates.size != len(scores) * columns:
            raise PlanningError(
                f"a table from {data['node']!r} has {rates.size} rates for {len(scores)} rows of "
                f"{columns} columns; ask for the full table again"
            )
        if not (np.all(np.isfinite(rates)) and np.all(np.isfinite(scores))):
            raise PlanningError(f"a table from {data['node']!r} has rows without a value")
        return cls(
            data["node"],
            tuple(data["arcs"]),
            tuple(data["column_of"]),
            tuple(data["factor"]),
            rates.reshape(len(scores), columns),
            scores,
            np.array(data["planned"], dtype=bool),
            float(data["loss"]),
        )

    def is_of(self, offer: Offer) -> bool:
        """True where the columns are those that the offer speaks of."""
        return (self.arcs, self.column_of, self.factor) == (
            offer.arcs,
            offer.column_of,
            offer.factor,
        )

    def same_rows(self, other: FeasibleTable) -> bool:
        """True where both have the same entries in the same columns."""
        return (
            self.arcs == other.arcs
            and self.column_of == other.column_of
            and self.factor == other.factor
            and np.array_equal(self.rates, other.rates)
            and np.array_equal(self.scores, other.scores)
            and np.array_equal(self.planned, other.planned)
        )


def canonical_order(rates: Floats, scores: Floats) -> NDArray[np.intp]:
    """Descending by the first rate, then the second, and so on; then by score."""
    keys: Sequence[Floats] = (-scores, *(-rates[:, c] for c in range(rates.shape[1] - 1, -1, -1)))
    return np.lexsort(keys)


def undominated(rates: Floats, scores: Floats) -> NDArray[np.intp]:
    """Rows that no other row beats: no other needs as little on every column for as much.

    Lossless: whatever maps to a row that is left out, maps to its better. Of equal rows
    the first stays. Cost: rows times rows that stay, in chunks, up to a fixed effort;
    what was not compared by then stays.
    """
    if rates.shape[1] == 0:
        return np.array([int(np.argmax(scores))] if len(scores) else [], dtype=np.intp)
    if rates.shape[1] == 1:
        return _rising(rates[:, 0], scores)
    scale = np.max(rates, axis=0, initial=0.0)
    total = np.sum(rates / np.where(scale > 0.0, scale, 1.0), axis=1)
    order = np.lexsort((np.arange(len(scores)), -scores, total))  # a better row comes first
    kept = np.zeros(0, dtype=np.intp)
    effort = 0
    for start in range(0, len(order), _CHUNK):
        chunk = order[start : start + _CHUNK]
        effort += len(chunk) * len(kept)
        if effort > _EFFORT:
            kept = np.append(kept, order[start:])
            break
        chunk = chunk[~_beaten(rates, scores, chunk, kept)]
        kept = np.append(kept, chunk[~_beaten_within(rates, scores, chunk)])
    return np.sort(kept)


def _rising(rates: Floats, scores: Floats) -> NDArray[np.intp]:
    """`undominated` for one column: rows that score more than every smaller rate."""
    order = np.lexsort((-scores, rates))
    best = np.maximum.accumulate(scores[order])
    return np.sort(order[np.append(True, best[1:] > best[:-1])[: len(order)]])


def _beaten(rates: Floats, scores: Floats, rows: NDArray[np.intp], by: NDArray[np.intp]) -> Bools:
    """Which of `rows` some row of `by` beats or equals."""
    beaten = np.zeros(len(rows), dtype=bool)
    for start in range(0, len(by), 8 * _CHUNK):
        others = by[start : start + 8 * _CHUNK]
        open_ = np.flatnonzero(~beaten)
        better = scores[others][None, :] >= scores[rows[open_]][:, None]
        for column in range(rates.shape[1]):
            better &= rates[others, column][None, :] <= rates[rows[open_], column][:, None]
        beaten[open_] = np.any(better, axis=1)
    return beaten


def _beaten_within(rates: Floats, scores: Floats, rows: NDArray[np.intp]) -> Bools:
    """The same inside one chunk; of equals the first in order stays."""
    better = scores[rows][None, :] >= scores[rows][:, None]
    equal = scores[rows][None, :] == scores[rows][:, None]
    for column in range(rates.shape[1]):
        mine, other = rates[rows, column][:, None], rates[rows, column][None, :]
        better &= other <= mine
        equal &= other == mine
    later = np.tril(np.ones(better.shape, dtype=bool), -1)  # the other comes first
    beaten: Bools = np.any(better & (~equal | later), axis=1)
    return beaten
