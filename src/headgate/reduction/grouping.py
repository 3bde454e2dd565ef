"""Rows group by group: sorting, ranks, keys of two attributes, and bounded memory.

Shared by the filters that look at a queue as a whole. Everything is vectorised over
rows; where a state crosses packings there is one step in Python for each group that
occurs in the queue, never for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.columns import Keys
from headgate.reduction.contract import MAX_REMEMBERED, State
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import key_of

__all__ = [
    "NO_GROUP",
    "PairKeys",
    "Segments",
    "first_at_least",
    "group_labels",
    "orbit",
    "pair_label",
    "pair_labels",
    "read_groups",
    "read_pairs",
    "remembered",
    "running_maximum",
    "segments",
]

Rows: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

NO_GROUP = ""


def group_labels(queue: EventQueue, group: str | None) -> Sequence[str | None]:
    """The group of every event; None where it is not known."""
    if group is None:
        return [NO_GROUP] * len(queue)
    return [key_of(value) for value in queue.values(group)]


def pair_label(group: str, value: str) -> str:
    """One text for a group and a value; different pairs have different texts."""
    return value if group == NO_GROUP else f"{len(group)}:{group}{value}"


def pair_labels(queue: EventQueue, group: str | None, attribute: str) -> list[str | None]:
    """A key of group and attribute for every event; None where either is not known."""
    groups = group_labels(queue, group)
    keys = (key_of(value) for value in queue.values(attribute))
    return [
        None if g is None or key is None else pair_label(g, key)
        for g, key in zip(groups, keys, strict=True)
    ]


def remembered(old: State, updates: Iterable[tuple[str, Any]]) -> State:
    """The old state with `updates` as its newest keys; the oldest beyond the limit go.

    >>> remembered({"a": 1, "b": 2}, [("a", 3)])
    {'b': 2, 'a': 3}
    """
    state = dict(old)
    for key, value in updates:
        state.pop(key, None)
        state[key] = value
    return dict(list(state.items())[-MAX_REMEMBERED:])


class PairKeys:
    """Codes of (group, value); labels only for the codes that are asked for."""

    def __init__(self, groups: Keys | None, values: Keys) -> None:
        self._groups, self._values = groups, values
        if groups is None:
            self.codes, self.size = values.codes, values.size
        else:
            both = (groups.codes >= 0) & (values.codes >= 0)
            self.codes = np.where(both, groups.codes * values.size + values.codes, -1)
            self.size = groups.size * values.size

    @property
    def known(self) -> Mask:
        return self.codes >= 0

    def labels(self, codes: Rows) -> list[str]:
        if self._groups is None:
            return self._values.labels(codes)
        groups, values = np.divmod(codes, max(self._values.size, 1))
        pairs = zip(self._groups.labels(groups), self._values.labels(values), strict=True)
        return [pair_label(group, value) for group, value in pairs]


class _OneGroup:
    """Everything is one group."""

    def __init__(self, rows: int) -> None:
        self.codes = np.zeros(rows, np.int64)
        self.size = 1

    @property
    def known(self) -> Mask:
        return np.ones(len(self.codes), np.bool_)

    def labels(self, codes: Rows) -> list[str]:
        return [NO_GROUP] * len(codes)


Grouped: TypeAlias = Keys | PairKeys | _OneGroup


def read_groups(queue: ColumnQueue, group: str | None) -> Grouped:
    return _OneGroup(len(queue)) if group is None else queue.keys(group)


def read_pairs(queue: ColumnQueue, group: str | None, attribute: str) -> PairKeys:
    return PairKeys(None if group is None else queue.keys(group), queue.keys(attribute))


@dataclass(frozen=True)
class Segments:
    """The judged rows, group after group, in arrival order within each.

    order:  row numbers.
    begins: where in `order` each group begins.
    """

    order: Rows
    begins: Rows
    groups: Grouped

    @cached_property
    def lengths(self) -> Rows:
        return np.diff(self.begins, append=len(self.order))

    @cached_property
    def segment(self) -> Rows:
        """The number of the group, for each place in `order`."""
        return np.repeat(np.arange(len(self.begins)), self.lengths)

    @cached_property
    def ranks(self) -> Rows:
        """0 for the first of its group, and so on."""
        return np.arange(len(self.order)) - np.repeat(self.begins, self.lengths)

    @cached_property
    def ends(self) -> Rows:
        """Where the group ends (one beyond), for each place in `order`."""
        return np.repeat(self.begins + self.lengths, self.lengths)

    def labels(self) -> list[str]:
        """The label of each group."""
        return self.groups.labels(self.groups.codes[self.order[self.begins]])

    def by_last_row(self) -> list[int]:
        """The groups in the order in which they were last seen."""
        order: list[int] = np.argsort(self.order[self.begins + self.lengths - 1]).tolist()
        return order

    def scatter(self, chosen: Mask, rows: int) -> Mask:
        """A mask over rows from a mask over places in `order`."""
        mask = np.zeros(rows, np.bool_)
        mask[self.order[chosen]] = True
        return mask

    def updates(self, labels: Sequence[str], values: Sequence[Any]) -> list[tuple[str, Any]]:
        return [(labels[segment], values[segment]) for segment in self.by_last_row()]


def segments(groups: Grouped, judged: Mask) -> Segments:
    """Cost: a stable sort; none where all rows are one group."""
    rows = np.flatnonzero(judged)
    if isinstance(groups, _OneGroup):
        return Segments(rows, np.zeros(min(1, len(rows)), np.int64), groups)
    codes = groups.codes[rows]
    small = codes.astype(np.uint16) if groups.size <= 1 << 16 else codes  # radix sort
    order = np.argsort(small, kind="stable")
    codes = codes[order]
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    return Segments(rows[order], begins, groups)


def running_maximum(values: Floats, segment: Rows) -> Floats:
    """The largest value so far within each segment; `segment` must not decrease."""
    falls = (np.diff(values) < 0.0) & (np.diff(segment) == 0)
    if not falls.any():
        return values
    levels, ranks = np.unique(values, return_inverse=True)
    lifted = np.maximum.accumulate(ranks + segment * len(levels))
    return np.asarray(levels[lifted - segment * len(levels)], np.float64)


def first_at_least(values: Floats, targets: Floats, ends: Rows) -> Rows:
    """For each place i the first j > i, below ends[i], with values[j] >= targets[i].

    `values` must not decrease from i to its end. ends[i] where there is none.
    """
    low, high = np.arange(1, len(values) + 1), ends.copy()
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = np.where(open_, (low + high) // 2, 0)
        reached = values[middle] >= targets
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle + 1, low)


def orbit(starts: Rows, following: Rows, ends: Rows) -> Mask:
    """The places reached from `starts` by following the pointers, by doubling.

    following[i] > i; a pointer at its segment's end leads nowhere. Cost: n log n at most.
    """
    count = len(following)
    pointers = np.append(np.where(following < ends, following, count), count)
    reached = np.zeros(count + 1, np.bool_)
    reached[starts] = True
    before = -1
    total = int(reached.sum())
    while total != before:
        reached[pointers[np.flatnonzero(reached)]] = True
        pointers = pointers[pointers]
        before, total = total, int(reached.sum())
    return reached[:count]
