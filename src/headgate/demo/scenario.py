"""What arrives when: calm, a flash crowd, calm again. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import UsageError
from headgate.simulation.arrivals import FlashCrowd

__all__ = ["CROWD_FACTOR", "FULL", "QUICK", "Scenario", "Settings"]

CROWD_FACTOR = 3.0
_CALM_FACTOR = 0.4
_CROWD_BEGINS = 0.15  # shares of a run
_CROWD_LASTS = 0.55
_TARGETS_IN_A_RUN = 8.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How long things take.

    run_seconds:     each of the two runs.
    target_seconds:  the mean latency that Headgate is asked to hold.
    warm_up_seconds: to warm the JVM up and to measure the capacity; half of it more if need be.
    """

    run_seconds: float
    target_seconds: float
    warm_up_seconds: float

    def __post_init__(self) -> None:
        if not 0.2 <= self.target_seconds <= 60.0:
            raise UsageError(
                f"--target must be from 0.2s to 60s, got {self.target_seconds:g} s; "
                "batches of Spark take some tenths of a second"
            )
        least = _TARGETS_IN_A_RUN * self.target_seconds
        if not least <= self.run_seconds <= 3600.0:
            raise UsageError(
                f"--seconds {self.run_seconds:g} does not go with a target of "
                f"{self.target_seconds:g} s; give {least:g} to 3600"
            )


FULL = Settings(run_seconds=28.0, target_seconds=3.0, warm_up_seconds=26.0)
QUICK = Settings(run_seconds=12.0, target_seconds=1.5, warm_up_seconds=10.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Rates in rows per second, times in seconds since the stream began."""

    run_seconds: float
    target_seconds: float
    capacity_per_second: float

    @property
    def calm_per_second(self) -> float:
        return _CALM_FACTOR * self.capacity_per_second

    @property
    def crowd_per_second(self) -> float:
        return CROWD_FACTOR * self.capacity_per_second

    @property
    def crowd_begins(self) -> float:
        return _CROWD_BEGINS * self.run_seconds

    @property
    def crowd_ends(self) -> float:
        return self.crowd_begins + _CROWD_LASTS * self.run_seconds

    def phase_at(self, seconds: float) -> str:
        if seconds < self.crowd_begins:
            return "calm"
        return "crowd" if seconds < self.crowd_ends else "after"

    def arrived_before(self, seconds: float) -> float:
        """Rows that have arrived until then, as the replay source counts them."""
        lasts = self.crowd_ends - self.crowd_begins
        crowd = FlashCrowd(self.calm_per_second, self.crowd_per_second, self.crowd_begins, lasts)
        return float(crowd.profile_until(0.0).expected_before(max(0.0, seconds)))

    def replay_options(self) -> dict[str, str]:
        """For the source `headgate_replay`."""
        return {
            "pattern": "flash crowd",
            "rate": repr(self.calm_per_second),
            "peak": repr(self.crowd_per_second),
            "at": f"{self.crowd_begins!r}s",
            "for": f"{self.crowd_ends - self.crowd_begins!r}s",
        }
