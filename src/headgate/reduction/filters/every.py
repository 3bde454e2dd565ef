"""EVERY: selects one event of every `count`. PACK, section 2.

The paper keeps "only every N events"; its syslog policy "drops one event out of every
three": the sense says which. The first of each `count` is the one selected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import group_labels, read_groups, remembered, segments
from headgate.reduction.parameters import ATTRIBUTE, COUNT, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind

__all__ = ["Every"]


@dataclass(frozen=True, slots=True)
class Every(Filter):
    """Number 1, count + 1, 2 count + 1 ... of each group. State: how many have passed."""

    name: ClassVar[str] = "EVERY"

    count: int = parameter(COUNT)
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        passed = dict(context.state or {})
        selected, judged = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        for row, group in enumerate(group_labels(queue, self.group)):
            if group is not None:
                before = passed.pop(group, 0)
                judged[row] = True
                selected[row] = before == 0
                passed[group] = (before + 1) % self.count
        state = None if context.state is None else remembered(passed, ())
        return Verdict(selected, judged, ~judged, state)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        groups = read_groups(queue, self.group)
        parts = segments(groups, groups.known)
        numbers = parts.ranks
        state = context.state
        if state is not None:
            labels = parts.labels()
            before = np.array([state.get(label, 0) for label in labels], np.int64)
            numbers = numbers + np.repeat(before, parts.lengths)
            after = (before + parts.lengths) % self.count
            state = remembered(state, parts.updates(labels, after.tolist()))
        chosen = parts.scatter(numbers % self.count == 0, len(queue))
        return Verdict(chosen, groups.known, ~groups.known, state)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.group: ANY_SCALAR} if self.group else {}
