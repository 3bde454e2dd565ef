"""Shared by FIRST and LAST: of the events whose value is in a set, one stays per group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.comparing import column_in, kinds_like, value_in
from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import Segments, group_labels, read_groups, segments
from headgate.reduction.parameters import ATTRIBUTE, SCALARS, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, Scalar

__all__ = ["EndOfSet"]

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EndOfSet(Filter):
    """Events whose value is not in the set are not concerned and stay."""

    attribute: str | None = parameter(ATTRIBUTE, None)
    values: tuple[Scalar, ...] = parameter(SCALARS)
    group: str | None = parameter(ATTRIBUTE, None)

    @staticmethod
    @abstractmethod
    def end(parts: Segments) -> Rows:
        """The row that is selected in each group."""

    @staticmethod
    @abstractmethod
    def replaces() -> bool:
        """Does a later event of the group take the place of an earlier one?"""

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
                if self.replaces() or group not in chosen:
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
        selected[self.end(segments(groups, judged))] = True
        return Verdict(selected, judged, ~known | (member & ~groups.known))

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        needed = {self.group: ANY_SCALAR} if self.group else {}
        return needed | ({self.attribute: kinds_like(self.values[0])} if self.attribute else {})
