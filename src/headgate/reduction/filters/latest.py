"""LATEST: selects the last events of the queue. PACK, section 2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import group_labels, read_groups, segments
from headgate.reduction.parameters import ATTRIBUTE, COUNT, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind

__all__ = ["Latest"]


@dataclass(frozen=True, slots=True)
class Latest(Filter):
    """The last `window` events, of each group if one is given. No state."""

    name: ClassVar[str] = "LATEST"

    window: int = parameter(COUNT)
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        del context
        groups = group_labels(queue, self.group)
        behind: Counter[str] = Counter()
        selected, judged = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        for row in range(len(queue) - 1, -1, -1):
            group = groups[row]
            if group is not None:
                judged[row] = True
                selected[row] = behind[group] < self.window
                behind[group] += 1
        return Verdict(selected, judged, ~judged)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        del context
        groups = read_groups(queue, self.group)
        parts = segments(groups, groups.known)
        late = parts.ends - np.arange(len(parts.order)) <= self.window
        return Verdict(parts.scatter(late, len(queue)), groups.known, ~groups.known)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.group: ANY_SCALAR} if self.group else {}
