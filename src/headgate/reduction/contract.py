"""What every filter is: it selects events of a queue, and its sense says what that means.

A filter is a frozen dataclass. It selects events; with the sense `keep` the selected
stay and the others go, with the sense `drop` the other way round. What a filter cannot
judge (attribute missing, null, NaN or of another kind) always stays and is counted as
odd. An event that the filter is not about (FIRST on a value outside its set) stays too
and is not odd.

Two forms, one result: `judge_events` over plain events and `judge_columns` over Arrow
columns give the same verdict and the same state for the same data. A third form, over
Spark columns, can stand beside them; `hashing` is Spark's hash for that reason.

State. Without state each queue is reduced on its own, as in the paper: that is right
when a queue is packed again with survivors in it. With state (start with
`EMPTY_STATE`) a filter remembers what went before, for callers that offer each event
once, batch after batch. State is JSON: a dict of plain values, at most `MAX_REMEMBERED`
keys, the longest unseen forgotten first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.parameters import ATTRIBUTE, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue, Queue
from headgate.reduction.values import Kind

__all__ = [
    "ANY_SCALAR",
    "EMPTY_STATE",
    "MAX_REMEMBERED",
    "Context",
    "Filter",
    "RowFilter",
    "Selection",
    "Sense",
    "State",
    "Verdict",
]

Mask: TypeAlias = NDArray[np.bool_]
State: TypeAlias = Mapping[str, Any]

EMPTY_STATE: State = MappingProxyType({})
MAX_REMEMBERED = 10_000  # keys in the state of one filter
ANY_SCALAR = frozenset({Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN, Kind.TIME})


class Sense(StrEnum):
    """What happens to the events that a filter selects."""

    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Context:
    """What a filter may know besides the queue.

    salt:        changes which events RANDOM selects; one number for each packing.
    now_seconds: the present, on the clock of the time attribute; None: the newest event.
    state:       what the filter remembered; None: each queue on its own.
    """

    salt: int = 0
    now_seconds: float | None = None
    state: State | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`selected` counts where `judged`; `odd` is how many could not be judged."""

    selected: Mask
    judged: Mask
    odd: Mask
    state: State | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """`keep` says which rows stay; `odd` marks those that could not be judged."""

    keep: Mask
    odd: Mask
    state: State | None


@dataclass(frozen=True, slots=True)
class Filter(ABC):
    """See the module. Subclasses are found by introspection, see `catalogue`.

    row_wise:          the verdict on an event does not depend on the others; what other
                       filters dropped makes no difference.
    needs_whole_queue: row-wise, but the newest time of the whole queue counts.
    """

    name: ClassVar[str]
    row_wise: ClassVar[bool] = False
    runs_in_memory: ClassVar[bool] = True
    needs_whole_queue: ClassVar[bool] = False
    usual_sense: ClassVar[Sense] = Sense.KEEP

    sense: Sense

    @abstractmethod
    def judge_events(self, queue: EventQueue, context: Context) -> Verdict: ...

    @abstractmethod
    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict: ...

    def select(self, queue: Queue, context: Context) -> Selection:
        """Which rows stay."""
        if isinstance(queue, ColumnQueue):
            verdict = self.judge_columns(queue, context)
        else:
            verdict = self.judge_events(queue, context)
        if self.sense is Sense.KEEP:
            keep = verdict.selected | ~verdict.judged
        else:
            keep = ~(verdict.selected & verdict.judged)
        return Selection(keep, verdict.odd, verdict.state)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        """The attributes that the filter looks at, with the kinds it can judge."""
        return {}

    def splits_by(self) -> frozenset[str]:
        """Attributes by whose values a queue can be cut without changing any verdict.

        Each part keeps its arrival order and has its own state. For row-wise filters
        every cut will do and this says nothing.
        """
        group = getattr(self, "group", None)
        return frozenset() if group is None else frozenset({group})

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with parameters that are each right alone: (parameter, message)."""
        yield from ()


@dataclass(frozen=True, slots=True)
class RowFilter(Filter):
    """A filter that looks at one attribute of one event at a time; it has no state."""

    row_wise: ClassVar[bool] = True
    kinds: ClassVar[frozenset[Kind]] = ANY_SCALAR

    attribute: str | None = parameter(ATTRIBUTE, None)

    @abstractmethod
    def test_value(self, value: Any) -> bool | None:
        """Is the event selected? None: cannot be judged."""

    @abstractmethod
    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        """Which rows are selected, and which can be judged."""

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        del context
        answers = self.test_values(queue.values(self.attribute or ""))
        known = np.array([answer is not None for answer in answers], np.bool_)
        return Verdict(np.array([bool(answer) for answer in answers], np.bool_), known, ~known)

    def test_values(self, values: Sequence[Any]) -> list[bool | None]:
        return [self.test_value(value) for value in values]

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        del context
        selected, known = self.test_column(queue)
        return Verdict(selected, known, ~known)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.attribute: self.kinds} if self.attribute else {}
