"""RATE_LIMIT: selects at most so many events of each key in each stretch of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import (
    group_labels,
    read_groups,
    remembered,
    running_maximum,
    segments,
)
from headgate.reduction.parameters import ATTRIBUTE, COUNT, SECONDS, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, number_of

__all__ = ["RateLimit"]


@dataclass(frozen=True, slots=True)
class RateLimit(Filter):
    """The first `count` events of each group in each stretch of `per` seconds.

    Stretches begin at multiples of `per`, so up to twice the count can fall into `per`
    seconds across a border. Late events count in the newest stretch of their group.
    Without a group the limit is for all events. State: stretch and events of each group.
    """

    name: ClassVar[str] = "RATE_LIMIT"

    count: int = parameter(COUNT)
    per: float = parameter(SECONDS)
    time: str | None = parameter(ATTRIBUTE, None)
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        state = dict(context.state or {})
        selected, judged = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        groups = group_labels(queue, self.group)
        times = queue.values(self.time or "")
        for row, (group, value) in enumerate(zip(groups, times, strict=True)):
            time = number_of(value)
            if group is None or time is None or not np.isfinite(time / self.per):
                continue
            judged[row] = True
            stretch = float(np.floor(time / self.per))
            newest, used = state.pop(group, (stretch, 0))
            if stretch > newest:
                newest, used = stretch, 0
            selected[row] = used < self.count
            state[group] = [newest, used + 1]
        return Verdict(
            selected, judged, ~judged, None if context.state is None else remembered(state, ())
        )

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        times = queue.numbers(self.time or "")
        groups = read_groups(queue, self.group)
        with np.errstate(over="ignore"):
            stretches = np.floor(times.values / self.per)
        judged = groups.known & times.known & np.isfinite(stretches)
        parts = segments(groups, judged)
        stretches = stretches[parts.order]
        labels = [] if context.state is None else parts.labels()
        before = [(context.state or {}).get(label, (-np.inf, 0)) for label in labels]
        if before:
            newest = np.array([stretch for stretch, _ in before])
            stretches[parts.begins] = np.maximum(stretches[parts.begins], newest)
        stretches = running_maximum(stretches, parts.segment)
        fresh = np.ones(len(stretches), np.bool_)
        fresh[1:] = stretches[1:] != stretches[:-1]
        fresh[parts.begins] = True
        starts = np.flatnonzero(fresh)
        sizes = np.diff(starts, append=len(stretches))
        used = np.zeros(len(starts), np.int64)
        if before:
            firsts = np.searchsorted(starts, parts.begins)
            carried = np.array([count for _, count in before], np.int64)
            used[firsts] = np.where(stretches[parts.begins] == newest, carried, 0)
        numbers = np.arange(len(stretches)) - np.repeat(starts - used, sizes)
        state = context.state
        if state is not None:
            ends = parts.begins + parts.lengths - 1
            pairs = zip(stretches[ends].tolist(), (numbers[ends] + 1).tolist(), strict=True)
            state = remembered(state, parts.updates(labels, [list(pair) for pair in pairs]))
        chosen = parts.scatter(numbers < self.count, len(queue))
        return Verdict(chosen, judged, ~judged, state)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        needed = {self.group: ANY_SCALAR} if self.group else {}
        time = frozenset({Kind.NUMBER, Kind.TIME})
        return needed | ({self.time: time} if self.time else {})

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.time is None:
            yield "time", "missing; name the attribute with the time, here or for the policy"
