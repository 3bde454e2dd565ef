"""Who waits for a turn, who has one, and what a turn costs the node.

Several batches may run at once: a batch leaves cores idle while it is planned and
committed, and a narrow one also while it computes. There is a place for another turn
while fewer than `least_turns` are out, or while the batches that run have fewer tasks
than the node has cores, or where cores were seen idle while somebody waited.

Batches that run at once share the node. Each is charged for its part: of every moment
one n-th, when n have a turn. So the charges of all classes sum to the time that passed,
and a load is in seconds of the whole node.

Guarantees: memory is bounded by the number of queries. A query that was passed over as
often as its class has queries goes first, so none starves inside its class.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.coordinator.events import BatchStarted
from headgate.coordinator.settings import ClassSettings

__all__ = ["Turn", "Turns", "as_of"]

_PLACES_PER_SECOND = 1.0
"""Places that all cores idle for a second would open."""
_LONGEST_COUNT_SECONDS = 2.0


@dataclass(slots=True)
class Turn:
    """A batch that may run.

    node_seconds: its part of the time since it was granted.
    due:          somebody needed it now; its class is charged.
    """

    batch: int
    tasks: int
    granted_seconds: float
    node_seconds: float = 0.0
    alone: bool = True
    due: bool = True

    def share(self, end_seconds: float) -> float:
        """The part of the node that it had on average, above 0 and at most 1."""
        elapsed = end_seconds - self.granted_seconds
        if self.alone or elapsed <= 0.0 or self.node_seconds <= 0.0:
            return 1.0
        return min(1.0, self.node_seconds / elapsed)


class Turns:
    """Waiting queries and running turns of one node."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[str, BatchStarted] = OrderedDict()
        self.running: dict[str, Turn] = {}
        self.due_at: dict[str, float] = {}  # of queries that wait: not due before this time
        self._passed_over: dict[str, int] = {}
        self._now_seconds = 0.0
        self._counted_seconds = 0.0
        self._places = 0.0

    def has_place(self, settings: ClassSettings) -> bool:
        if len(self.running) < settings.least_turns:
            return True
        if len(self.running) + 1 <= self._places:
            return True
        return sum(turn.tasks for turn in self.running.values()) < settings.cores

    def observe_cores(self, busy: float, settings: ClassSettings, now_seconds: float) -> None:
        """So many cores had tasks since the last time: is there room for more turns, or fewer?

        An integrator. Cores that are idle while somebody waits open places, the faster the
        more there are; cores that are all busy close them again, down to `least_turns`.
        """
        elapsed = min(max(0.0, now_seconds - self._counted_seconds), _LONGEST_COUNT_SECONDS)
        self._counted_seconds = now_seconds
        idle = 1.0 - min(1.0, max(0.0, busy / settings.cores))
        if idle > settings.most_idle and not self.waiting:
            return  # there is nobody to fill them
        moved = self._places + _PLACES_PER_SECOND * elapsed * (idle - settings.most_idle)
        most = max(settings.least_turns, len(self.running) + len(self.waiting))
        self._places = min(max(moved, settings.least_turns), most)

    def wait(self, event: BatchStarted) -> None:
        """A query waits for its turn."""
        self.waiting[event.query] = event
        self.due_at.pop(event.query, None)

    def choose(self, queries: list[str], rate: Callable[[str], float]) -> str:
        """The query of a class that goes next: the highest rate, but nobody starves."""
        overdue = [name for name in queries if self._passed_over.get(name, 0) >= len(queries)]
        if overdue:
            return max(overdue, key=lambda name: self._passed_over[name])
        return max(queries, key=rate)

    def grant(
        self,
        query: str,
        passed_over: list[str],
        now_seconds: float,
        due: bool = True,
    ) -> BatchStarted:
        """Take a query out of the queue and let it run."""
        event = self.waiting.pop(query)
        self.due_at.pop(query, None)
        self.run(event, now_seconds, due)
        self._passed_over.pop(query, None)
        for other in passed_over:
            if other != query:
                self._passed_over[other] = self._passed_over.get(other, 0) + 1
        return event

    def run(self, event: BatchStarted, now_seconds: float, due: bool = True) -> None:
        """A batch runs from now on, asked for or not: it has its part of the node."""
        self._advance(now_seconds)
        self.running[event.query] = Turn(event.batch, max(1, event.tasks), now_seconds, due=due)
        if len(self.running) > 1:
            for turn in self.running.values():
                turn.alone = False

    def end(self, query: str, now_seconds: float) -> Turn | None:
        """A turn is over; None when the query had none."""
        self._advance(now_seconds)
        return self.running.pop(query, None)

    def forget(self, query: str, now_seconds: float) -> None:
        """The query has gone."""
        self.end(query, now_seconds)
        self.waiting.pop(query, None)
        self.due_at.pop(query, None)
        self._passed_over.pop(query, None)

    def _advance(self, now_seconds: float) -> None:
        elapsed = max(0.0, now_seconds - self._now_seconds)
        self._now_seconds = max(now_seconds, self._now_seconds)
        for turn in self.running.values():
            turn.node_seconds += elapsed / len(self.running)


def as_of(event: BatchStarted, now_seconds: float, rate_per_second: float) -> BatchStarted:
    """What waits when the turn comes: more has arrived, and all of it is older.

    >>> asked = BatchStarted(10.0, "alerts", 1, {"orders": 100}, 1.0)
    >>> later = as_of(asked, 12.0, 50.0)
    >>> dict(later.waiting), later.waiting_age_seconds
    ({'orders': 200}, 2.0)
    """
    elapsed = now_seconds - event.time_seconds
    if elapsed <= 0.0:
        return event
    total, fresh = sum(event.waiting.values()), rate_per_second * elapsed
    age = event.waiting_age_seconds
    if total <= 0:  # nothing was expected to wait; it may have come all the same
        each = round(fresh / max(1, len(event.waiting)))
        waiting = dict.fromkeys(event.waiting, each)
        age = None if age is None else age + elapsed / 2.0
    else:
        factor = (total + fresh) / total
        waiting = {gate: round(count * factor) for gate, count in event.waiting.items()}
        if age is not None:
            age = (total * (age + elapsed) + fresh * elapsed / 2.0) / (total + fresh)
    return replace(event, time_seconds=now_seconds, waiting=waiting, waiting_age_seconds=age)
