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

from headgate.coordinator.events import GateCount

__all__ = ["Ledger", "LedgerRow", "Totals"]


@dataclass(frozen=True, slots=True)
class LedgerRow:
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

    def add(self, count: GateCount | LedgerRow | Totals) -> None:
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
        if row.kept < 0 or row.dropped < 0 or row.offered != row.kept + row.dropped:
            return (
                f"batch {row.batch}: offered {row.offered} is not kept {row.kept} "
                f"plus dropped {row.dropped}"
            )
        key = (row.query, row.batch, row.gate)
        known = self._rows.get(key)
        if known is not None:
            same = (known.offered, known.kept) == (row.offered, row.kept)
            return (
                None
                if same
                else (
                    f"batch {row.batch} came again with other numbers: kept {row.kept} of "
                    f"{row.offered}, before {known.kept} of {known.offered}"
                )
            )
        place = (row.query, row.gate)
        if row.batch > self._last_batch.get(place, -1):
            self._last_batch[place] = row.batch
        elif len(self._rows) >= self._keep_rows:
            return None  # a replay of a batch whose row has gone already
        self._rows[key] = row
        total = self.totals.get(place)
        if total is None:
            total = self.totals[place] = Totals()
        total.add(row)
        if len(self._rows) > self._keep_rows:
            self._rows.popitem(last=False)
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
