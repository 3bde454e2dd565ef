"""Try a policy on a sample: what each level would drop, what it costs, what does not fit.

The clock is passed in; nothing here measures time by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.errors import Problem, UsageError
from headgate.reduction.packing import FilterCount, Packing, reduce_to_level
from headgate.reduction.policy import Policy, problems_with
from headgate.reduction.queues import events_to_batch
from headgate.reduction.values import Event, Kind, kind_of

__all__ = ["MAX_SAMPLE", "LevelTrial", "Trial", "read_sample", "try_policy"]

MAX_SAMPLE = 200_000
_LONGEST_LINE = 1_000_000
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class LevelTrial:
    """One level with all below it. The cost is for Arrow batches, filters and digests."""

    level: int
    offered: int
    dropped: int
    counts: tuple[FilterCount, ...]
    microseconds_per_event: float


@dataclass(frozen=True, slots=True)
class Trial:
    """`last_level` is below the number of levels where the next one needs Spark."""

    events: int
    levels: tuple[LevelTrial, ...]
    last_level: int
    digest: dict[str, dict[str, Any]]
    mismatches: tuple[Problem, ...]


def read_sample(lines: Iterable[str], file: str) -> list[Event]:
    """One JSON object a line, at most `MAX_SAMPLE`; empty lines are skipped.

    Raises UsageError with the line of the first one that is no object.
    """
    events: list[Event] = []
    for number, line in enumerate(lines, start=1):
        if len(events) == MAX_SAMPLE:
            break
        if not line.strip():
            continue
        try:
            event = json.loads(line) if len(line) <= _LONGEST_LINE else None
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise UsageError(f'{file}:{number}: expected a JSON object, such as {{"v": 5}}')
        events.append(event)
    if not events:
        raise UsageError(f"{file}: there are no events in the sample")
    return events


def try_policy(policy: Policy, events: Sequence[Event], clock: Callable[[], float]) -> Trial:
    """Every level on the whole sample as one queue. `clock` gives seconds."""
    batch = events_to_batch(events)
    last = _last_level_in_memory(policy)
    levels = []
    packing: Packing = reduce_to_level(batch, policy, 0)
    for level in range(1, last + 1):
        seconds = []
        for _ in range(_ROUNDS):
            start = clock()
            packing = reduce_to_level(batch, policy, level)
            seconds.append(clock() - start)
        cost = 1e6 * min(seconds) / len(events)
        levels.append(LevelTrial(level, len(events), packing.dropped, packing.counts, cost))
    return Trial(
        len(events),
        tuple(levels),
        last,
        packing.digest.results(),
        tuple(problems_with(policy, _kinds(events))),
    )


def _last_level_in_memory(policy: Policy) -> int:
    for level, chain in enumerate(policy.levels):
        if not all(filter_.runs_in_memory for filter_ in chain):
            return level
    return len(policy.levels)


def _kinds(events: Sequence[Event]) -> dict[str, frozenset[Kind]]:
    found: dict[str, set[Kind]] = {}
    for event in events:
        for name, value in event.items():
            kind = kind_of(value)
            found.setdefault(name, set()).update({kind} if kind else ())
    return {name: frozenset(kinds) for name, kinds in found.items()}
