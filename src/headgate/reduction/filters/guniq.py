"""GUNIQ: selects the first event of each value, adjacent or not. PACK, section 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.grouping import PairKeys, pair_labels, read_pairs, remembered
from headgate.reduction.parameters import ATTRIBUTE, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind

__all__ = ["Guniq"]

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Guniq(Filter):
    """The first event of each value, within the group if one is given.

    State: the values seen, in the order of first sight; the oldest are forgotten first.
    """

    name: ClassVar[str] = "GUNIQ"

    attribute: str | None = parameter(ATTRIBUTE, None)
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        labels = pair_labels(queue, self.group, self.attribute or "")
        seen = dict(context.state or {})
        selected = np.zeros(len(queue), np.bool_)
        for row, label in enumerate(labels):
            if label is not None and label not in seen:
                selected[row] = True
                seen[label] = 1
        judged = np.array([label is not None for label in labels], np.bool_)
        state = None if context.state is None else remembered(seen, ())
        return Verdict(selected, judged, ~judged, state)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        pairs = read_pairs(queue, self.group, self.attribute or "")
        first = _first_rows(pairs)
        state = None
        if context.state is not None:
            seen = context.state
            labels = pairs.labels(pairs.codes[first])
            new = np.array([label not in seen for label in labels], np.bool_)
            first = first[new]
            state = remembered(seen, ((label, 1) for label in labels if label not in seen))
        selected = np.zeros(len(queue), np.bool_)
        selected[first] = True
        return Verdict(selected, pairs.known, ~pairs.known, state)

    def splits_by(self) -> frozenset[str]:
        return frozenset(name for name in (self.attribute, self.group) if name)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {name: ANY_SCALAR for name in (self.attribute, self.group) if name}


def _first_rows(pairs: PairKeys) -> Rows:
    """The first row of each code, in the order of rows."""
    rows = np.flatnonzero(pairs.known)
    codes = pairs.codes[rows]
    if pairs.size > 4 * len(rows) + 1024:  # too many pairs for a table
        return np.sort(rows[np.unique(codes, return_index=True)[1]])
    first = np.full(pairs.size, -1, np.int64)
    first[codes[::-1]] = rows[::-1]  # of equal codes the last assignment stands
    return np.sort(first[first >= 0])
