"""DEDUPLICATE: selects events whose value was not selected within a time before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import (
    first_at_least,
    orbit,
    pair_labels,
    read_pairs,
    remembered,
    running_maximum,
    segments,
)
from headgate.reduction.parameters import ATTRIBUTE, SECONDS, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, number_of

__all__ = ["Deduplicate"]


@dataclass(frozen=True, slots=True)
class Deduplicate(Filter):
    """At least `within` seconds lie between two selected events of equal value (and group).

    Time is the attribute `time`, in seconds or a timestamp; where it runs backwards it
    counts as standing still. State: when each value was last selected.
    """

    name: ClassVar[str] = "DEDUPLICATE"

    attribute: str | None = parameter(ATTRIBUTE, None)
    within: float = parameter(SECONDS)
    time: str | None = parameter(ATTRIBUTE, None)
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        state = dict(context.state or {})
        clocks: dict[str, float] = {}
        selected, judged = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        labels = pair_labels(queue, self.group, self.attribute or "")
        times = queue.values(self.time or "")
        for row, (label, value) in enumerate(zip(labels, times, strict=True)):
            time = number_of(value)
            if label is None or time is None or abs(time) == np.inf:
                continue
            judged[row] = True
            last = state.pop(label, None)
            clock = max(time, clocks.get(label, time if last is None else last))
            selected[row] = last is None or clock >= last + self.within
            clocks[label] = clock
            state[label] = clock if selected[row] else last
        return Verdict(
            selected, judged, ~judged, None if context.state is None else remembered(state, ())
        )

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        times = queue.numbers(self.time or "")
        pairs = read_pairs(queue, self.group, self.attribute or "")
        judged = pairs.known & times.known & np.isfinite(times.values)
        parts = segments(pairs, judged)
        labels = [] if context.state is None else parts.labels()
        last = np.array([(context.state or {}).get(label, np.nan) for label in labels], np.float64)
        given = ~np.isnan(last) if labels else np.zeros(len(parts.begins), np.bool_)
        # what was last selected stands in front of its group
        clocks = np.insert(times.values[parts.order], parts.begins[given], last[given[: len(last)]])
        lengths = parts.lengths + given
        begins = parts.begins + np.cumsum(given) - given
        ends = np.repeat(begins + lengths, lengths)
        clocks = running_maximum(clocks, np.repeat(np.arange(len(begins)), lengths))
        reached = orbit(begins, first_at_least(clocks, clocks + self.within, ends), ends)
        real = np.ones(len(clocks), np.bool_)
        real[begins[given]] = False
        state = context.state
        if state is not None:
            newest = np.maximum.accumulate(np.where(reached, np.arange(len(clocks)), 0))
            updates = clocks[newest[begins + lengths - 1]].tolist() if labels else []
            state = remembered(state, parts.updates(labels, updates))
        return Verdict(parts.scatter(reached[real], len(queue)), judged, ~judged, state)

    def splits_by(self) -> frozenset[str]:
        return frozenset(name for name in (self.attribute, self.group) if name)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        needed = {name: ANY_SCALAR for name in (self.attribute, self.group) if name}
        time = frozenset({Kind.NUMBER, Kind.TIME})
        return needed | ({self.time: time} if self.time else {})

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.time is None:
            yield "time", "missing; name the attribute with the time, here or for the policy"
