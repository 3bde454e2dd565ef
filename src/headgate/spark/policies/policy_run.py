"""The policy of one gate of one running query: which level, and what the levels left lately.

Called with the query's lock held. Decides purely from what it is told.

The controller asks for a keep fraction. The budget ladder picks the lowest level that is
expected to leave no more; what is still too much goes at random, so the threshold is
the fraction divided by what the level leaves. The turnaround ladder is the paper's: one
level up or down at each batch that must shed. To know what the levels leave, all of them
are judged, without dropping by those above the chosen one, in the first batches and in
every sixteenth.

Guarantees: a keep fraction of 1 is level 0 and drops nothing; one of 0 drops everything.
A level that was never judged counts as leaving everything, so the budget holds also then
(more goes at random). No level is chosen that is known to leave less than the query's
`keep_at_least`. Not guaranteed: exactly the fraction, where levels leave other shares
than lately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.reduction import BudgetLadder, Digest, TurnaroundLadder, merge_all
from headgate.spark.agent.progress import GateReport
from headgate.spark.policies.policy_digests import digest_from_metrics
from headgate.spark.policies.policy_gate import GatePolicy
from headgate.spark.policies.policy_notes import Note, read_notes
from headgate.spark.policies.policy_state import fit

__all__ = ["Choice", "PolicyOutcome", "PolicyRun", "outcome_of"]

_JUDGE_ALL_EVERY = 16
_OF = 1_000_000  # a budget is a share of so many events

SetText = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """The level, and the share of what it leaves that stays."""

    level: int
    share: float


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What a policy did in one batch, from the observed metrics.

    left:   rows left after level 1, 2 ... as far as levels were judged.
    odd:    how often an applied filter could not judge a row.
    digest: of all dropped rows, also of those that went at random.
    """

    left: tuple[int, ...]
    odd: int
    digest: Digest
    notes: Sequence[Note] = ()

    def dropped_by_level(self, offered: int, level: int) -> list[int]:
        before = (offered, *self.left[:level])
        return [a - b for a, b in zip(before, self.left[:level], strict=False)]


def outcome_of(gate: GatePolicy, seen: GateReport) -> PolicyOutcome:
    """Read the metrics of a batch; ValueError when they are not those of the policy."""
    plan = gate.policy.digests
    if gate.partitions is not None:
        notes = read_notes(seen.policy.get("notes") or ())
        depth = max((len(note.left) for note in notes), default=0)
        left = tuple(
            sum(note.left[at] if at < len(note.left) else note.offered for note in notes)
            for at in range(depth)
        )
        digests = [Digest.from_json(plan, note.digest) for note in notes if note.digest]
        odd = sum(note.odd for note in notes)
        return PolicyOutcome(left, odd, merge_all(plan, digests), notes)
    fell = [int(seen.policy.get(f"fell_{at}") or 0) for at in _levels(gate)]
    left = tuple(seen.offered - sum(fell[:at]) for at in _levels(gate))
    digest = digest_from_metrics(plan, seen.dropped, seen.policy)
    return PolicyOutcome(left, int(seen.policy.get("odd") or 0), digest)


class PolicyRun:
    """See the module. `set_text` puts the state of a partition where its task finds it."""

    def __init__(self, gate: GatePolicy, set_text: SetText | None = None) -> None:
        self.gate = gate
        remembers = gate.remembers and gate.partitions is not None
        self.states = dict.fromkeys(range(gate.partitions or 0), "") if remembers else {}
        self._set_text = set_text
        self._budget = BudgetLadder(len(gate.policy.levels))
        self._turnaround: TurnaroundLadder | None = None
        self._since_all_judged = 0
        self._judged = 0

    def choose(self, keep: float, at_least: float, now_seconds: float) -> Choice:
        """Level and share for the next batch."""
        if keep >= 1.0:
            return Choice(0, 1.0)
        if self.gate.ladder == "turnaround":
            if self._turnaround is None:
                levels = len(self.gate.policy.levels)
                self._turnaround = TurnaroundLadder(levels, start_seconds=now_seconds)
            level = self._turnaround.choose(now_seconds)
        else:
            level = self._lowest(keep)
        while level and at_least > 0.0 and self._ratio(level) < at_least:
            level -= 1
        # A level that lately left nothing may leave something this time: then all of it, unless
        # nothing at all may stay.
        ratio = max(self._ratio(level), 1e-9)
        return Choice(level, min(1.0, keep / ratio))

    def numbers(self, level: int, now_micros: int) -> tuple[int, int, int]:
        """Level, up to which level is judged, and the time, for the live array."""
        known = None not in self._budget.keep_ratios
        self._since_all_judged += 1
        everything = not known or self._since_all_judged >= _JUDGE_ALL_EVERY
        if everything:
            self._since_all_judged = 0
        self._judged = len(self.gate.policy.levels) if everything else level
        return level, self._judged, now_micros

    def observe(self, seen: GateReport) -> str:
        """Learn from a batch; what went wrong in its tasks, or an empty text."""
        outcome = outcome_of(self.gate, seen)
        problems = [note.error for note in outcome.notes if note.error]
        for note in outcome.notes:
            if note.state is not None and note.partition in self.states:
                self.states[note.partition] = note.state
        offered = sum(note.offered for note in outcome.notes) or seen.offered
        judged = outcome.left[: self._judged]
        if offered and judged and not problems:
            self._budget.learn([count / offered for count in judged])
        return problems[0] if problems else ""

    def restore(self, states: dict[int, str]) -> None:
        """Go on with what was remembered before a restart."""
        if states and self.states:
            self.states = fit(states, len(self.states))

    def place_states(self) -> None:
        """Put the states where the next batch finds them."""
        if self._set_text is not None:
            for place, text in self.states.items():
                self._set_text(place, text)

    def _lowest(self, keep: float) -> int:
        """The lowest level that is known to leave no more; an unknown one is tried."""
        return self._budget.choose(_OF, round(keep * _OF))

    def _ratio(self, level: int) -> float:
        known = self._budget.keep_ratios[level - 1] if level else 1.0
        return 1.0 if known is None else known


def _levels(gate: GatePolicy) -> range:
    return range(1, len(gate.policy.levels) + 1)
