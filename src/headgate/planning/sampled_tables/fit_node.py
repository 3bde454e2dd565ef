"""One node of the sampled distributed planner: messages in, messages out.

A node knows its own part of the network and what its neighbours told it. Tables come
about in three passes of messages, the same that `tree_tables` makes in one place:

    offer   up     once the offers of all children are there
    limits  down   the root answers an offer; each node passes its share on
    table   up     once limits are there and every child has answered them

When its own part changes a node starts again at the first pass that is affected: if
its offer stays the same, only tables move, and of those only differences. A child
that is sent limits always answers with its table or a difference, even an empty one,
so a parent knows when to go on. Offers are numbered and limits name the offer that they
answer; an answer to an older offer is dropped, because the answer to the newer one is on
its way.

Guarantee: when no message is under way, every table is the one that `tree_tables`
makes of the same parts (threshold 0). Not guaranteed: anything about lost or doubled
messages; the transport must deliver each once and in order per pair of nodes. A
difference that does not fit what came before raises PlanningError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.entry_scan import EntryScan
from headgate.planning.sampled_tables.feasible_table import FeasibleTable
from headgate.planning.sampled_tables.fit_delta import (
    TableDelta,
    apply_delta,
    same_columns,
    table_delta,
)
from headgate.planning.sampled_tables.fit_messages import FitMessage, Kind
from headgate.planning.sampled_tables.node_part import NodePart
from headgate.planning.sampled_tables.node_shape import NodeShape, node_shape
from headgate.planning.sampled_tables.sample_points import FitSettings
from headgate.planning.sampled_tables.table_limits import Limits, child_limits, root_limits
from headgate.planning.sampled_tables.table_merge import NodeTable, node_table
from headgate.planning.sampled_tables.table_offer import Offer

__all__ = ["FitNode", "LocalDecision"]


@dataclass(frozen=True)
class LocalDecision:
    """What a node does: keep fractions on streams' arcs, kept rates behind its splits."""

    keep_fraction: Mapping[str, float]
    kept_rate: Mapping[str, float]


