"""One running query as the agent sees it: its gates' live arrays and what it last reported.

All methods are called with `lock` held. Memory is bounded: reasons of the last batches.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from headgate.coordinator import SetKeepFraction
from headgate.spark.agent.decision import EVERYTHING, GateDecision
from headgate.spark.agent.progress import BatchReport, GateReport, gate_report
from headgate.spark.gates.row_choice import AT_RANDOM, RowChoice
from headgate.spark.gates.window_drop import WindowMemory
from headgate.spark.gates.window_watch import WindowWatch
from headgate.spark.letters.letter_settings import LetterGate
from headgate.spark.policies.policy_run import PolicyRun
from headgate.spark.policies.policy_state import PolicyStates

__all__ = [
    "NOTHING_KNOWN",
    "GateArray",
    "GateCounts",
    "InputState",
    "QueryHandle",
    "QueryRun",
    "SourceGateArray",
]

_REMEMBER_BATCHES = 256
_WARM_UP_TARGETS = 2.0
_T = TypeVar("_T")


class GateArray(Protocol):
    """Where salt and threshold of one gate stand (`LiveArray`; a list in tests)."""

    def set(self, values: tuple[int, ...]) -> None: ...


class GateCounts(Protocol):
    """Where the numbers of one gate stand that Spark's progress does not bring (`RowCounts`)."""

    def take(self) -> Mapping[str, Any]: ...
    def stop(self) -> None: ...


class SourceGateArray:
    """For a gate inside a source: it takes its decision from the source's offset."""

    def set(self, values: tuple[int, ...]) -> None:
        """Nothing in the driver to change."""


@dataclass(frozen=True, slots=True)
class InputState:
    """What a source with a gate says of itself when it asks; empty for a companion.

    waiting: tuples that could be read now; age_seconds: their mean age.
    """

    gate: str = ""
    waiting: int | None = None
    age_seconds: float | None = None

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> InputState:
        if "gate" not in message:
            return cls()
        waiting, age = int(message["waiting"]), float(message["age"])
        if waiting < 0 or not 0.0 <= age < math.inf:
            raise ValueError(f"a source cannot have {waiting} waiting tuples of age {age}")
        return cls(str(message["gate"]), waiting, age)


NOTHING_KNOWN = InputState()


@dataclass(frozen=True, slots=True)
class QueryHandle:
    """What the agent asks a running query. Each call goes to the JVM.

    active: it was not stopped. triggered: it is within a trigger, not between two.
    tasks: how many cores its last batch could use at once.
    """

    batch: Callable[[], int]
    last_progress: Callable[[], str | None]
    recent_progress: Callable[[], Sequence[str]]
    active: Callable[[], bool] = lambda: True
    triggered: Callable[[], bool] = lambda: True
    tasks: Callable[[], int] = lambda: 1


