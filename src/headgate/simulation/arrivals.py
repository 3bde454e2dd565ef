"""When tuples arrive: seeded arrival processes in virtual time.

Every process says its rate at a time and draws the arrival times of an interval as
one sorted array. Even processes (constant, steps, flash crowd, trace) have fixed
spacing (the k-th tuple comes when k - 1/2 are expected) and draw nothing: they give the
same tuples however a run is cut into intervals. Random ones (Poisson, on/off) draw from
the generator that is passed in.

    load = Steps((50.0, 100.0, 150.0, 100.0), 10.0)     # begins again after 40 s
    load.times(0.0, 0.25, rng)                          # the arrivals of one period
    (load + Constant(5.0)) * 2.0                        # sums and multiples are processes
    Poisson(load)                                       # the same rate, random arrivals
    Repeated(FlashCrowd(100.0, 900.0, 5.0, 2.0), 60.0)  # a crowd every minute

Guarantees: sorted times in [start, end); the same generator state gives the same
times; every process can be pickled. Not guaranteed: that cutting an interval in two
gives a random process the same draws. Cost: O(tuples) in numpy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.errors import UsageError
from headgate.simulation.rate_profile import RateProfile

__all__ = [
    "Arrivals",
    "Constant",
    "FlashCrowd",
    "OnOff",
    "Poisson",
    "Repeated",
    "Scaled",
    "Steps",
    "Sum",
    "Trace",
]

Floats = NDArray[np.float64]


class Arrivals(ABC):
    """What every arrival process can do. Times are virtual seconds, rates tuples per second."""

    is_random: bool = False

    @abstractmethod
    def profile_until(self, end_seconds: float) -> RateProfile:
        """The rate over time, right at least up to `end_seconds`."""

    def rate_at(self, time_seconds: float) -> float:
        """Tuples per second at one time; 0 before time 0."""
        return self.profile_until(time_seconds).rate_at(time_seconds)

    def expected(self, start_seconds: float, end_seconds: float) -> float:
        """Expected number of arrivals in [start, end)."""
        profile = self.profile_until(end_seconds)
        return profile.expected_before(end_seconds) - profile.expected_before(start_seconds)

    def times(self, start_seconds: float, end_seconds: float, rng: np.random.Generator) -> Floats:
        """The arrival times in [start, end), sorted. Draws from `rng` only if random."""
        profile = self.profile_until(end_seconds)
        low, high = profile.expected_before(start_seconds), profile.expected_before(end_seconds)
        if self.is_random:
            count = int(rng.poisson(max(0.0, high - low)))
            sums = low + np.sort(rng.random(count)) * (high - low)
        else:
            first, beyond = np.ceil(low - 0.5), np.ceil(high - 0.5)
            sums = 0.5 + np.arange(first, beyond, dtype=np.float64)
        times = profile.times_of(sums)
        latest = np.nextafter(end_seconds, -np.inf)
        return np.clip(times, start_seconds, max(start_seconds, latest))  # against rounding

    def __add__(self, other: Arrivals) -> Arrivals:
        return Sum((self, other))

    def __mul__(self, factor: float) -> Arrivals:
        return Scaled(self, factor)


@dataclass(frozen=True)
class Constant(Arrivals):
    """The same rate for ever, evenly spaced.

    >>> Constant(4.0).times(0.0, 1.0, np.random.default_rng(1)).tolist()
    [0.125, 0.375, 0.625, 0.875]
    """

    rate_per_second: float

    @cached_property
    def _profile(self) -> RateProfile:
        return RateProfile(np.zeros(1), np.array([float(self.rate_per_second)]))

    def profile_until(self, end_seconds: float) -> RateProfile:
        del end_seconds
        return self._profile


@dataclass(frozen=True)
class Steps(Arrivals):
    """Rates in turn, each for `step_seconds`; evenly spaced. Begins again unless told not to."""

    rates_per_second: tuple[float, ...]
    step_seconds: float
    repeat: bool = True

    @cached_property
    def _profile(self) -> RateProfile:
        count = len(self.rates_per_second)
        if count == 0 or not self.step_seconds > 0.0:
            raise UsageError("steps need at least one rate and a length above 0 s")
        starts = np.arange(count, dtype=np.float64) * float(self.step_seconds)
        period = count * float(self.step_seconds) if self.repeat else None
        return RateProfile(starts, np.array(self.rates_per_second, dtype=float), period)

    def profile_until(self, end_seconds: float) -> RateProfile:
        del end_seconds
        return self._profile


@dataclass(frozen=True)
class FlashCrowd(Arrivals):
    """`base` all the time, but `peak` from `at_seconds` on for `for_seconds`."""

    base_per_second: float
    peak_per_second: float
    at_seconds: float
    for_seconds: float

    @cached_property
    def _profile(self) -> RateProfile:
        at, length = float(self.at_seconds), float(self.for_seconds)
        if not (at >= 0.0 and length > 0.0):
            raise UsageError("a flash crowd begins at 0 s or later and lasts longer than 0 s")
        starts = [0.0, at, at + length] if at > 0.0 else [0.0, length]
        rates = [self.base_per_second, self.peak_per_second, self.base_per_second]
        return RateProfile(np.array(starts), np.array(rates[-len(starts) :], dtype=float))

    def profile_until(self, end_seconds: float) -> RateProfile:
        del end_seconds
        return self._profile


@dataclass(frozen=True)
class Trace(Arrivals):
    """A recorded rate, `time_scale` times as fast as it was recorded; then from the beginning.

    rates_per_second: one for each recorded step.
    step_seconds:     length of a step when it was recorded.
    time_scale:       60 plays an hour in a minute. The rates stay as they are.
    """

    rates_per_second: tuple[float, ...]
    step_seconds: float = 1.0
    time_scale: float = 1.0

    @cached_property
    def _profile(self) -> RateProfile:
        if not self.time_scale > 0.0:
            raise UsageError(f"the time scale of a trace must be above 0, got {self.time_scale!r}")
        length = float(self.step_seconds) / float(self.time_scale)
        return Steps(self.rates_per_second, length).profile_until(0.0)

    @property
    def duration_seconds(self) -> float:
        """Virtual seconds until the trace begins again."""
        return len(self.rates_per_second) * self.step_seconds / self.time_scale

    def profile_until(self, end_seconds: float) -> RateProfile:
        del end_seconds
        return self._profile


@dataclass(frozen=True)
class Poisson(Arrivals):
    """Random arrivals at the rate of another process, or at a constant rate."""

    rate: Arrivals | float
    is_random = True

    def profile_until(self, end_seconds: float) -> RateProfile:
        rate = self.rate if isinstance(self.rate, Arrivals) else Constant(float(self.rate))
        return rate.profile_until(end_seconds)


@dataclass(frozen=True)
class OnOff(Arrivals):
    """Random arrivals in bursts: phases of exponential length, drawn from `seed`.

    The phases belong to the process, not to the generator of the arrivals, so the rate
    at a time is a fixed number. It begins with an on phase.
    """

    on_per_second: float
    off_per_second: float
    mean_on_seconds: float
    mean_off_seconds: float
    seed: int = 1
    is_random = True

    def profile_until(self, end_seconds: float) -> RateProfile:
        if not (self.mean_on_seconds > 0.0 and self.mean_off_seconds > 0.0):
            raise UsageError("the mean lengths of on and off phases must be above 0 s")
        phases = 64
        while True:
            ends = _phase_ends(self.seed, self.mean_on_seconds, self.mean_off_seconds, phases)
            if ends[-1] > end_seconds:
                return self._profile_of(phases)
            phases *= 2

    def _profile_of(self, phases: int) -> RateProfile:
        ends = _phase_ends(self.seed, self.mean_on_seconds, self.mean_off_seconds, phases)
        rates = np.tile([float(self.on_per_second), float(self.off_per_second)], phases // 2)
        return RateProfile(np.concatenate(([0.0], ends[:-1])), rates)


@lru_cache(maxsize=64)
def _phase_ends(seed: int, on_seconds: float, off_seconds: float, phases: int) -> Floats:
    """Ends of the first `phases` phases; more phases begin with the same ones."""
    lengths = np.random.default_rng(seed).standard_exponential(phases)
    lengths *= np.tile([on_seconds, off_seconds], phases // 2)
    return np.cumsum(np.maximum(lengths, 1e-9))


@dataclass(frozen=True)
class Scaled(Arrivals):
    """Another process with all rates multiplied by `factor`."""

    process: Arrivals
    factor: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.factor) and self.factor >= 0.0):
            raise UsageError(f"a factor of rates must be at least 0, got {self.factor!r}")

    @property
    def is_random(self) -> bool:  # type: ignore[override]
        return self.process.is_random

    def profile_until(self, end_seconds: float) -> RateProfile:
        inner = self.process.profile_until(end_seconds)
        rates = inner.rates_per_second * self.factor
        return RateProfile(inner.starts_seconds, rates, inner.period_seconds)


@dataclass(frozen=True)
class Repeated(Arrivals):
    """The first `period_seconds` of another process, over and over."""

    process: Arrivals
    period_seconds: float

    @property
    def is_random(self) -> bool:  # type: ignore[override]
        return self.process.is_random

    @cached_property
    def _profile(self) -> RateProfile:
        inner = self.process.profile_until(self.period_seconds)
        if inner.period_seconds is not None and inner.period_seconds < self.period_seconds:
            raise UsageError("a pattern that repeats by itself cannot be repeated more slowly")
        inside = inner.starts_seconds < self.period_seconds
        starts, rates = inner.starts_seconds[inside], inner.rates_per_second[inside]
        return RateProfile(starts, rates, float(self.period_seconds))

    def profile_until(self, end_seconds: float) -> RateProfile:
        del end_seconds
        return self._profile


@dataclass(frozen=True)
class Sum(Arrivals):
    """Several processes at once, each drawn by itself, in their order."""

    processes: tuple[Arrivals, ...]

    @property
    def is_random(self) -> bool:  # type: ignore[override]
        return any(process.is_random for process in self.processes)

    def profile_until(self, end_seconds: float) -> RateProfile:
        del end_seconds
        raise UsageError("a sum of arrival processes has no single profile; scale its parts")

    def rate_at(self, time_seconds: float) -> float:
        return sum(process.rate_at(time_seconds) for process in self.processes)

    def expected(self, start_seconds: float, end_seconds: float) -> float:
        return sum(process.expected(start_seconds, end_seconds) for process in self.processes)

    def times(self, start_seconds: float, end_seconds: float, rng: np.random.Generator) -> Floats:
        parts = [process.times(start_seconds, end_seconds, rng) for process in self.processes]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0)

    def __add__(self, other: Arrivals) -> Arrivals:
        return Sum((*self.processes, other))

    def __mul__(self, factor: float) -> Arrivals:
        return Sum(tuple(process * factor for process in self.processes))
