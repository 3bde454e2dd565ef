"""TOP_K: selects the events with the largest (or smallest) values of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import group_labels, read_groups, segments
from headgate.reduction.parameters import ATTRIBUTE, COUNT, choice, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, number_of

__all__ = ["TopK"]


@dataclass(frozen=True, slots=True)
class TopK(Filter):
    """The `count` largest numbers of each group; of equal numbers the earlier. No state.

    Those that stay keep their arrival order. Cost: a sort.
    """

    name: ClassVar[str] = "TOP_K"

    attribute: str | None = parameter(ATTRIBUTE, None)
    count: int = parameter(COUNT)
    order: str = parameter(choice("largest", "smallest"), "largest")
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        del context
        sign = -1.0 if self.order == "largest" else 1.0
        members: dict[str, list[tuple[float, int]]] = {}
        judged, selected = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        groups = group_labels(queue, self.group)
        values = queue.values(self.attribute or "")
        for row, (group, value) in enumerate(zip(groups, values, strict=True)):
            number = number_of(value)
            if group is not None and number is not None:
                judged[row] = True
                members.setdefault(group, []).append((sign * number, row))
        for ranked in members.values():
            selected[[row for _, row in sorted(ranked)[: self.count]]] = True
        return Verdict(selected, judged, ~judged)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        del context
        sign = -1.0 if self.order == "largest" else 1.0
        numbers = queue.numbers(self.attribute or "")
        groups = read_groups(queue, self.group)
        judged = numbers.known & groups.known
        parts = segments(groups, judged)
        best = np.lexsort((sign * numbers.values[parts.order], parts.segment))
        selected = np.zeros(len(queue), np.bool_)
        selected[parts.order[best[parts.ranks < self.count]]] = True
        return Verdict(selected, judged, ~judged)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        needed = {self.group: ANY_SCALAR} if self.group else {}
        number = frozenset({Kind.NUMBER, Kind.TIME})
        return needed | ({self.attribute: number} if self.attribute else {})
