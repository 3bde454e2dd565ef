"""Adaptive headroom (ALoMa): how much can this class process, and what must go?

The 2011 paper, section III-B. Two monitors look at one class. The load monitor
compares the load with the capacity (the headroom factor, server seconds per second).
The response-time monitor compares the response time with the delay target. If they
agree, the excess load is shed. If they disagree, the capacity was estimated wrongly
and moves towards the load (equation 1, with the absolute gap, so that it can shrink
as well as grow):

    L_C' = L_C +- log2(k + 1) / k |L - L_C|,    k = max(1, 100 |L - L_C| / L_C)

====================  ==================  ==================  =====================
load > capacity?      response normal     response watched    response too long
====================  ==================  ==================  =====================
no                    HOLD                HOLD                LOWER
yes                   RAISE               SHED                SHED, or LOWER (below)
====================  ==================  ==================  =====================

Where the paper is silent:

- L is the load before shedding when the capacity is raised, and the load after
  shedding when it is lowered. With one L for both an estimate that is too high under a
  lasting overload would never come down: L stays above L_C for ever. So if the
  admitted load fits the capacity and the response is too long all the same: LOWER.
- When lowering, the gap is at least `smallest_gap` of the capacity, and as much of it as
  the response is above the target: shedding makes load and capacity equal, and a gap of
  zero would move nothing.
- A response time tells of tuples that came a response time ago, so the next move
  waits that long. The response is only watched between `normal_below` of the target and
  the target, while it is too long but falling (the last move works), and while it is
  normal but rising (the capacity is already exceeded).
- While the response is below `normal_below` of the target, no more is shed than before:
  the two monitors do not agree that there is too much. Shedding that is under way goes
  on, less and less. A class without any response sheds by its load alone.

One instance for each class makes the load manager follow the scheduler's priorities
(section IV-B). One instance for all classes together is the paper's "one common load
shedder", the baseline of Table I.

Guarantees: nothing is shed while the load is at most the capacity; shedding stops in
the first cycle in which the load fits; it neither begins nor grows while the response
is short. Non-guarantees: the response time stays near
the target only as well as the costs behind the load are known. Cost: O(1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from headgate.control.load import ClassLoad
from headgate.errors import UsageError

__all__ = [
    "PATIENCE",
    "HeadroomAction",
    "HeadroomDecision",
    "HeadroomMonitor",
    "HeadroomSettings",
    "ResponseState",
    "adjusted_headroom",
]

_FOLLOW = 0.5
"""How fast the smoothed response follows; the response is compared with it to see a trend."""
_NO_CHANGE = 0.005
"""A response that moved by less than this share of the target did not move."""
PATIENCE = 2.0
"""Times the target: so late may a class be whose load fits, before it sheds."""
_SHORT = 0.1
"""Below this share of the target a rise means nothing."""


def adjusted_headroom(headroom: float, load: float, smallest_gap: float = 0.0) -> float:
    """Equation 1: the capacity moved towards the load.

    The gap counts as at least `smallest_gap` (a share of the capacity); a load at the
    capacity is then a step down.

    >>> adjusted_headroom(1.0, 1.01)             # k = 1: all of a small gap
    1.01
    >>> round(adjusted_headroom(1.0, 1.15), 3)   # k = 15: 4/15 of the gap
    1.04
    >>> round(adjusted_headroom(1.0, 0.85), 3)
    0.96
    """
    gap = max(abs(load - headroom), smallest_gap * headroom)
    k = max(1.0, 100.0 * gap / headroom)
    step = math.log2(k + 1.0) / k * gap
    return headroom + step if load > headroom else headroom - step


class ResponseState(StrEnum):
    """What the response-time monitor sees."""

    NORMAL = "normal"
    WATCHED = "watched"
    TOO_LONG = "too long"


class HeadroomAction(StrEnum):
    """What the class does in this cycle."""

    HOLD = "hold"
    SHED = "shed"
    RAISE = "raise"
    LOWER = "lower"


_ACTIONS: Mapping[tuple[bool, ResponseState], HeadroomAction] = MappingProxyType(
    {
        (False, ResponseState.NORMAL): HeadroomAction.HOLD,
        (False, ResponseState.WATCHED): HeadroomAction.HOLD,
        (False, ResponseState.TOO_LONG): HeadroomAction.LOWER,
        (True, ResponseState.NORMAL): HeadroomAction.RAISE,
        (True, ResponseState.WATCHED): HeadroomAction.SHED,
        (True, ResponseState.TOO_LONG): HeadroomAction.SHED,
    }
)


@dataclass(frozen=True, slots=True)
class HeadroomSettings:
    """delay_target_seconds:  the worst response time of the class.
    cycle_seconds:         time between two decisions (150 ms in the paper).
    initial_headroom:      capacity at the start, server seconds per second.
    least_headroom:        the capacity never falls below this.
    most_headroom:         nor rises above this (the node's capacity).
    normal_below:          a response below this share of the target is normal.
    smallest_gap:          smallest step down, as a share of the capacity.
    keep_at_least:         guaranteed share of the class's data; shedding stops there.
    ease:                  a raise leaves at most this share of the shedding, so that a capacity
                           that is far too low is left in a few steps. 1: equation 1 alone.
    """

    delay_target_seconds: float = 0.5
    cycle_seconds: float = 0.15
    initial_headroom: float = 0.8
    least_headroom: float = 0.001
    most_headroom: float = math.inf
    normal_below: float = 0.8
    smallest_gap: float = 0.02
    keep_at_least: float = 0.0
    ease: float = 1.0

    def __post_init__(self) -> None:
        for name in ("delay_target_seconds", "cycle_seconds", "least_headroom"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a number above 0, got {value!r}")
        if not self.least_headroom <= self.initial_headroom <= self.most_headroom:
            raise UsageError(
                f"initial_headroom must be from {self.least_headroom!r} to "
                f"{self.most_headroom!r}, got {self.initial_headroom!r}"
            )
        for name in ("normal_below", "keep_at_least", "ease"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"{name} must be from 0 to 1, got {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class HeadroomDecision:
    """shed_fraction of the class's data goes; `usage` is load / headroom (u_i of section IV-C)."""

    headroom: float
    shed_fraction: float
    usage: float
    action: HeadroomAction
    response: ResponseState

    @property
    def keep_fraction(self) -> float:
        return 1.0 - self.shed_fraction


class HeadroomMonitor:
    """The load manager of one class. See the module.

    >>> monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=0.5))
    >>> decision = monitor.step(ClassLoad(1.0), response_seconds=0.45)
    >>> decision.shed_fraction, decision.action.value
    (0.5, 'shed')
    """

    def __init__(self, settings: HeadroomSettings) -> None:
        self.settings = settings
        self.headroom = settings.initial_headroom
        self._shed_fraction = 0.0
        self._cycles_to_wait = 0
        self._smooth_response_seconds = 0.0

    def step(
        self,
        load: ClassLoad,
        response_seconds: float | None,
        least: float = 0.0,
        most: float = math.inf,
    ) -> HeadroomDecision:
        """One load management cycle.

        load:             what the class asks for at the present input rates, before shedding.
        response_seconds: mean response time in the cycle; None when nothing came out.
        least, most:      the capacity that the class has by all that is known. A higher estimate
                          is believed only while the response is short. A lower one is believed
                          only while the response is above its target; if the load fits all the
                          same, a stall will pass by itself: then only above twice the target.
        """
        response = self._response(response_seconds)
        if not (0.0 <= load.private_load < math.inf and 0.0 <= load.shared_load < math.inf):
            load = ClassLoad(0.0)  # an impossible load is no ground to drop anything
        total = load.total
        if not self._is_short(response_seconds):
            self._set(min(self.headroom, most))
        longest = self.settings.delay_target_seconds * (PATIENCE if total <= least else 1.0)
        if response_seconds is not None and response_seconds > longest:
            least = 0.0
        self._set(max(self.headroom, least))
        action = _ACTIONS[total > self.headroom, response]
        admitted = total - self._shed_fraction * load.private_load
        if (
            action is HeadroomAction.SHED
            and response is ResponseState.TOO_LONG
            and self._shed_fraction > 0.0
            and admitted <= self.headroom * (1.0 + self.settings.smallest_gap)
        ):
            action = HeadroomAction.LOWER
        action = self._move(action, total, admitted, response_seconds)
        self._set(max(self.headroom, least))
        shed = self._shed(load, total)
        if self._is_short(response_seconds):
            shed = min(shed, self._shed_fraction)  # the monitors disagree: drop no more than before
        self._shed_fraction = shed
        return HeadroomDecision(
            self.headroom, self._shed_fraction, total / self.headroom, action, response
        )

    def rescale(self, quota_new: float, quota_old: float) -> None:
        """Equation 2: the scheduler moved capacity, so the headroom moves in proportion."""
        if not (quota_old > 0 and quota_new > 0):
            raise UsageError(f"quotas must be above 0, got {quota_new!r} and {quota_old!r}")
        self._set(self.headroom * quota_new / quota_old)

    def _is_short(self, seconds: float | None) -> bool:
        """A response was seen and is well below the target."""
        limit = self.settings.normal_below * self.settings.delay_target_seconds
        return seconds is not None and 0.0 <= seconds <= limit

    def _response(self, seconds: float | None) -> ResponseState:
        if seconds is None or not 0.0 <= seconds < math.inf:
            return ResponseState.NORMAL
        target, last = self.settings.delay_target_seconds, self._smooth_response_seconds
        self._smooth_response_seconds += _FOLLOW * (seconds - last)
        if seconds > target:
            falls = seconds < last - _NO_CHANGE * target
            return ResponseState.WATCHED if falls else ResponseState.TOO_LONG
        if seconds > self.settings.normal_below * target:
            return ResponseState.WATCHED
        rises = seconds > last + _NO_CHANGE * target and seconds > _SHORT * target
        return ResponseState.WATCHED if rises else ResponseState.NORMAL

    def _move(
        self,
        action: HeadroomAction,
        load: float,
        admitted: float,
        response_seconds: float | None,
    ) -> HeadroomAction:
        """Carry out RAISE and LOWER, at most once in a response time; say what was done."""
        waits = self._cycles_to_wait > 0
        self._cycles_to_wait -= waits
        if action not in (HeadroomAction.RAISE, HeadroomAction.LOWER):
            return action
        if waits:
            return HeadroomAction.SHED if load > self.headroom else HeadroomAction.HOLD
        target = self.settings.delay_target_seconds
        seconds = min(response_seconds or 0.0, 2.0 * target)
        if action is HeadroomAction.RAISE:
            raised, ease = adjusted_headroom(self.headroom, load), self.settings.ease
            if ease < 1.0:  # it does what is admitted: try it with a part of the rest
                raised = max(raised, load - ease * (load - admitted))
            self._set(raised)
        else:
            gap = max(self.settings.smallest_gap, seconds / target - 1.0)
            self._set(adjusted_headroom(self.headroom, min(admitted, self.headroom), gap))
        self._cycles_to_wait = math.ceil(seconds / self.settings.cycle_seconds)
        return action

    def _shed(self, load: ClassLoad, total: float) -> float:
        excess = total - self.headroom
        if excess <= 0.0:
            return 0.0
        most = 1.0 - self.settings.keep_at_least
        if load.private_load <= excess:
            return most
        return min(most, excess / load.private_load)

    def _set(self, headroom: float) -> None:
        self.headroom = min(
            max(headroom, self.settings.least_headroom), self.settings.most_headroom
        )
