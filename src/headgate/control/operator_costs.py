"""What each of several parts costs, learnt from batches of which only the total is known.

A batch that sends n_i tuples through part i takes

    seconds = fixed + sum of cost_i * n_i + noise

The costs are followed by a Kalman filter: they drift slowly, the noise is a share of the total,
and more where totals scatter by more (a machine that others use too).
At the start all costs may be wrong by one common factor (another machine) and each by its own.

Guarantees: costs are at least 0; equal observations in equal order give equal costs; memory is
the square of the number of parts. What never varied apart (two parts of a chain) cannot be told
apart: their sum is learnt, and the ratio stays as it was believed at first.
Not guaranteed: anything before the first observation.
Cost: the square of the number of parts for an observation, microseconds for twenty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["OperatorCostSettings", "OperatorCosts"]

_LEAST = 0.01  # of what was believed: a cost of nothing could not grow again
_SCATTER_MEMORY = 0.1
_FIRST_BATCHES = 5
_FAR_FASTER = 3.0  # times: no batch takes less than its tuples do


@dataclass(frozen=True, slots=True)
class OperatorCostSettings:
    """believed_*: standard deviations at the start, as a share of what is believed.

    fixed_seconds, fixed_deviation_seconds: of what a batch costs with no tuple in it.
    drift: how far a cost moves from one batch to the next, as a share of it;
    common_drift: how far all of them move together, as the machine gets slower or faster.
    noise: of the total of a batch, as a share of it; never below noise_seconds.
    """

    believed_scale: float = 3.0
    believed_ratio: float = 1.0
    fixed_seconds: float = 0.02
    fixed_deviation_seconds: float = 0.1
    drift: float = 0.02
    common_drift: float = 0.05
    noise: float = 0.1
    noise_seconds: float = 0.005


class OperatorCosts:
    """See the module.

    >>> costs = OperatorCosts({"parse": 1e-4, "join": 1e-4})
    >>> for parse, join in ((1000, 1000), (1000, 100), (500, 500), (2000, 100)) * 20:
    ...     costs.observe({"parse": parse, "join": join}, 2e-4 * parse + 6e-4 * join)
    >>> {name: f"{seconds:.1g}" for name, seconds in costs.cost_seconds.items()}
    {'parse': '0.0002', 'join': '0.0006'}
    """

    def __init__(
        self, believed: Mapping[str, float], settings: OperatorCostSettings | None = None
    ) -> None:
        self.settings = settings or OperatorCostSettings()
        self._names = tuple(believed)
        mean = np.array([believed[name] for name in self._names], dtype=np.float64)
        self._state = np.concatenate(([self.settings.fixed_seconds], mean))
        scale, ratio = self.settings.believed_scale * mean, self.settings.believed_ratio * mean
        self._variance = np.zeros((mean.size + 1, mean.size + 1))
        self._variance[0, 0] = self.settings.fixed_deviation_seconds**2
        self._variance[1:, 1:] = np.outer(scale, scale) + np.diag(ratio**2)
        self._least = np.concatenate(([0.0], _LEAST * mean))
        self._missed: float | None = None  # by how much the last total was above the expected
        self._scatter = 0.0  # variance of that, from one batch to the next
        self.observations = 0

    @property
    def cost_seconds(self) -> dict[str, float]:
        return dict(zip(self._names, self._state[1:].tolist(), strict=True))

    @property
    def fixed_seconds(self) -> float:
        """What a batch costs however few tuples it has."""
        return float(self._state[0])

    def seconds(self, tuples: Mapping[str, float]) -> float:
        """What a batch of these tuples is expected to take."""
        return float(self._row(tuples) @ self._state)

    def observe(self, tuples: Mapping[str, float], seconds: float) -> None:
        """A batch sent so many tuples through each part and took so long.

        A total that is not a number of at least 0 teaches nothing.
        """
        if not (math.isfinite(seconds) and seconds >= 0.0):
            return
        if self.observations == 0 or self._is_far_faster(tuples, seconds):
            self._take_scale(tuples, seconds)
        self._drift()
        row, settings = self._row(tuples), self.settings
        expected = float(row @ self._state)
        toward = self._variance @ row
        unsure, missed = float(row @ toward), seconds - expected
        usual = max(settings.noise * max(seconds, min(expected, 3.0 * seconds)), 1e-12)
        noise = max(usual**2, settings.noise_seconds**2, self._scatter - unsure)
        if self._missed is not None and self.observations > 1:
            step = (missed - self._missed) ** 2 / 2.0
            self._scatter += _SCATTER_MEMORY * (step - self._scatter)
        self._missed = missed
        gain = toward / (unsure + noise)
        self._state = np.maximum(self._state + gain * missed, self._least)
        self._variance -= np.outer(gain, toward)
        self._variance = (self._variance + self._variance.T) / 2.0
        self.observations += 1

    def _is_far_faster(self, tuples: Mapping[str, float], seconds: float) -> bool:
        """The first batches had few tuples, or a cold machine: their time was not the tuples'."""
        part = float(self._row(tuples)[1:] @ self._state[1:])
        return self.observations < _FIRST_BATCHES and part > _FAR_FASTER * seconds

    def _take_scale(self, tuples: Mapping[str, float], seconds: float) -> None:
        """A batch says how fast the machine is; beliefs are about ratios."""
        part = float(self._row(tuples)[1:] @ self._state[1:])
        left = max(seconds - self._state[0], 0.1 * seconds)
        if part <= 0.0 or left <= 0.0:
            return
        scale = left / part
        self._state[1:] *= scale
        self._least[1:] *= scale
        self._variance[1:] *= scale
        self._variance[:, 1:] *= scale

    def _drift(self) -> None:
        """Costs may have moved, but nobody forgets more than was unknown at the start."""
        settings = self.settings
        size = np.maximum(self._state, 10.0 * self._least)
        believed = settings.believed_ratio * size
        believed[0] = settings.fixed_deviation_seconds
        diagonal = np.diagonal(self._variance)
        step = np.where(diagonal < believed**2, (settings.drift * size) ** 2, 0.0)
        together = settings.common_drift * size * (step > 0.0)
        self._variance = self._variance + np.diag(step) + np.outer(together, together)

    def _row(self, tuples: Mapping[str, float]) -> np.ndarray:
        return np.array([1.0, *(tuples.get(name, 0.0) for name in self._names)])
