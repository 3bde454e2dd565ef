"""What a receiver still sees when more arrives than it can take: events in, survivors out.

Events come in batches, as at a gate on Spark. Of each batch at most a fraction stays: by
a policy, at the lowest level that suffices, or at random. Every event is offered once, so
the filters remember what went before from batch to batch. A batch is delivered when it
ends; what comes out carries that time.

The budget is the same in both ways. A policy may leave less than its budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from headgate.reduction import PackingRequest, Policy, reduce_to_budget
from headgate.reduction.values import Event

__all__ = ["Delivered", "deliver"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The survivors of one batch, delivered at `seconds`; `level` is 0 where chance chose."""

    seconds: float
    events: list[Event]
    offered: int
    level: int
    at_random: int
    digest: dict[str, dict[str, Any]]


def deliver(
    events: Sequence[Event],
    policy: Policy,
    keep_fraction: float,
    batch_seconds: float,
    *,
    at_random: bool = False,
    seed: int = 1,
) -> Iterator[Delivered]:
    """Batch by batch; `events` are in the order of their `time`, in seconds."""
    state: Any = {}
    batches = groupby(events, key=lambda event: int(float(event["time"]) // batch_seconds))
    for number, group in batches:
        batch = list(group)
        end = (number + 1) * batch_seconds
        packing = reduce_to_budget(
            batch,
            policy,
            int(keep_fraction * len(batch)),
            0 if at_random else None,
            PackingRequest(seed * 1_000_000 + number, end, state),
        )
        state = packing.state
        yield Delivered(
            end,
            list(packing.kept),
            packing.offered,
            packing.level,
            packing.at_random,
            packing.digest.results(),
        )
