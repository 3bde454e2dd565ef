"""The account of every tuple: offered = kept + dropped, by gate, query, class and batch.

A batch is entered once. The same batch again with the same numbers is a replay and
changes nothing; with other numbers it is refused and reported. Totals are kept for
ever, rows of single batches only as many as `keep_rows` (the edge writes them to a
table before they go).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Ledger", "LedgerRow", "Totals"]


class LedgerRow(NamedTuple):
    """One gate in one batch."""

    time_seconds: float
    query: str
    query_class: str | None
    batch: int
    gate: str
    offered: int
    kept: int
    dropped: int
    keep_fraction: float | None


@dataclass(slots=True)
class Totals:
    """Sums since the start."""

    offered: int = 0
    kept: int = 0
    dropped: int = 0

    def add(self, count: LedgerRow | Totals) -> None:
        self.offered += count.offered
        self.kept += count.kept
        self.dropped += count.dropped

    @property
    def balances(self) -> bool:
        return self.offered == self.kept + self.dropped


class Ledger:
    """Rows of recent batches and totals by (query, gate); `overflow` is oldest row out."""

    def __init__(self, keep_rows: int = 10_000) -> None:
        self.totals: dict[tuple[str, str], Totals] = {}
        self._keep_rows = keep_rows
        self._rows: OrderedDict[tuple[str, int, str], LedgerRow] = OrderedDict()
        self._last_batch: dict[tuple[str, str], int] = {}

    def enter(self, row: LedgerRow) -> str | None:
        """Add one row. Returns what is wrong with it, or None when it was entered or known."""
        _, query, _, batch, gate, offered, kept, dropped, _ = row
        if kept < 0 or dropped < 0 or offered != kept + dropped:
            return f"batch {batch}: offered {offered} is not kept {kept} plus dropped {dropped}"
        rows = self._rows
        key = (query, batch, gate)
        place = (query, gate)
        if batch > self._last_batch.get(place, -1):
            self._last_batch[place] = batch
        else:
            known = rows.get(key)
            if known is not None:
                return _came_again(known, row)
            if len(rows) >= self._keep_rows:
                return None  # a replay of a batch whose row has gone already
        rows[key] = row
        total = self.totals.get(place)
        if total is None:
            total = self.totals[place] = Totals()
        total.offered += offered
        total.kept += kept
        total.dropped += dropped
        if len(rows) > self._keep_rows:
            rows.popitem(last=False)
        return None

    def rows(self) -> Iterator[LedgerRow]:
        """Recent rows, oldest first."""
        return iter(self._rows.values())

    def of_query(self, query: str) -> Totals:
        """Sums over the gates of one query."""
        total = Totals()
        for (name, _), gate in self.totals.items():
            if name == query:
                total.add(gate)
        return total

    def by_query(self) -> Mapping[str, Totals]:
        return {query: self.of_query(query) for query, _ in self.totals}

    @property
    def balances(self) -> bool:
        return all(total.balances for total in self.totals.values())


def _came_again(known: LedgerRow, row: LedgerRow) -> str | None:
    if (known.offered, known.kept) == (row.offered, row.kept):
        return None
    return (
        f"batch {row.batch} came again with other numbers: kept {row.kept} of {row.offered}, "
        f"before {known.kept} of {known.offered}"
    )
