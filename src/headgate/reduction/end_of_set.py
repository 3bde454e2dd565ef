"""Shared by FIRST and LAST: of the events whose value is in a set, one stays per group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.comparing import column_in, kinds_like, value_in
from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import group_labels, read_groups, segments
from headgate.reduction.parameters import ATTRIBUTE, SCALARS, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, Scalar

__all__ = ["EndOfSet"]


@dataclass(frozen=True, slots=True)
class EndOfSet(Filter):
    """Events whose value is not in the set are not concerned and stay.

    latest: does a later event of the group take the place of an earlier one?
    """

    latest: ClassVar[bool]

    attribute: str | None = parameter(ATTRIBUTE, None)
    values: tuple[Scalar, ...] = parameter(SCALARS)
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        del context
        members = frozenset(self.values)
        answers = [value_in(value, members) for value in queue.values(self.attribute or "")]
        judged, odd = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        chosen: dict[str, int] = {}
        groups = group_labels(queue, self.group)
        for row, (member, group) in enumerate(zip(answers, groups, strict=True)):
            if member is None or (member and group is None):
                odd[row] = True
            elif member and group is not None:
                judged[row] = True
                if self.latest or group not in chosen:
                    chosen[group] = row
        selected = np.zeros(len(queue), np.bool_)
        selected[list(chosen.values())] = True
        return Verdict(selected, judged, odd)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        del context
        member, known = column_in(queue, self.attribute or "", self.values)
        groups = read_groups(queue, self.group)
        judged = member & groups.known
        selected = np.zeros(len(queue), np.bool_)
        parts = segments(groups, judged)
        ends = parts.begins + parts.lengths - 1 if self.latest else parts.begins
        selected[parts.order[ends]] = True
        return Verdict(selected, judged, ~known | (member & ~groups.known))

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        needed = {self.group: ANY_SCALAR} if self.group else {}
        return needed | ({self.attribute: kinds_like(self.values[0])} if self.attribute else {})
