"""A bounded queue of events in front of one server, reduced by a policy when it is full.

What a policy does depends on the values of the events, so this simulation carries the
events themselves, where the others only count tuples. One queue, one server that takes
the oldest event, virtual time. When an event finds the queue full, a packer makes room;
without a packer that event is lost (drop-tail).

    run_queue(events, limit_events=100, serve=link, packer=TurnaroundPacker(policy))

Packers: `TurnaroundPacker` uses the paper's ladder, `BudgetPacker` ours. Both apply the
filters to the queue on its own, without state, since survivors are packed again (PACK,
section 4).

Guarantees: offered = served + lost + waiting; the queue never holds more than its limit;
the same arguments give the same trace. An event is in service only after it left the
queue, so no packing can drop it. Cost: the packings, and O(1) for each event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from headgate.reduction import (
    BudgetLadder,
    BudgetLadderSettings,
    Packing,
    PackingRequest,
    Policy,
    TurnaroundLadder,
    TurnaroundSettings,
    make_room,
    reduce_to_budget,
)
from headgate.reduction.values import Event

__all__ = ["BudgetPacker", "PackedAt", "Packer", "QueueTrace", "TurnaroundPacker", "run_queue"]

Serve: TypeAlias = Callable[[Event, float], float]
"""How many seconds the server needs for an event that it begins at a time."""

_SALTS_PER_SEED = 1_000_000


class Packer(ABC):
    """Reduces a full queue. Every packing has a salt of its own."""

    def __init__(self, policy: Policy, seed: int = 0) -> None:
        self.policy = policy
        self._next_salt = seed * _SALTS_PER_SEED

    def pack(self, queue: list[Event], now_seconds: float) -> Packing:
        request = PackingRequest(salt=self._next_salt)
        self._next_salt += 1
        return self._packed(queue, now_seconds, request)

    @abstractmethod
    def _packed(self, queue: list[Event], now: float, request: PackingRequest) -> Packing: ...


class TurnaroundPacker(Packer):
    """The paper's: the level by the time since the packing before."""

    def __init__(
        self,
        policy: Policy,
        settings: TurnaroundSettings = TurnaroundSettings(),  # noqa: B008 (frozen)
        seed: int = 0,
    ) -> None:
        super().__init__(policy, seed)
        self._ladder = TurnaroundLadder(len(policy.levels), settings)

    def _packed(self, queue: list[Event], now: float, request: PackingRequest) -> Packing:
        return make_room(queue, self.policy, self._ladder.choose(now), request)


class BudgetPacker(Packer):
    """Ours: down to a number of events, at the lowest level that is expected to do it."""

    def __init__(
        self,
        policy: Policy,
        budget_events: int,
        settings: BudgetLadderSettings = BudgetLadderSettings(),  # noqa: B008 (frozen)
        seed: int = 0,
    ) -> None:
        super().__init__(policy, seed)
        self._budget_events = budget_events
        self._ladder = BudgetLadder(len(policy.levels), settings)

    def _packed(self, queue: list[Event], now: float, request: PackingRequest) -> Packing:
        del now
        level = self._ladder.choose(len(queue), self._budget_events)
        packing = reduce_to_budget(queue, self.policy, self._budget_events, level, request)
        self._ladder.observe(packing)
        return packing


@dataclass(frozen=True, slots=True)
class PackedAt:
    """One packing, and how long after the one before it came (None for the first)."""

    seconds: float
    turnaround_seconds: float | None
    packing: Packing

    @property
    def dropped_share(self) -> float:
        return self.packing.dropped / self.packing.offered


@dataclass
class QueueTrace:
    """What happened.

    served:       for every event served the time it was done and its latency.
    busy_seconds: how long the server worked.
    """

    served: list[tuple[float, float]] = field(default_factory=list)
    packings: list[PackedAt] = field(default_factory=list)
    offered: int = 0
    lost: int = 0
    waiting: int = 0
    busy_seconds: float = 0.0

    def latencies(self, after_seconds: float = 0.0) -> list[float]:
        return [latency for time, latency in self.served if time >= after_seconds]

    def level_counts(self) -> Counter[int]:
        return Counter(packed.packing.level for packed in self.packings)

    def level_share(self, level: int) -> float:
        return self.level_counts()[level] / max(1, len(self.packings))


def run_queue(
    arrivals: Iterable[tuple[float, Event]],
    limit_events: int,
    serve: Serve,
    packer: Packer | None = None,
) -> QueueTrace:
    """Every arrival (time in seconds, event), in order, through the queue and the server.

    The run ends with the last arrival; what is then in the queue or in service waits.
    """
    run = _Run(QueueTrace(), limit_events, serve, packer)
    for now, event in arrivals:
        run.serve_until(now)
        run.arrive(now, event)
    run.trace.waiting = len(run.queue) + (run.in_service is not None)
    return run.trace


@dataclass
class _Run:
    trace: QueueTrace
    limit_events: int
    serve: Serve
    packer: Packer | None
    queue: deque[tuple[float, Event]] = field(default_factory=deque)
    in_service: tuple[float, float] | None = None  # done at, arrived at
    free_seconds: float = 0.0

    def serve_until(self, now: float) -> None:
        while True:
            if self.in_service is not None:
                done, arrived = self.in_service
                if done > now:
                    return
                self.trace.served.append((done, done - arrived))
                self.in_service, self.free_seconds = None, done
            if not self.queue:
                return
            self._begin()

    def _begin(self) -> None:
        arrived, event = self.queue.popleft()
        start = max(self.free_seconds, arrived)
        seconds = self.serve(event, start)
        self.trace.busy_seconds += seconds
        self.in_service = (start + seconds, arrived)

    def arrive(self, now: float, event: Event) -> None:
        self.trace.offered += 1
        if len(self.queue) >= self.limit_events and not self._made_room(now):
            self.trace.lost += 1
            return
        self.queue.append((now, event))
        if self.in_service is None:
            self._begin()

    def _made_room(self, now: float) -> bool:
        if self.packer is None:
            return False
        waiting = list(self.queue)
        packing = self.packer.pack([event for _, event in waiting], now)
        self.queue = deque(waiting[row] for row in packing.kept_rows.tolist())
        packings = self.trace.packings
        turnaround = now - packings[-1].seconds if packings else None
        packings.append(PackedAt(now, turnaround, packing))
        self.trace.lost += packing.dropped
        return len(self.queue) < self.limit_events
