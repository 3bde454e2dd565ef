"""What a run of a node with classes leaves behind: a line for each class and load cycle.

Response times are kept by the arrival of the input tuple (as in the 2011 paper's figures)
and, for the load manager, by the cycle in which the result came out.

Memory: one line a class and cycle; results are added up, not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.simulation.operator_engine import Result

__all__ = ["ClassCycle", "OperatorRecord"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClassCycle:
    """One class in one load cycle.

    time_seconds:     end of the cycle.
    offered, dropped: tuples at the class's gate.
    load:             server seconds per second that the class asked for, before shedding.
    headroom:         capacity that its load manager assumed; None where there is none.
    portion:          its share of a round.
    keep_fraction:    what its gate let through.
    response_seconds: mean of the results that came out; None if none did.
    """

    time_seconds: float
    query_class: str
    offered: int
    dropped: int
    load: float
    headroom: float | None
    portion: float
    keep_fraction: float
    response_seconds: float | None


class OperatorRecord:
    """The record of a run; see the module."""

    def __init__(self, classes: Sequence[str], cycle_seconds: float) -> None:
        self.classes = tuple(classes)
        self.cycle_seconds = cycle_seconds
        self.cycles: dict[str, list[ClassCycle]] = {name: [] for name in classes}
        self._sums: dict[str, Floats] = {name: np.zeros(0) for name in classes}
        self._counts: dict[str, Floats] = {name: np.zeros(0) for name in classes}

    def add_cycle(self, cycle: ClassCycle) -> None:
        self.cycles[cycle.query_class].append(cycle)

    def add_results(self, results: Sequence[Sequence[Result]]) -> dict[str, float | None]:
        """Results for each class; returns their mean response time by class."""
        return {
            name: self._add(name, np.array(batch)) if batch else None
            for name, batch in zip(self.classes, results, strict=True)
        }

    def _add(self, name: str, batch: Floats) -> float:
        arrivals, outs, counts = batch.T
        sums = (outs - arrivals) * counts
        bins = np.maximum(arrivals / self.cycle_seconds, 0.0).astype(np.int64)
        self._sums[name] = _summed(self._sums[name], bins, sums)
        self._counts[name] = _summed(self._counts[name], bins, counts)
        return float(sums.sum() / counts.sum())

    def results(self, query_class: str) -> int:
        """Results that the class has given."""
        return int(self._counts[query_class].sum())

    def mean_response_seconds(
        self, query_class: str, from_seconds: float = 0.0, to_seconds: float = np.inf
    ) -> float:
        """Mean over the results of tuples that arrived in the interval; NaN if there are none."""
        sums, counts = self._sums[query_class], self._counts[query_class]
        starts = np.arange(len(sums)) * self.cycle_seconds
        inside = (starts >= from_seconds - 1e-9) & (starts < to_seconds - 1e-9)
        count = float(counts[inside].sum())
        return float(sums[inside].sum()) / count if count else float("nan")

    def loss_fraction(
        self, query_class: str, from_seconds: float = 0.0, to_seconds: float = np.inf
    ) -> float:
        """Dropped over offered in the interval; 0 if nothing was offered."""
        inside = [
            c
            for c in self.cycles[query_class]
            if from_seconds + 1e-9 < c.time_seconds <= to_seconds + 1e-9
        ]
        offered = sum(c.offered for c in inside)
        return sum(c.dropped for c in inside) / offered if offered else 0.0

    def responses_by_arrival(self, query_class: str, step_seconds: float) -> tuple[Floats, Floats]:
        """Middle of each step and the mean response of the tuples that arrived in it."""
        sums, counts = self._sums[query_class], self._counts[query_class]
        steps = (np.arange(len(sums)) * self.cycle_seconds / step_seconds + 1e-9).astype(np.int64)
        total, number = np.bincount(steps, sums), np.bincount(steps, counts)
        seen = np.flatnonzero(number)
        middles: Floats = (seen + 0.5) * np.float64(step_seconds)
        return middles, total[seen] / number[seen]


def _summed(totals: Floats, bins: NDArray[np.int64], values: Floats) -> Floats:
    added = np.zeros(max(len(totals), int(bins.max()) + 1))
    added[: len(totals)] = totals
    np.add.at(added, bins, values)
    return added