class QueryRun:
    """State of one started query.

    key:          what the companion calls the query.
    finite:       the trigger ends by itself (AvailableNow): nothing is dropped.
    same_tuples:  gates whose salt never changes, so that equal identities share their fate
                  in all batches.
    timed_gates:  gates that know when a tuple arrived: only these can drop old ones.
    choices:      which rows the gates drop; at random where nothing is said.
    windows:      what is known of event times; needed by gates that drop whole windows.
    logged:       the newest decision that is known to stand in the offset log.
    policies:     of the gates that have one.
    letters:      of the gates that write down what they drop.
    counts:       of the gates whose rows are counted in the generated code.
    """

    def __init__(
        self,
        key: str,
        name: str,
        arrays: Mapping[str, GateArray],
        finite: bool = False,
        same_tuples: frozenset[str] = frozenset(),
        timed_gates: frozenset[str] = frozenset(),
        choices: Mapping[str, RowChoice] | None = None,
        windows: WindowWatch | None = None,
        policies: Mapping[str, PolicyRun] | None = None,
    ) -> None:
        self.key, self.name, self.finite = key, name, finite
        self.lock = threading.RLock()
        self.handle: QueryHandle | None = None
        self.query_id = ""
        self.run_id = ""
        self.limits: dict[str, float] = {}
        self.last_report: BatchReport | None = None
        self.reports = 0
        self.arrivals_are_odd = False  # in the last batch; said once as long as it stays so
        self.target_seconds: float | None = None
        self.percentile: float | None = None
        self.drop_older_seconds: float | None = None
        self.looked_at_seconds: float | None = None
        self.asked_batch: int | None = None
        self.answer: Mapping[str, float] = {}
        self.levels: Mapping[str, int] = {}
        self.now_micros = 0
        self.keep_at_least = 0.0
        self.policies = dict(policies or {})
        self.states: PolicyStates | None = None
        self.why: OrderedDict[int, Mapping[str, str]] = OrderedDict()
        self.would_keep: OrderedDict[int, Mapping[str, float]] = OrderedDict()
        self.rates: Mapping[str, float] = {}
        self.decision = GateDecision()
        self.query_class: str | None = None
        self.first_gates = tuple(arrays)
        self.held: OrderedDict[int, float] = OrderedDict()
        self.tasks = 1
        self.asking_batch = -1
        self.empty_asks = 0
        self.decided: OrderedDict[int, Sequence[SetKeepFraction]] = OrderedDict()
        self.last_with_tuples: BatchReport | None = None
        self._arrays = dict(arrays)
        self._timed_gates = timed_gates
        self._same_tuples = same_tuples
        self._applied_for: int | None = None
        self._askers: set[str] = set()
        self._askers_of: int | None = None
        self.choices = dict(choices or {})
        self.windows = windows
        self.letters: Mapping[str, LetterGate] = {}
        self.counts: Mapping[str, GateCounts] = {}
        self._aside: deque[Mapping[str, GateReport]] = deque(maxlen=_REMEMBER_BATCHES)
        self._counted: OrderedDict[int, Mapping[str, GateReport]] = OrderedDict()
        self.logged = self.decision

    @property
    def gates(self) -> tuple[str, ...]:
        return tuple(self._arrays)

    def apply(self, decision: GateDecision, batch: int | None) -> None:
        """Set the live arrays for `batch` (None: not known)."""
        for gate, array in self._arrays.items():
            numbers = self._values(gate, decision)
            policy = self.policies.get(gate)
            if policy is None:
                array.set(numbers)
                continue
            level = min(decision.level(gate), len(policy.gate.policy.levels))
            policy.place_states()
            now_micros = decision.now_micros
            if policy.gate.needs_now and not now_micros:  # levels that are only judged need it
                now_micros = round(time.time() * 1e6)
            array.set((*numbers, *policy.numbers(level, now_micros)))
        for letters in self.letters.values():
            letters.follow(decision)
        self.decision = decision
        self._applied_for = batch

    def choose_levels(self, keep: Mapping[str, float], now_seconds: float) -> None:
        """What the gates are to do: the shares, and the levels of those with a policy."""
        answer, levels = dict(keep), {}
        for gate, policy in self.policies.items():
            choice = policy.choose(keep.get(gate, 1.0), self.keep_at_least, now_seconds)
            answer[gate] = choice.share
            if choice.level:
                levels[gate] = choice.level
        self.answer, self.levels = answer, levels
        wanted = any(self.policies[gate].gate.needs_now for gate in levels)
        self.now_micros = round(now_seconds * 1e6) if wanted else 0

    def learn(self, report: BatchReport) -> list[str]:
        """What the policies learn from a batch; what went wrong."""
        problems = []
        for gate, policy in self.policies.items():
            seen = report.gates.get(gate)
            if seen is None:
                continue
            before = dict(policy.states)
            try:
                problem = policy.observe(seen)
                if policy.states != before and self.states is not None:
                    self.states.write(gate, report.batch, policy.states)
            except (ValueError, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                problems.append(f"gate {gate}: {problem}")
        return problems

    def is_further_asker(self, batch: int, asker: str) -> bool:
        """True for another source of the query in the same trigger: it gets the same answer,
        also if a limit was changed in between.
        """
        further = batch == self._askers_of and asker not in self._askers
        self._askers = {asker, *self._askers} if further else {asker}
        self._askers_of = batch
        return further

    def next_decision(
        self, start: GateDecision, batch: int, older_than: Mapping[str, int]
    ) -> GateDecision:
        """The answer as a decision; `start` itself if that says the same.

        With several sources, the one that asks may have slept for some batches; so the version
        counts on from the newest decision.
        """
        keep, windows = self.answer, None
        if self.windows is not None:
            windows = self.windows.next(start, keep, batch)
            keep = {gate: share for gate, share in keep.items() if gate not in self.windows}
        levels, now_micros = self.levels, self.now_micros
        same = start.changed_to(keep, "", older_than, windows, levels, now_micros)
        if same is start or start.version >= self.decision.version:
            return same
        return self.decision.changed_to(keep, "", older_than, windows, levels, now_micros)

    def open(self) -> None:
        """Keep everything until the next decision.

        Whole windows go on as the offset log says: opened, they would be cut in two.
        """
        for gate, array in self._arrays.items():
            whole = self.choices.get(gate, AT_RANDOM).window is not None
            opened = (0, EVERYTHING, 0, *((0, 0, 0) if gate in self.policies else ()))
            array.set(self._values(gate, self.logged) if whole else opened)
            if gate in self.letters:
                self.letters[gate].follow(self.logged if whole else GateDecision())
        self._applied_for = None

    def expire(self, batch: int) -> None:
        """`batch` is over: its decision stands no longer, so a dead agent drops nothing."""
        if self._applied_for is not None and self._applied_for <= batch:
            self.logged = self.decision
            self.open()

    def remember_held(self, batch: int, seconds: float) -> None:
        """How long this batch waited for its turn."""
        _remember(self.held, batch, seconds)

    def _values(self, gate: str, decision: GateDecision) -> tuple[int, ...]:
        choice = self.choices.get(gate, AT_RANDOM)
        if choice.window is not None:
            return decision.windows.get(gate, WindowMemory(choice.window)).array()
        fixed = bool(choice.key) or gate in self._same_tuples
        salt = 0 if fixed else decision.salt
        return (salt, decision.threshold(gate), decision.cut_off(gate))

    def remember_why(self, batch: int, why: Mapping[str, str]) -> None:
        _remember(self.why, batch, why)

    def remember_decided(self, batch: int, decided: Sequence[SetKeepFraction]) -> None:
        """What the coordinator said of this batch, to explain it."""
        _remember(self.decided, batch, decided)

    def remember_would_keep(self, batch: int, would_keep: Mapping[str, float]) -> None:
        """What the gates would have been told if shedding were on."""
        _remember(self.would_keep, batch, would_keep)

    def is_new(self, report: BatchReport) -> bool:
        return self.last_report is None or report.batch > self.last_report.batch

    def counted(self, report: BatchReport) -> BatchReport:
        """The report with what the generated code counted. Numbers of a batch are taken once,
        by whoever hears of its end first; nobody may ask before, or after the next has begun.

        A batch that runs again, has rows and counts none was passed over by its sink, which has
        it. Old batches that are no longer remembered, and reports that nothing came (under the
        number of the next batch), take nothing away from the batch under way.
        """
        if not self.counts or report.idle:
            return report
        if report.batch > next(reversed(self._counted), -1):
            runs_again = self.reports == 0 and report.batch not in self.why and report.moved
            taken = self._aside.popleft() if self._aside else self._take_counts()
            counted = {gate: s for gate, s in taken.items() if s.offered or not runs_again}
            _remember(self._counted, report.batch, counted)
        return replace(report, gates={**report.gates, **self._counted.get(report.batch, {})})

    def set_counts_aside(self) -> None:
        """Another batch begins, and the end of the last one was not reported yet."""
        taken = self._take_counts()
        if any(seen.offered for seen in taken.values()):
            self._aside.append(taken)

    def _take_counts(self) -> dict[str, GateReport]:
        return {gate: gate_report(counts.take()) for gate, counts in self.counts.items()}

    def warm_up_share(self, waiting: Mapping[str, int]) -> float:
        """What the second batch of a run may keep when the first took longer than the target.

        No cost is known yet: the first batch was cold. So as much stays as comes in two targets,
        or as many tuples as the first batch kept, which are known to end.
        """
        first, target = self.last_report, self.target_seconds
        if self.reports != 1 or first is None or target is None:
            return 1.0
        if first.duration_seconds <= target or first.offered == 0:
            return 1.0
        ended = sum(gate.kept for gate in first.gates.values()) or first.offered
        fresh = _WARM_UP_TARGETS * target * sum(self.rates.get(gate, 0.0) for gate in waiting)
        share = max(ended, fresh) / max(1, sum(waiting.values()))
        return min(1.0, max(share, self.keep_at_least))

    def cut_offs(self, now_seconds: float) -> dict[str, int]:
        """Where tuples may wait that are too old: what is older falls, by gate.

        At every question Spark looks for what has arrived since the one before. So old
        tuples can wait only if nobody has looked for so long, at the first look of a run,
        or if the last batch began with old ones (a source that hands out a part at a time).
        At other times there is no cut-off: it would be a new decision for every batch.
        """
        limit, last = self.drop_older_seconds, self.last_report
        if limit is None or self.finite:
            return {}
        looked = self.looked_at_seconds
        stalled = looked is None or now_seconds - looked > limit
        if not stalled and last is not None:
            first = min(
                (g.first_arrival for g in last.gates.values() if g.first_arrival is not None),
                default=last.start_seconds,
            )
            stalled = last.start_seconds - first > limit
        if not stalled:
            return {}
        return dict.fromkeys(sorted(self._timed_gates), round((now_seconds - limit) * 1e6))

    def waiting(self, now_seconds: float, known: InputState) -> dict[str, int]:
        """How many tuples should be waiting at each gate, from the last known rates.

        A source with a gate knows how many there are, also behind its limit.
        """
        own = {} if known.waiting is None else {known.gate: known.waiting}
        if self.last_report is None:
            return own
        since = now_seconds - self._all_before(self.last_report)
        return {gate: round(rate * max(0.0, since)) for gate, rate in self.rates.items()} | own

    def _all_before(self, report: BatchReport) -> float:
        """What arrived before this time was offered in the batch or earlier.

        A batch has what had arrived when it began. One that ran again after a restart has what
        had arrived when it was logged, and its newest tuple says when that was.
        """
        newest = [g.last_arrival for g in report.gates.values() if g.last_arrival is not None]
        if report.batch in self.why or not newest:
            return report.start_seconds
        return min(report.start_seconds, max(newest))

    def waiting_age_seconds(self, now_seconds: float, known: InputState) -> float | None:
        """Mean age of what waits, if it has come evenly since the last batch began."""
        if self.last_report is None:
            return known.age_seconds
        even = max(0.0, now_seconds - self._all_before(self.last_report)) / 2.0
        if known.age_seconds is None or known.waiting is None:
            return even
        others = sum(self.waiting(now_seconds, known).values()) - known.waiting
        if others + known.waiting == 0:
            return even
        return (even * others + known.age_seconds * known.waiting) / (others + known.waiting)


def _remember(of_batches: OrderedDict[int, _T], batch: int, value: _T) -> None:
    """The oldest go."""
    of_batches[batch] = value
    while len(of_batches) > _REMEMBER_BATCHES:
        of_batches.popitem(last=False)
