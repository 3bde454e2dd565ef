"""UNIQ: selects events whose value differs from the one before. PACK, section 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import (
    group_labels,
    read_groups,
    remembered,
    segments,
)
from headgate.reduction.parameters import ATTRIBUTE, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, key_of

__all__ = ["Uniq"]


@dataclass(frozen=True, slots=True)
class Uniq(Filter):
    """The first of each run of equal values; runs within the group if one is given.

    State: the last value of each group.
    """

    name: ClassVar[str] = "UNIQ"

    attribute: str | None = parameter(ATTRIBUTE, None)
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        groups = group_labels(queue, self.group)
        keys = [key_of(value) for value in queue.values(self.attribute or "")]
        last = dict(context.state or {})
        selected, judged = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        for row, (group, key) in enumerate(zip(groups, keys, strict=True)):
            if group is None or key is None:
                continue
            judged[row] = True
            selected[row] = last.pop(group, None) != key
            last[group] = key
        state = None if context.state is None else remembered(last, ())
        return Verdict(selected, judged, ~judged, state)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        groups, keys = read_groups(queue, self.group), queue.keys(self.attribute or "")
        judged = groups.known & keys.known
        parts = segments(groups, judged)
        codes = keys.codes[parts.order]
        changed = np.ones(len(codes), np.bool_)
        changed[1:] = codes[1:] != codes[:-1]
        changed[parts.begins] = True
        state = None
        if context.state is not None:
            labels = parts.labels()
            first = keys.labels(codes[parts.begins])
            before = [context.state.get(label) for label in labels]
            changed[parts.begins] = [b != f for b, f in zip(before, first, strict=True)]
            last = keys.labels(codes[parts.begins + parts.lengths - 1])
            state = remembered(context.state, parts.updates(labels, last))
        return Verdict(parts.scatter(changed, len(queue)), judged, ~judged, state)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {name: ANY_SCALAR for name in (self.attribute, self.group) if name}
