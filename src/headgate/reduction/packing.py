"""Reduce a queue by a policy: what stays, the digest of what goes, and counts.

Three ways to ask, one mechanism:

- `reduce_to_level`: apply the filters up to a level, no more and no less;
- `reduce_to_budget`: at most so many events stay. Goes up the levels until they fit, or
  applies just the level that a ladder chose; what is still too much goes at random;
- `make_room`: the paper's packing of a full queue (PACK, sections 4 and 5). Something
  must go: if the level drops nothing, the levels above are tried, and if no level helps
  everything is dropped.

Guarantees: what stays keeps its arrival order; offered = kept + dropped; every dropped
event is counted in the digest; the same queue, policy, level, salt, time and state give
the same packing, from plain events and from an Arrow batch alike. Nothing is changed in
place. Not guaranteed: that a second packing with state sees an event twice and still
decides alike: state is for callers that offer each event once.

Cost: each filter once over the queue, each digest once over what goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.errors import UsageError
from headgate.reduction.columns import Hashed, hash_of
from headgate.reduction.contract import EMPTY_STATE, Context, State
from headgate.reduction.hashing import hash_longs
from headgate.reduction.policy import Policy
from headgate.reduction.queues import ColumnQueue, Queue, as_queue
from headgate.reduction.summary import Digest, digest_of

__all__ = [
    "FilterCount",
    "Packing",
    "PackingRequest",
    "PackingState",
    "make_room",
    "reduce_to_budget",
    "reduce_to_level",
]

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.int64]
PackingState: TypeAlias = Mapping[str, State]
"""What the filters of a policy remember: JSON, by "level.place". Start with {}."""

_REST_SEED = 0x4EAD6A7E  # the rest goes by another hash than RANDOM's


@dataclass(frozen=True, slots=True)
class FilterCount:
    """One filter of one packing. Of the `odd` events none was dropped by this filter."""

    level: int
    name: str
    offered: int
    dropped: int
    odd: int


@dataclass(frozen=True, slots=True)
class Packing:
    """What became of a queue.

    level:      the highest level that was applied; 0 if none was.
    kept:       a list of events or a record batch, as the queue was.
    kept_rows:  the rows that stay, in arrival order.
    at_random:  how many of the dropped went at random because they did not fit.
    worst_case: True if no level helped and everything was dropped.
    state:      what to give to the next packing; None if none was given to this one.
    """

    level: int
    kept: Any
    kept_rows: Rows
    offered: int
    digest: Digest
    counts: tuple[FilterCount, ...]
    at_random: int = 0
    worst_case: bool = False
    state: PackingState | None = None

    @property
    def dropped(self) -> int:
        return self.offered - len(self.kept_rows)

    def keep_ratios(self) -> list[float]:
        """The share of the queue that was left after each level that was applied."""
        left, ratios = self.offered, [1.0] * self.level
        for count in self.counts:
            left -= count.dropped
            ratios[count.level - 1] = left / self.offered if self.offered else 1.0
        return ratios


@dataclass(frozen=True, slots=True)
class PackingRequest:
    """What a packing may know besides queue and policy; see `contract.Context`."""

    salt: int = 0
    now_seconds: float | None = None
    state: PackingState | None = None


_PLAIN = PackingRequest()


def reduce_to_level(
    events: Any, policy: Policy, level: int, request: PackingRequest = _PLAIN
) -> Packing:
    """What the filters of levels 1 to `level` leave of the queue; level 0 leaves all."""
    run = _Run(as_queue(events), policy, request)
    run.climb(_checked(policy, level))
    return run.packing()


def reduce_to_budget(
    events: Any,
    policy: Policy,
    budget_events: int,
    level: int | None = None,
    request: PackingRequest = _PLAIN,
) -> Packing:
    """At most `budget_events` stay.

    Without a level, the lowest level that suffices is used; a queue within its budget is
    left alone. With a level, that level is applied whatever the size of the queue. Of
    what is still too much the rest goes at random, by the hash of the policy's identity
    attribute (of the position where there is none) and the salt.
    """
    if budget_events < 0:
        raise UsageError(f"a budget is at least 0 events, got {budget_events}")
    run = _Run(as_queue(events), policy, request)
    if level is not None:
        run.climb(_checked(policy, level))
    while level is None and run.left > budget_events and run.level < len(policy.levels):
        run.climb(run.level + 1)
    run.drop_at_random(budget_events)
    return run.packing()


def make_room(events: Any, policy: Policy, level: int, request: PackingRequest = _PLAIN) -> Packing:
    """The paper's packing: something goes, if need be everything. The queue is not empty."""
    run = _Run(as_queue(events), policy, request)
    run.climb(_checked(policy, level))
    while run.left == run.offered and run.level < len(policy.levels):
        run.climb(run.level + 1)
    if run.left == run.offered:
        run.drop_everything()
    return run.packing()


