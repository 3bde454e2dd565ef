"""The class scheduler (CQC): whose turn is it?

The 2011 paper, section III-A, level 1. Weighted round robin: in each round a class
gets a quota of time, its priority's share of the round. The scheduler is asked "who is
next?" and told "class c used t seconds"; it neither runs nor measures anything.

- A class keeps its turn while it has credit and work.
- Who runs past the quota is not interrupted. The excess is a debt that is taken off
  the next quotas; a class whose debt is larger than its quota sits out a round.
- Unused quota is passed on: a class without work ends its turn, the round is shorter
  and its time falls to the others in proportion to their quotas. It is not saved up.

Guarantees: over many rounds a class that always has work gets at least its share of
the time; the machine is never idle while any class has work; no class starves while
its quota is above zero. Non-guarantees: the length of one turn (nothing is preempted).
Cost: O(classes) per question. Memory: O(classes).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from enum import StrEnum

from headgate.errors import UsageError

__all__ = ["ClassScheduler", "TurnState", "time_by_quota"]

_DUST = 1e-12
"""Credit below this is none: sums of slices are not exact."""


class TurnState(StrEnum):
    """IDLE: nobody has the turn. GRANTED: a class has it and may go on or report."""

    IDLE = "idle"
    GRANTED = "granted"


class ClassScheduler:
    """Weighted round robin over classes, highest quota first.

    >>> scheduler = ClassScheduler.from_priorities({"gold": 6, "silver": 3, "iron": 1}, 0.1)
    >>> scheduler.next_class({"silver", "iron"})
    'silver'
    >>> scheduler.used("silver", 0.05)        # 30 ms were granted: 20 ms of debt
    >>> scheduler.next_class({"silver", "iron"})
    'iron'
    """

    def __init__(self, quota_seconds: Mapping[str, float]) -> None:
        self._quota = _checked(quota_seconds)
        self._order = sorted(self._quota, key=lambda c: (-self._quota[c], c))
        self._credit = dict.fromkeys(self._order, 0.0)
        self._turn = len(self._order) - 1
        self.state = TurnState.IDLE

    @classmethod
    def from_priorities(
        cls, priorities: Mapping[str, float], round_seconds: float
    ) -> ClassScheduler:
        """Quotas in proportion to the priorities; `round_seconds` is k of the paper."""
        total = sum(priorities.values())
        if not (math.isfinite(total) and total > 0 and round_seconds > 0):
            raise UsageError("priorities and round_seconds must be above 0")
        return cls({c: round_seconds * p / total for c, p in priorities.items()})

    @property
    def quota_seconds(self) -> Mapping[str, float]:
        return dict(self._quota)

    @property
    def credit_seconds(self) -> Mapping[str, float]:
        """What is left of each class's quota; below 0 is a debt."""
        return dict(self._credit)

    def set_quotas(self, quota_seconds: Mapping[str, float]) -> None:
        """New quotas for the same classes, from the next turn of each. Debts stay."""
        quota = _checked(quota_seconds)
        if set(quota) != set(self._quota):
            raise UsageError(
                f"expected quotas for {', '.join(self._order)}, got {', '.join(sorted(quota))}"
            )
        self._quota = quota

    def next_class(self, ready: Collection[str]) -> str | None:
        """The class that runs now, of those that have work; None if none has."""
        candidates = [c for c in self._order if c in ready]
        if not candidates:
            self.state = TurnState.IDLE
            return None
        current = self._order[self._turn]
        if (
            self.state is TurnState.GRANTED
            and current in candidates
            and self._credit[current] > _DUST
        ):
            return current
        self._end_turn()
        while True:
            for _ in self._order:
                self._turn = (self._turn + 1) % len(self._order)
                name = self._order[self._turn]
                # a class without work earns back its debt, but saves nothing up
                self._credit[name] = min(self._credit[name], 0.0) + self._quota[name]
                if name in candidates and self._credit[name] > _DUST:
                    self.state = TurnState.GRANTED
                    return name
                if name not in candidates:
                    self._credit[name] = min(self._credit[name], 0.0)
            self._skip_rounds(candidates)

    def used(self, query_class: str, seconds: float) -> None:
        """Class `query_class` ran for `seconds`. Only the class that has the turn may run."""
        current = self._order[self._turn]
        if self.state is not TurnState.GRANTED or query_class != current:
            holder = current if self.state is TurnState.GRANTED else "nobody"
            raise UsageError(f"the turn belongs to {holder}, but {query_class!r} reports its use")
        self.charge(query_class, seconds)

    def charge(self, query_class: str, seconds: float) -> None:
        """Take `seconds` off a class whoever has the turn: for work that ran beside others."""
        if math.isfinite(seconds) and seconds > 0.0:
            self._credit[query_class] -= seconds

    def _end_turn(self) -> None:
        name = self._order[self._turn]
        self._credit[name] = min(self._credit[name], 0.0)
        self.state = TurnState.IDLE

    def _skip_rounds(self, candidates: Collection[str]) -> None:
        """All that have work are in debt: let as many rounds pass as the first one needs."""
        rounds = min(math.floor(-self._credit[c] / self._quota[c]) for c in candidates)
        if rounds > 0:
            for name in self._order:
                self._credit[name] = min(0.0, self._credit[name] + rounds * self._quota[name])


def time_by_quota(
    wanted: Mapping[str, float], quota: Mapping[str, float], capacity: float = 1.0
) -> dict[str, float]:
    """What the scheduler gives to each class in the long run: all that it wants, or its part.

    Who wants less than its quota gets it, and the rest falls to the others by their quotas.

    >>> time_by_quota({"gold": 0.25, "silver": 0.5, "iron": 0.5},
    ...               {"gold": 6, "silver": 3, "iron": 1})
    {'gold': 0.25, 'silver': 0.5, 'iron': 0.25}
    """
    given: dict[str, float] = {}
    left, shares = capacity, sum(quota[name] for name in wanted)
    for name in sorted(wanted, key=lambda name: wanted[name] / quota[name]):
        given[name] = min(wanted[name], max(0.0, left) * quota[name] / shares)
        left, shares = left - given[name], shares - quota[name]
    return {name: given[name] for name in wanted}


def _checked(quota_seconds: Mapping[str, float]) -> dict[str, float]:
    if not quota_seconds:
        raise UsageError("expected at least one class")
    for name, quota in quota_seconds.items():
        if not (math.isfinite(quota) and quota > 0):
            raise UsageError(
                f"the quota of class {name!r} must be above 0, got {quota!r}; a class without "
                "a quota would never run"
            )
    return dict(quota_seconds)
