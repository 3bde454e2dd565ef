"""DELTA: selects events whose value has changed by at least `change`. PACK, section 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.contract import ANY_SCALAR, Context, Filter, State, Verdict
from headgate.reduction.grouping import (
    Segments,
    group_labels,
    orbit,
    read_groups,
    remembered,
    segments,
)
from headgate.reduction.parameters import ATTRIBUTE, CHANGE, choice, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, number_of

__all__ = ["Delta"]

Rows: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

_BLOCK = 1 << 14  # values looked at together by `since: selected`


@dataclass(frozen=True, slots=True)
class Delta(Filter):
    """abs(value - reference) >= `change`, within the group if one is given.

    since: `previous` (default, the paper's section 2) compares with the event before, so
    a slow drift is never selected; `selected` compares with the last selected event, so
    a receiver that gets the selected ones is never off by `change` or more.
    The first event of a group is selected. State: the reference of each group.
    Infinite values cannot be judged. Cost of `selected`: n log n.
    """

    name: ClassVar[str] = "DELTA"

    attribute: str | None = parameter(ATTRIBUTE, None)
    change: float = parameter(CHANGE)
    since: str = parameter(choice("previous", "selected"), "previous")
    group: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        reference = dict(context.state or {})
        selected, judged = np.zeros(len(queue), np.bool_), np.zeros(len(queue), np.bool_)
        groups = group_labels(queue, self.group)
        values = queue.values(self.attribute or "")
        for row, (group, value) in enumerate(zip(groups, values, strict=True)):
            number = number_of(value)
            if group is None or number is None or abs(number) == np.inf:
                continue
            judged[row] = True
            before = reference.pop(group, None)
            changed = before is None or abs(number - before) >= self.change
            selected[row] = changed
            reference[group] = number if changed or self.since == "previous" else before
        state = None if context.state is None else remembered(reference, ())
        return Verdict(selected, judged, ~judged, state)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        numbers = queue.numbers(self.attribute or "")
        groups = read_groups(queue, self.group)
        judged = numbers.known & groups.known & np.isfinite(numbers.values)
        parts = segments(groups, judged)
        values = numbers.values[parts.order]
        before = _references(parts, context.state)
        find = _since_previous if self.since == "previous" else _since_selected
        changed, last = find(parts, values, before, self.change)
        state = context.state
        if state is not None:
            state = remembered(state, parts.updates(parts.labels(), last.tolist()))
        return Verdict(parts.scatter(changed, len(queue)), judged, ~judged, state)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        needed = {self.group: ANY_SCALAR} if self.group else {}
        number = frozenset({Kind.NUMBER, Kind.TIME})
        return needed | ({self.attribute: number} if self.attribute else {})


def _references(parts: Segments, state: State | None) -> Floats:
    """What the first event of each group is compared with; NaN where there is nothing."""
    if not state:
        return np.full(len(parts.begins), np.nan)
    return np.array([state.get(label, np.nan) for label in parts.labels()], np.float64)


def _since_previous(
    parts: Segments, values: Floats, before: Floats, change: float
) -> tuple[Mask, Floats]:
    previous = np.empty(len(values))
    previous[1:] = values[:-1]
    previous[parts.begins] = before
    with np.errstate(over="ignore"):
        changed = ~(np.abs(values - previous) < change)  # true where there is no previous
    return changed, values[parts.begins + parts.lengths - 1]


def _since_selected(
    parts: Segments, values: Floats, before: Floats, change: float
) -> tuple[Mask, Floats]:
    """Block by block, so that memory stays small; a cut group goes on with its reference."""
    changed = np.zeros(len(values), np.bool_)
    last = before.copy()
    for begin in range(0, len(values), _BLOCK):
        end = min(begin + _BLOCK, len(values))
        first, beyond = np.searchsorted(parts.begins, (begin, end))
        if first == len(parts.begins) or parts.begins[first] > begin:
            first -= 1  # the block begins inside a group
        begins = np.maximum(parts.begins[first:beyond], begin) - begin
        changed[begin:end], last[first:beyond] = _selected_in_block(
            begins, values[begin:end], last[first:beyond], change
        )
    return changed, last


def _selected_in_block(
    begins: Rows, values: Floats, before: Floats, change: float
) -> tuple[Mask, Floats]:
    """Put the references in front of their groups, then follow the pointers."""
    given = ~np.isnan(before)
    lengths = np.diff(begins, append=len(values)) + given
    values = np.insert(values, begins[given], before[given])
    begins = begins + np.cumsum(given) - given
    ends = np.repeat(begins + lengths, lengths)
    reached = orbit(begins, _next_change(values, change, ends), ends)
    newest = np.maximum.accumulate(np.where(reached, np.arange(len(values)), 0))
    real = np.ones(len(values), np.bool_)
    real[begins[given]] = False
    return reached[real], values[newest[begins + lengths - 1]]


def _next_change(values: Floats, change: float, ends: Rows) -> Rows:
    """For each i the first j > i with abs(values[j] - values[i]) >= change, else ends[i].

    Skips blocks of 2^k values whose largest and smallest are both too near.
    """
    count = len(values)
    highs, lows = [values], [values]
    size = 1
    while 2 * size < count:
        high, low = highs[-1], lows[-1]
        highs.append(np.maximum(high[: count - 2 * size + 1], high[size : count - size + 1]))
        lows.append(np.minimum(low[: count - 2 * size + 1], low[size : count - size + 1]))
        size *= 2
    at = np.arange(1, count + 1)
    for level in range(len(highs) - 1, -1, -1):
        size = 1 << level
        inside = np.flatnonzero(at + size <= ends)
        here, own = at[inside], values[inside]
        with np.errstate(over="ignore"):
            near = (highs[level][here] - own < change) & (own - lows[level][here] < change)
        at[inside[near]] += size
    return at