def _checked(policy: Policy, level: int) -> int:
    if not 0 <= level <= len(policy.levels):
        raise UsageError(
            f"the policy {policy.name!r} has levels 1 to {len(policy.levels)}, not {level}; "
            "0 leaves everything"
        )
    return level


@dataclass
class _Run:
    """One packing in progress."""

    queue: Queue
    policy: Policy
    request: PackingRequest
    level: int = 0
    at_random: int = 0
    worst_case: bool = False
    counts: list[FilterCount] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.offered = len(self.queue)
        self.left = self.offered
        self.alive = np.ones(self.offered, np.bool_)
        given = self.request.state
        self.state = None if given is None else dict(given)

    def climb(self, level: int) -> None:
        """Apply the levels above the present one, up to `level`."""
        for number in range(self.level + 1, level + 1):
            for place in range(len(self.policy.levels[number - 1])):
                self._apply(number, place)
        self.level = max(self.level, level)

    def _apply(self, level: int, place: int) -> None:
        filter_ = self.policy.levels[level - 1][place]
        name = f"{level}.{place + 1}"
        state = None if self.state is None else self.state.get(name, EMPTY_STATE)
        context = Context(self.request.salt, self.request.now_seconds, state)
        before = self.left
        many = 2 * before > self.offered
        if before == self.offered or (filter_.row_wise and (many or filter_.needs_whole_queue)):
            selection = filter_.select(self.queue, context)
            odd = int(np.count_nonzero(selection.odd & self.alive))
            self.alive &= selection.keep
        else:
            rows = np.flatnonzero(self.alive)
            selection = filter_.select(self.queue.take(rows), context)
            odd = int(np.count_nonzero(selection.odd))
            self.alive[rows] = selection.keep
        self.left = int(np.count_nonzero(self.alive))
        self.counts.append(FilterCount(level, filter_.name, before, before - self.left, odd))
        if self.state is not None and selection.state:
            self.state[name] = dict(selection.state)

    def drop_at_random(self, budget: int) -> None:
        if self.left <= budget:
            return
        rows = np.flatnonzero(self.alive)
        order = np.argsort(self._draws()[rows], kind="stable")
        self.alive[rows[order[budget:]]] = False
        self.at_random = self.left - budget
        self.left = budget

    def drop_everything(self) -> None:
        self.alive[:] = False
        self.left, self.worst_case = 0, True

    def _draws(self) -> NDArray[np.uint64]:
        """A number for each row that depends on its identity and the salt only."""
        draws = hash_longs(np.arange(self.offered))
        if self.policy.identity is not None:
            read = _hashes(self.queue, self.policy.identity)
            draws = np.where(read.known, read.values, draws)
        salt = (self.request.salt ^ _REST_SEED) & ((1 << 63) - 1)
        return hash_longs(np.full(self.offered, salt, np.int64), draws)

    def packing(self) -> Packing:
        rows = np.flatnonzero(self.alive)
        gone = np.flatnonzero(~self.alive)
        whole = len(rows) == self.offered
        return Packing(
            self.level,
            self.queue.content() if whole else self.queue.take(rows).content(),
            rows,
            self.offered,
            digest_of(self.policy.digests, self.queue.take(gone)),
            tuple(self.counts),
            self.at_random,
            self.worst_case,
            self.state,
        )


def _hashes(queue: Queue, attribute: str) -> Hashed:
    if isinstance(queue, ColumnQueue):
        return queue.hashes(attribute)
    read = [hash_of(value) for value in queue.values(attribute)]
    known = np.array([value is not None for value in read], np.bool_)
    return Hashed(np.array([value or 0 for value in read], np.uint64), known)
