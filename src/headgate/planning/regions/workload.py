"""How likely the input rates are to lie in a box: what `solver-w` weighs errors by.

Two distributions over the rates of all streams of a network, in its order:

    ExponentialRates   independent, one mean a stream, known in closed form
    EmpiricalRates     observed rates, one row an observation, all streams at once

A box is half open, lower <= rate < upper, and its upper end may be infinite, so that
boxes that tile the space have probabilities that sum to 1.

**The papers' lambda.** Figures 10 to 14 of 2007 speak of exponential rates with a
parameter lambda, without a unit, and of a load that *grows* with lambda (section
8.2.2, figure 12). So lambda is not the 1/mean of the textbook but proportional to
the mean; `ExponentialRates.from_lambda` says so and takes the unit, in tuples per
second, from the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from headgate.errors import StatisticsError
from headgate.planning.flow_model import Floats
from headgate.planning.regions.sample_counter import SampleCounter

__all__ = ["EmpiricalRates", "ExponentialRates", "Workload"]


class Workload(Protocol):
    """A distribution over the rates of `streams` streams."""

    @property
    def streams(self) -> int: ...

    def probability(self, lower: Floats, upper: Floats) -> Floats:
        """Of each box, one row each with a column for every stream."""
        ...


@dataclass(frozen=True)
class ExponentialRates:
    """Independent exponential rates. A mean of 0 is a stream that is always silent.

    >>> import numpy as np
    >>> rates = ExponentialRates((10.0, 20.0))
    >>> box = rates.probability(np.array([[0.0, 20.0]]), np.array([[10.0, np.inf]]))
    >>> round(float(box[0]), 4)  # (1 - 1/e) / e
    0.2325
    """

    means_per_second: tuple[float, ...]

    def __post_init__(self) -> None:
        means = np.asarray(self.means_per_second, dtype=np.float64)
        if not np.all(np.isfinite(means) & (means >= 0.0)):
            raise StatisticsError(
                f"the mean rates must be numbers of at least 0, got {self.means_per_second!r}"
            )

    @classmethod
    def from_lambda(cls, lambda_: float, streams: int, unit_per_second: float) -> ExponentialRates:
        """The papers' lambda: every stream has the mean `lambda_ * unit_per_second`."""
        return cls((lambda_ * unit_per_second,) * streams)

    @property
    def streams(self) -> int:
        return len(self.means_per_second)

    def probability(self, lower: Floats, upper: Floats) -> Floats:
        product: Floats = np.prod(self._beyond(lower) - self._beyond(upper), axis=1)
        return product

    def _beyond(self, rates: Floats) -> Floats:
        """The probability of a rate of at least this much, by stream."""
        means = np.asarray(self.means_per_second, dtype=np.float64)
        silent = means <= 0.0
        tail: Floats = np.exp(-rates / np.where(silent, 1.0, means))
        return np.where(silent, (rates <= 0.0).astype(np.float64), tail)


@dataclass(frozen=True)
class EmpiricalRates:
    """The share of observations in each box; `observed` has a row for each observation.

    Guarantee: equal to counting them one by one. Cost: a k-d tree over the
    observations once, then about the square root of their number a box.
    """

    observed: Floats = field(repr=False)
    _counter: SampleCounter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        observed = np.array(self.observed, dtype=np.float64)
        if observed.ndim != 2 or not len(observed):
            raise StatisticsError(
                "observed rates must be a table with one row for each observation and one "
                f"column for each stream, got the shape {observed.shape}"
            )
        if not np.all(np.isfinite(observed) & (observed >= 0.0)):
            row = int(np.flatnonzero(~np.all(np.isfinite(observed) & (observed >= 0.0), axis=1))[0])
            raise StatisticsError(
                f"observed rates must be numbers of at least 0; row {row} is {observed[row]}"
            )
        observed.setflags(write=False)
        object.__setattr__(self, "observed", observed)
        object.__setattr__(self, "_counter", SampleCounter(observed))

    @classmethod
    def from_trace(
        cls, rates_per_second: Sequence[float] | Floats, streams: int, seed: int
    ) -> EmpiricalRates:
        """One trace for several streams: each gets the same rates in an order of its own."""
        trace = np.asarray(rates_per_second, dtype=np.float64)
        rng = np.random.default_rng(seed)
        return cls(np.column_stack([rng.permutation(trace) for _ in range(streams)]))

    @property
    def streams(self) -> int:
        return int(self.observed.shape[1])

    def probability(self, lower: Floats, upper: Floats) -> Floats:
        return self._counter.count(lower, upper) / len(self.observed)
