"""Results by query: how late they came, and how many are missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.network import Network
from headgate.simulation.jobs import loss_gains
from headgate.simulation.record import QueryOutcome

__all__ = ["ResultBook"]


class ResultBook:
    """A tuple dropped at a gate counts as the results that it would have given on average."""

    def __init__(self, network: Network, target_seconds: float | None) -> None:
        self._gains = loss_gains(network)
        self.queries = {
            q.name: QueryOutcome(
                q.name, q.latency_target_seconds if target_seconds is None else target_seconds
            )
            for q in network.queries
        }

    def results(
        self, query: str, latencies_seconds: NDArray[np.float64], with_latency: bool = True
    ) -> None:
        """New results; during the warm-up they count, but their latency does not."""
        outcome = self.queries[query]
        outcome.results += len(latencies_seconds)
        if with_latency:
            outcome.latency.add(latencies_seconds)

    def dropped(self, gate: str, tuples: int) -> None:
        if tuples:
            for query, gain in self._gains[gate].items():
                self.queries[query].missed += gain * tuples
