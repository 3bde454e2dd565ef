"""One running query as the agent sees it: its gates' live arrays and what it last reported.

All methods are called with `lock` held. Memory is bounded: reasons of the last batches.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headgate.spark.decision import EVERYTHING, GateDecision
from headgate.spark.progress import BatchReport
from headgate.spark.row_choice import AT_RANDOM, RowChoice
from headgate.spark.window_drop import WindowMemory
from headgate.spark.window_watch import WindowWatch

__all__ = ["GateArray", "QueryHandle", "QueryRun"]

_REMEMBER_BATCHES = 256


class GateArray(Protocol):
    """Where salt and threshold of one gate stand (`LiveArray`; a list in tests)."""

    def set(self, values: tuple[int, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class QueryHandle:
    """What the agent asks a running query. Each call goes to the JVM."""

    batch: Callable[[], int]
    last_progress: Callable[[], str | None]
    recent_progress: Callable[[], Sequence[str]]


class QueryRun:
    """State of one started query.

    key:          what the companion calls the query.
    finite:       the trigger ends by itself (AvailableNow): nothing is dropped.
    same_tuples:  gates whose salt never changes, so that equal identities share their fate
                  in all batches.
    choices:      which rows the gates drop; at random where nothing is said.
    windows:      what is known of event times; needed by gates that drop whole windows.
    logged:       the newest decision that is known to stand in the offset log.
    """

    def __init__(
        self,
        key: str,
        name: str,
        arrays: Mapping[str, GateArray],
        finite: bool = False,
        same_tuples: frozenset[str] = frozenset(),
        choices: Mapping[str, RowChoice] | None = None,
        windows: WindowWatch | None = None,
    ) -> None:
        self.key, self.name, self.finite = key, name, finite
        self.lock = threading.RLock()
        self.handle: QueryHandle | None = None
        self.query_id = ""
        self.run_id = ""
        self.limits: dict[str, float] = {}
        self.last_report: BatchReport | None = None
        self.reports = 0
        self.target_seconds: float | None = None
        self.asked_batch: int | None = None
        self.answer: Mapping[str, float] = {}
        self.why: OrderedDict[int, Mapping[str, str]] = OrderedDict()
        self.rates: Mapping[str, float] = {}
        self.decision = GateDecision()
        self._arrays = dict(arrays)
        self._same_tuples = same_tuples
        self._applied_for: int | None = None
        self.choices = dict(choices or {})
        self.windows = windows
        self.logged = self.decision

    @property
    def gates(self) -> tuple[str, ...]:
        return tuple(self._arrays)

    def apply(self, decision: GateDecision, batch: int | None) -> None:
        """Set the live arrays for `batch` (None: not known)."""
        for gate, array in self._arrays.items():
            array.set(self._values(gate, decision))
        self.decision = decision
        self._applied_for = batch

    def open(self) -> None:
        """Keep everything until the next decision.

        Whole windows go on as the offset log says: opened, they would be cut in two.
        """
        for gate, array in self._arrays.items():
            whole = self.choices.get(gate, AT_RANDOM).window is not None
            array.set(self._values(gate, self.logged) if whole else (0, EVERYTHING))
        self._applied_for = None

    def expire(self, batch: int) -> None:
        """`batch` is over: its decision stands no longer, so a dead agent drops nothing."""
        if self._applied_for is not None and self._applied_for <= batch:
            self.logged = self.decision
            self.open()

    def next_decision(
        self, start: GateDecision, keep: Mapping[str, float], batch: int
    ) -> GateDecision:
        """The decision after `start` for these shares."""
        if self.windows is None:
            return start.changed_to(keep)
        rows = {gate: share for gate, share in keep.items() if gate not in self.windows}
        return start.changed_to(rows, windows=self.windows.next(start, keep, batch))

    def _values(self, gate: str, decision: GateDecision) -> tuple[int, ...]:
        choice = self.choices.get(gate, AT_RANDOM)
        if choice.window is not None:
            return decision.windows.get(gate, WindowMemory(choice.window)).array()
        fixed = bool(choice.key) or gate in self._same_tuples
        return (0 if fixed else decision.salt, decision.threshold(gate))

    def remember_why(self, batch: int, why: Mapping[str, str]) -> None:
        self.why[batch] = why
        while len(self.why) > _REMEMBER_BATCHES:
            self.why.popitem(last=False)

    def is_new(self, report: BatchReport) -> bool:
        return self.last_report is None or report.batch > self.last_report.batch

    def warm_up_share(self, waiting: Mapping[str, int]) -> float:
        """What the second batch of a run may keep when the first took longer than the target.

        No cost is known yet. As many tuples as the first batch had are known to end.
        """
        first, target = self.last_report, self.target_seconds
        if self.reports != 1 or first is None or target is None:
            return 1.0
        if first.duration_seconds <= target or first.offered == 0:
            return 1.0
        return min(1.0, first.offered / max(1, sum(waiting.values())))

    def waiting(self, now_seconds: float) -> dict[str, int]:
        """How many tuples should be waiting at each gate, from the last known rates."""
        if self.last_report is None:
            return {}
        since = max(0.0, now_seconds - self.last_report.start_seconds)
        return {gate: round(rate * since) for gate, rate in self.rates.items()}

    def waiting_age_seconds(self, now_seconds: float) -> float | None:
        """Mean age of what waits, if it has come evenly since the last batch began."""
        if self.last_report is None:
            return None
        return max(0.0, now_seconds - self.last_report.start_seconds) / 2.0