class FitNode:
    """One node. `start`, `change`, `measure` and `handle` return the messages to send."""

    def __init__(
        self, part: NodePart, settings: FitSettings | None = None, threshold: float = 0.0
    ) -> None:
        self.part = part
        self.settings = settings or FitSettings()
        self.threshold = threshold
        self.decision = LocalDecision({}, {})
        self.node_table: NodeTable | None = None
        self._shape: NodeShape | None = None
        self._limits: Limits | None = None
        self._offers: dict[str, Offer] = {}
        self._offer_numbers: dict[str, int] = {}
        self._offer_number = 0
        self._views: dict[str, FeasibleTable] = {}
        self._told: dict[str, Limits] = {}
        self._unanswered: set[str] = set()  # children that wait for limits
        self._awaited: set[str] = set()  # children that owe a table
        self._sent_offer: Offer | None = None
        self._sent_table: FeasibleTable | None = None
        self._rates: dict[str, float] = {}

    @property
    def name(self) -> str:
        return self.part.node

    @property
    def table(self) -> FeasibleTable:
        """The node's own table; PlanningError while it waits for a neighbour."""
        if self.node_table is None:
            raise PlanningError(f"node {self.name!r} still waits for its neighbours' tables")
        return self.node_table.table

    @property
    def stream_arcs(self) -> tuple[str, ...]:
        """Names of the arcs from streams into this node."""
        entries = zip(self.part.gates, self.part.external, strict=False)
        return tuple(gate.arc for gate, external in entries if external)

    def start(self) -> list[FitMessage]:
        """The first messages; a node with children waits for them."""
        return self._reshape()

    def change(self, part: NodePart) -> list[FitMessage]:
        """The node's own costs, selectivities, operators or neighbours have changed."""
        gone = set(self.part.children) - set(part.children)
        for child in gone:
            self._offers.pop(child, None)
            self._views.pop(child, None)
            self._told.pop(child, None)
        self._unanswered -= gone
        self._awaited -= gone
        if part.parent != self.part.parent:
            self._sent_offer = self._sent_table = self._limits = None
        self.part = part
        return self._reshape()

    def measure(self, rates_per_second: Mapping[str, float]) -> list[FitMessage]:
        """Rates of the streams' arcs into this node; the root decides when it hears them."""
        self._rates.update(rates_per_second)
        return self._pass_rates(rates_per_second)

    def handle(self, message: FitMessage) -> list[FitMessage]:
        """Take one message in and say what follows from it."""
        body, sender = message.body, message.sender
        if message.kind is Kind.OFFER:
            self._offers[sender] = Offer.from_dict(body["offer"])
            self._offer_numbers[sender] = body["number"]
            self._unanswered.add(sender)
            return self._reshape()
        if message.kind is Kind.LIMITS:
            if body["number"] != self._offer_number or sender != self.part.parent:
                return []  # an answer to an offer that no longer stands
            return self._limited(Limits.from_dict(body["limits"]))
        if message.kind is Kind.TABLE:
            self._views[sender] = FeasibleTable.from_dict(body)
            return self._received(sender)
        if message.kind is Kind.DELTA:
            self._views[sender] = self._patched(sender, body)
            return self._received(sender)
        if message.kind is Kind.RATES:
            self._rates.update(body)
            return self._pass_rates(body)
        return self._run_with(np.array(body["rates"]), body["keep"])

    def decide(self) -> list[FitMessage]:
        """At a root: scale the measured rates down to the best entry, and tell the others."""
        table = self.table
        arc_rates = np.array([self._rates.get(arc, 0.0) for arc in table.arcs])
        rates = table.column_rates(arc_rates)
        row = EntryScan(table.rates, table.scores).find(rates)
        target = np.zeros(table.columns) if row is None else table.rates[row]
        share = np.divide(target, rates, out=np.ones_like(target), where=rates > 0.0)
        keep = {
            arc: float(min(1.0, share[column]))
            for arc, column in zip(table.arcs, table.column_of, strict=True)
            if column >= 0
        }
        return self._run_with(target, keep)

    def _reshape(self) -> list[FitMessage]:
        """First pass, again; goes on to the second where the offer is what it was."""
        if not self._offers_fit():
            return []
        offers = [self._offers[child] for child in self.part.children]
        self._shape = node_shape(self.part, offers, join_inputs=self.settings.join_inputs)
        if self.part.parent is None:
            return self._limited(root_limits(self._shape.offer))
        if self._shape.offer == self._sent_offer and self._limits is not None:
            return self._limited(self._limits)
        self._sent_offer, self._limits = self._shape.offer, None
        self._offer_number += 1
        body = {"offer": self._shape.offer.to_dict(), "number": self._offer_number}
        return [self._message(self.part.parent, Kind.OFFER, body)]

    def _offers_fit(self) -> bool:
        """False while a child is silent, or still offers the arcs of another picture."""
        leaving = {child: set[str]() for child in self.part.children}
        for arc, child in self.part.child_of:
            leaving[child].add(arc)
        return all(
            child in self._offers and self._offers[child].arcs_from_parent == arcs
            for child, arcs in leaving.items()
        )

    def _limited(self, limits: Limits) -> list[FitMessage]:
        """Second pass: pass on what the children must know, then wait for their tables."""
        assert self._shape is not None
        self._limits = limits
        told = child_limits(self._shape, limits)
        messages = []
        for child in self.part.children:
            if child in self._unanswered or told[child] != self._told.get(child):
                body = {"limits": told[child].to_dict(), "number": self._offer_numbers[child]}
                messages.append(self._message(child, Kind.LIMITS, body))
                self._awaited.add(child)
        self._unanswered -= set(self.part.children)
        self._told = told
        return messages + self._retable()

    def _received(self, child: str) -> list[FitMessage]:
        self._awaited.discard(child)
        return self._retable()

    def _retable(self) -> list[FitMessage]:
        """Third pass: make the table and send what is new in it."""
        if self._limits is None or self._shape is None or not self._tables_fit():
            return []
        children = [self._views[child] for child in self.part.children]
        self.node_table = node_table(self._shape, children, self._limits, self.settings)
        if self.part.parent is None:
            return []
        new, old = self.node_table.table, self._sent_table
        if old is None or not same_columns(old, new):
            self._sent_table = new
            return [self._message(self.part.parent, Kind.TABLE, new.to_dict(), size=new.wire_bytes)]
        delta = table_delta(old, new, self.threshold)
        self._sent_table = apply_delta(old, delta)
        body = {**delta.to_dict(), "rows_before": len(old)}
        return [self._message(self.part.parent, Kind.DELTA, body, size=delta.wire_bytes)]

    def _tables_fit(self) -> bool:
        """False while a child owes a table, or its table is older than its offer."""
        return not self._awaited & set(self.part.children) and all(
            child in self._views and self._views[child].is_of(self._offers[child])
            for child in self.part.children
        )

    def _patched(self, child: str, body: Mapping[str, object]) -> FeasibleTable:
        view = self._views.get(child)
        if view is None or len(view) != body["rows_before"]:
            raise PlanningError(
                f"node {self.name!r}: a difference from {child!r} does not fit the table that "
                "it sent before; ask it for the full table"
            )
        return apply_delta(view, TableDelta.from_dict(body, view.columns))

    def _pass_rates(self, rates: Mapping[str, float]) -> list[FitMessage]:
        if self.part.parent is None:
            return []
        return [self._message(self.part.parent, Kind.RATES, dict(rates), size=12 * len(rates))]

    def _run_with(self, rates: Floats, keep: Mapping[str, float]) -> list[FitMessage]:
        """Put the local plan for these column rates in place and tell the children theirs."""
        assert self.node_table is not None
        made = self.node_table
        row = _covering(made.table, rates)
        kept = (
            made.gate_rates[row].tolist() if row is not None else [0.0] * made.gate_rates.shape[1]
        )
        self.decision = LocalDecision(
            {arc: keep[arc] for arc in self.stream_arcs if arc in keep},
            dict(zip(made.shape.gate_arc, kept, strict=True)),
        )
        messages = []
        for number, child in enumerate(self.part.children):
            view = self._views[child]
            child_row = None if row is None else int(made.child_rows[row, number])
            asked = np.zeros(view.columns) if child_row is None else view.rates[child_row]
            further = {arc: keep[arc] for arc in view.arcs if arc in keep}
            body = {"rates": asked.tolist(), "keep": further}
            messages.append(
                self._message(child, Kind.ENTRY, body, size=8 * len(asked) + 12 * len(further))
            )
        return messages

    def _message(
        self, receiver: str, kind: Kind, body: Mapping[str, object], size: int | None = None
    ) -> FitMessage:
        return FitMessage(self.name, receiver, kind, body, _size(body) if size is None else size)


def _covering(table: FeasibleTable, rates: Floats) -> int | None:
    """The row for exactly these rates, or the least row that can take them."""
    enough = np.all(table.rates >= rates * (1.0 - 1e-9), axis=1)
    if not np.any(enough):
        return None
    rows = np.flatnonzero(enough)
    distance = np.sum(table.rates[rows] - rates, axis=1)
    best = rows[distance <= np.min(distance) + 1e-9 * np.sum(rates)]
    return int(best[np.argmax(table.scores[best])])


def _size(value: object) -> int:
    """Bytes of a plain binary form: 8 a number, UTF-8 and a length for a name."""
    if isinstance(value, str):
        return 2 + len(value.encode())
    if isinstance(value, Mapping):
        return sum(_size(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_size(part) for part in value)
    return 1 if isinstance(value, bool) else 8
