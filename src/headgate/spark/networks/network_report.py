"""How a network did: counts, latency, the score beside the best possible one. No pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["NetworkReport", "QueryFigures"]


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One query of the network. Latency is of the Spark query that it is part of."""

    name: str
    delivered: int
    per_second: float
    weight: float
    latency_seconds: float | None
    latency_target_seconds: float | None


@dataclass(frozen=True)
class NetworkReport:
    """The figures of a run; None where nothing was measured.

    best_score:  weighted tuples per second of the best plan, see `network_record`.
    predicted_load, measured_load: task seconds per second, over the same batches.
    load_error_mean_abs: how far the prediction of a batch was off on average, up or down, as a
                 share of the mean batch. Errors of single batches do not cancel here.
    gates:       offered, kept and dropped at each gate, by group and gate.
    """

    network: str
    seconds: float
    queries: tuple[QueryFigures, ...]
    gates: Mapping[str, Mapping[str, tuple[int, int, int]]]
    drops: Mapping[str, str]
    score: float | None
    best_score: float | None
    predicted_load: float | None
    measured_load: float | None
    capacity: float
    rates: Mapping[str, float]
    alarms: tuple[str, ...] = ()
    load_error_mean_abs: float | None = None

    @property
    def of_best(self) -> float | None:
        """The score as a share of the best one."""
        if self.score is None or not self.best_score:
            return None
        return self.score / self.best_score

    @property
    def load_error(self) -> float | None:
        """How far the predicted load is off, as a share of the measured one."""
        if self.predicted_load is None or not self.measured_load:
            return None
        return self.predicted_load / self.measured_load - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "network": self.network,
            "seconds": self.seconds,
            "queries": {
                q.name: {
                    "delivered": q.delivered,
                    "per_second": q.per_second,
                    "weight": q.weight,
                    "latency_seconds": q.latency_seconds,
                    "latency_target_seconds": q.latency_target_seconds,
                }
                for q in self.queries
            },
            "gates": {
                group: {
                    gate: {
                        "offered": offered,
                        "kept": kept,
                        "dropped": dropped,
                        "drop": self.drops.get(gate, "random"),
                    }
                    for gate, (offered, kept, dropped) in gates.items()
                }
                for group, gates in self.gates.items()
            },
            "score": self.score,
            "best_score": self.best_score,
            "score_of_best": self.of_best,
            "predicted_load": self.predicted_load,
            "measured_load": self.measured_load,
            "load_error": self.load_error,
            "load_error_mean_abs": self.load_error_mean_abs,
            "capacity": self.capacity,
            "rates_per_second": dict(self.rates),
            "alarms": list(self.alarms),
        }
