"""What the nodes of the distributed planner say to each other.

Messages are plain data: they can be written as JSON or as bytes, and nothing in them
is executed. A receiver checks what it is sent and refuses what does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.errors import PlanningError
from headgate.planning.cut_tables.cuts import CutTable
from headgate.planning.flow_model import FlowModel

__all__ = [
    "Message",
    "NodeSetup",
    "Owner",
    "RatesReported",
    "ReceivedTable",
    "SetupChanged",
    "TableChanged",
    "TableWithdrawn",
    "matched_rows",
]

Owner = tuple[int, str]  # place in the order of flow, and name


@dataclass(frozen=True)
class TableChanged:
    """Rows to add and numbers of rows to remove; `full` replaces everything before.

    owners gives, for each input of the table, the node that decides about it and
    that node's place in the order of flow; None for streams.
    """

    sender: str
    receiver: str
    inputs: tuple[str, ...]
    owners: tuple[Owner | None, ...]
    full: bool
    removed: tuple[int, ...]
    added: Mapping[int, tuple[float, ...]]
    error_bound: float

    @property
    def size_bytes(self) -> int:
        """Eight bytes a coefficient, four a row number; names travel once, with the full table."""
        rows = sum(4 + 8 * len(row) for row in self.added.values())
        names = sum(len(name.encode()) + 5 for name in self.inputs) if self.full else 0
        return 8 + rows + 4 * len(self.removed) + names


@dataclass(frozen=True)
class RatesReported:
    """Measured or expected rates of inputs, in tuples per second."""

    sender: str
    receiver: str
    rates: Mapping[str, float]

    @property
    def size_bytes(self) -> int:
        return 8 + 12 * len(self.rates)


@dataclass(frozen=True)
class TableWithdrawn:
    """The sender's table goes to somebody else now, or the sender is gone."""

    sender: str
    receiver: str

    @property
    def size_bytes(self) -> int:
        return 8


@dataclass(frozen=True)
class NodeSetup:
    """What a node knows by itself: its name, place in the order of flow, and part.

    owners: for each input arc of the part, who decides about it; None for streams.
    expected: the largest rate to prepare for, by arc.
    """

    name: str
    rank: int
    part: FlowModel
    owners: Mapping[str, Owner | None]
    expected: Mapping[str, float]


@dataclass(frozen=True)
class SetupChanged:
    """The node's own part has other costs, selectivities or operators. Does not travel."""

    receiver: str
    setup: NodeSetup


Message = TableChanged | TableWithdrawn | RatesReported | SetupChanged


class ReceivedTable:
    """A neighbour's table as the messages so far have built it."""

    def __init__(self) -> None:
        self.inputs: tuple[str, ...] = ()
        self.owners: tuple[Owner | None, ...] = ()
        self._rows: dict[int, tuple[float, ...]] = {}
        self._error_bound = 0.0

    def apply(self, message: TableChanged) -> None:
        if message.full:
            self._rows = {}
        elif message.inputs != self.inputs:
            raise PlanningError(
                f"a difference from {message.sender} is over other inputs than its table; "
                "ask it for the full table"
            )
        missing = set(message.removed) - set(self._rows)
        if missing:
            raise PlanningError(
                f"a difference from {message.sender} removes rows that were never received; "
                "ask it for the full table"
            )
        for row in message.added.values():
            if len(row) != len(message.inputs) + 1 or not all(np.isfinite(row)):
                raise PlanningError(f"a row from {message.sender} has the wrong length or no value")
        for number in message.removed:
            del self._rows[number]
        self._rows.update(message.added)
        self.inputs, self.owners = message.inputs, message.owners
        self._error_bound = message.error_bound

    def table(self) -> CutTable:
        rows = np.array([self._rows[number] for number in sorted(self._rows)])
        return CutTable(self.inputs, rows[:, 0], rows[:, 1:], self._error_bound)


def matched_rows(
    known: Mapping[int, tuple[float, ...]], rows: list[tuple[float, ...]], tolerance: float
) -> tuple[set[int], list[tuple[float, ...]]]:
    """Known rows that still stand for one of `rows`, and the rows that none stands for."""
    if not known:
        return set(), rows
    numbers = list(known)
    held = np.array([known[number] for number in numbers])
    kept: set[int] = set()
    fresh: list[tuple[float, ...]] = []
    for row in rows:
        target = np.array(row)
        close = np.all(np.abs(held - target) <= tolerance * np.abs(target) + 1e-12, axis=1)
        if np.any(close):
            kept.add(numbers[int(np.argmax(close))])
        else:
            fresh.append(row)
    return kept, fresh
