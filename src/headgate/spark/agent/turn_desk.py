"""Where queries wait for their turn, between the socket and the coordinator.

A query asks before each batch. If it is not its turn, the answer is held; the asker
hears "wait, ask again" in bounded steps and its ticket keeps its place meanwhile. When
the coordinator grants the turn, whoever waits on the ticket is woken at once; a turn
that is granted between two steps is found by the next question.

Guarantees: one ticket for each query, so memory is bounded by the queries. A ticket is
for one batch; a turn that was granted for another batch is never handed out. Nothing
here reads a clock: times are passed in.
Not guaranteed: that the query still lives. `to_check` names the turns to look after.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.coordinator import Decision, GrantTurn, SetKeepFraction

__all__ = ["Ticket", "TurnDesk"]

_FIRST_CHECK_SECONDS = 0.1
_CHECK_EVERY_SECONDS = 0.25
LONGEST_TURN_SECONDS = 60.0


@dataclass(slots=True)
class Ticket:
    """A query's question about one batch. `ready` is set when the turn has come."""

    query: str
    batch: int
    asked_seconds: float
    granted_seconds: float | None = None
    decisions: tuple[SetKeepFraction, ...] = ()
    ready: threading.Event = field(default_factory=threading.Event)
    checked_seconds: float = 0.0

    @property
    def held_seconds(self) -> float:
        """How long the query waited for its turn."""
        if self.granted_seconds is None:
            return 0.0
        return max(0.0, self.granted_seconds - self.asked_seconds)

    def is_overdue(self, now_seconds: float) -> bool:
        """The turn has lasted so long that others should not wait for its end."""
        granted = self.granted_seconds
        return granted is not None and now_seconds - granted > LONGEST_TURN_SECONDS


class TurnDesk:
    """Tickets by query. Safe from any thread."""

    def __init__(self) -> None:
        self._tickets: dict[str, Ticket] = {}
        self._lock = threading.Lock()

    def ticket(self, query: str, batch: int) -> Ticket | None:
        """The ticket that the query has for this batch."""
        with self._lock:
            ticket = self._tickets.get(query)
            return ticket if ticket is not None and ticket.batch == batch else None

    def open(self, query: str, batch: int, now_seconds: float) -> Ticket:
        """A new ticket; the query's old one is void."""
        ticket = Ticket(query, batch, now_seconds)
        with self._lock:
            self._tickets[query] = ticket
        return ticket

    def route(self, decisions: Iterable[Decision], now_seconds: float) -> None:
        """Hand granted turns to those who wait for them."""
        decisions = list(decisions)
        for turn in decisions:
            if not isinstance(turn, GrantTurn):
                continue
            ticket = self.ticket(turn.query, turn.batch)
            if ticket is not None and ticket.granted_seconds is None:
                ticket.decisions = tuple(
                    d
                    for d in decisions
                    if isinstance(d, SetKeepFraction)
                    and (d.query, d.batch) == (turn.query, turn.batch)
                )
                ticket.granted_seconds = now_seconds
                ticket.ready.set()

    def close(self, query: str, batch: int | None = None) -> Ticket | None:
        """The turn is over (None: whatever batch it was for)."""
        with self._lock:
            ticket = self._tickets.get(query)
            if ticket is None or (batch is not None and ticket.batch > batch):
                return None
            del self._tickets[query]
        ticket.ready.set()
        return ticket

    def wake_all(self) -> None:
        """Whoever waits asks again at once."""
        with self._lock:
            tickets = list(self._tickets.values())
        for ticket in tickets:
            ticket.ready.set()

    def to_check(self, now_seconds: float) -> list[Ticket]:
        """Turns that are out for a while, while others wait: does their query still work?"""
        with self._lock:
            tickets = list(self._tickets.values())
        if all(ticket.granted_seconds is not None for ticket in tickets):
            return []
        due = []
        for ticket in tickets:
            if ticket.granted_seconds is None:
                continue
            next_check = max(
                ticket.granted_seconds + _FIRST_CHECK_SECONDS,
                ticket.checked_seconds + _CHECK_EVERY_SECONDS,
            )
            if now_seconds >= next_check:
                ticket.checked_seconds = now_seconds
                due.append(ticket)
        return due
