"""One node of the distributed planner: messages in, messages out, decisions of its own.

See `headgate.planning.cut_tables.dfit` for the whole. A node knows its own part of the network,
the tables that were sent to it, and the rates that it measures or is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headgate.planning.cut_tables.cuts import CutTable
from headgate.planning.cut_tables.node_program import NodeDecision, NodeProgram, rates_for
from headgate.planning.cut_tables.table_messages import (
    Message,
    NodeSetup,
    Owner,
    RatesReported,
    ReceivedTable,
    TableChanged,
    TableWithdrawn,
    matched_rows,
)
from headgate.planning.cut_tables.value_table import TableSettings, value_table

__all__ = ["TableNode", "TableNodeSettings"]


@dataclass(frozen=True, slots=True)
class TableNodeSettings:
    """resend_above: relative change of a row below which it is not sent again.
    refine_above: promised over real score (as a share) that makes a node send a row.
    """

    resend_above: float = 0.0
    refine_above: float = 1e-6
    tables: TableSettings = field(default_factory=TableSettings)


class TableNode:
    """One node of the distributed planner. `handle` is its only way to hear and speak."""

    def __init__(self, setup: NodeSetup, settings: TableNodeSettings | None = None) -> None:
        self.setup = setup
        self.settings = settings or TableNodeSettings()
        self.rates: dict[str, float] = {}
        self._received: dict[str, ReceivedTable] = {}
        self._sent: dict[int, tuple[float, ...]] = {}
        self._sent_inputs: tuple[str, ...] | None = None
        self._sent_to: str | None = None
        self._next_row = 0
        self._owners: dict[str, Owner | None] = dict(setup.owners)
        self._program = NodeProgram(setup.part)
        self._table = _no_table(self._program.inputs)
        self.started = False
        self._has_news = False

    @property
    def name(self) -> str:
        return self.setup.name

    def start(self) -> list[Message]:
        """The first messages: the node's table with the tables received so far.

        Nodes may start in any order; with the last in the order of flow first, no
        table has to be sent twice.
        """
        self.started = True
        return self._announce()

    def handle(self, message: Message) -> list[Message]:
        """Take one message in and say what follows from it."""
        reports = self.hear(message)
        return reports + self.speak()

    def hear(self, message: Message) -> list[Message]:
        """Take one message in; what follows for the own table waits until `speak`.

        With many messages at once, this makes the table once and not for each of them.
        `decide` counts what was heard at once.
        """
        if isinstance(message, RatesReported):
            self.rates.update(message.rates)
            return self._report(message.rates) if self.started else []
        if isinstance(message, TableChanged):
            self._received.setdefault(message.sender, ReceivedTable()).apply(message)
        elif isinstance(message, TableWithdrawn):
            self._received.pop(message.sender, None)
        else:
            self.setup = message.setup
        self._has_news = True
        return []

    def speak(self) -> list[Message]:
        """Bring program and table up to date, if anything was heard, and say what changed."""
        return self._announce() if self._has_news else []

    def stop(self) -> list[Message]:
        """The last message: whoever holds this node's table forgets it."""
        self.started = False
        return self._withdraw()

    def decide(self) -> NodeDecision:
        """What to keep at the rates known now, with all that was heard."""
        if self._has_news:
            self._refresh_program()
        return self._program.decide(rates_for(self._program.inputs, self.rates), sparing=True)

    def refine(self, decision: NodeDecision) -> list[Message]:
        """One more row, if the table has promised more than this decision delivers."""
        recipient = self.recipient
        if recipient is None:
            return []
        rates = rates_for(self._table.inputs, self.rates)
        promised = self._table.value(rates)
        if promised - decision.score <= self.settings.refine_above * max(promised, 1e-300):
            return []
        self._table = CutTable(
            self._table.inputs,
            np.append(self._table.intercepts, decision.intercept),
            np.vstack([self._table.slopes, decision.slopes]),
            self._table.error_bound,
        )
        return self._difference(recipient)

    @property
    def table(self) -> CutTable:
        """The node's table as last announced."""
        return self._table

    @property
    def promised(self) -> float:
        """An upper bound on the score of this node and all behind it, at the known rates."""
        rates = rates_for(self._program.inputs, self.rates)
        decision = self._program.decide(rates)
        return decision.intercept + float(decision.slopes @ rates)

    def _refresh_program(self) -> None:
        current = [r for r in self._received.values() if self._fits(r)]
        self._program = NodeProgram(self.setup.part, [received.table() for received in current])
        self._owners = dict(self.setup.owners)
        for received in current:
            self._owners.update(zip(received.inputs, received.owners, strict=True))

    def _refresh_table(self) -> None:
        if self.recipient is None:  # nobody asks for it: the program itself decides
            self._table = _no_table(self._program.inputs)
        else:
            box = rates_for(self._program.inputs, self.setup.expected)
            self._table = value_table(self._program, box, self.settings.tables)

    def _fits(self, received: ReceivedTable) -> bool:
        """False while an operator is on the move and the sender still has the old picture."""
        part = self.setup.part
        return all(
            name not in part.inputs
            and (owner is None or owner[1] != self.name or name in part.outputs)
            for name, owner in zip(received.inputs, received.owners, strict=True)
        )

    @property
    def recipient(self) -> str | None:
        """Of those who decide about the table's inputs, the last in the order of flow."""
        owners = [self._owners.get(name) for name in self._program.inputs]
        others = [owner for owner in owners if owner is not None and owner[1] != self.name]
        return max(others)[1] if others else None

    def _announce(self) -> list[Message]:
        """Rebuild program and table, and say what changed; silent before `start`."""
        if not self.started:
            return []
        self._has_news = False
        self._refresh_program()
        self._refresh_table()
        recipient = self.recipient
        withdrawn = [] if recipient == self._sent_to else self._withdraw()
        return withdrawn if recipient is None else [*withdrawn, *self._difference(recipient)]

    def _withdraw(self) -> list[Message]:
        sent_to, self._sent_to = self._sent_to, None
        self._sent, self._sent_inputs = {}, None
        return [] if sent_to is None else [TableWithdrawn(self.name, sent_to)]

    def _difference(self, recipient: str) -> list[Message]:
        """The message that brings the recipient's copy of the table up to date."""
        table = self._table
        rows = [tuple(row) for row in np.column_stack([table.intercepts, table.slopes]).tolist()]
        full = self._sent_inputs != table.inputs
        known = {} if full else self._sent
        kept, fresh = matched_rows(known, rows, self.settings.resend_above)
        removed = tuple(sorted(set(known) - kept))
        added = {self._next_row + index: row for index, row in enumerate(fresh)}
        if not full and not removed and not added:
            return []
        self._next_row += len(fresh)
        self._sent = {**{number: known[number] for number in sorted(kept)}, **added}
        self._sent_inputs, self._sent_to = table.inputs, recipient
        owners = tuple(self._owners.get(name) for name in table.inputs)
        return [
            TableChanged(
                self.name, recipient, table.inputs, owners, full, removed, added, table.error_bound
            ),
            *self._report(self.rates),
        ]

    def _report(self, rates: Mapping[str, float]) -> list[Message]:
        """Pass on the rates that the recipient of the table cannot see for itself."""
        recipient = self.recipient
        if recipient is None:
            return []
        unseen = {
            name: rate
            for name, rate in rates.items()
            if name in self._table.inputs
            and ((owner := self._owners.get(name)) is None or owner[1] != recipient)
        }
        return [RatesReported(self.name, recipient, unseen)] if unseen else []


def _no_table(inputs: tuple[str, ...]) -> CutTable:
    """One row that promises anything: for a node that nobody asks for a table."""
    return CutTable(inputs, np.full(1, np.inf), np.zeros((1, len(inputs))))
