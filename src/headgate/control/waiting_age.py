"""How old are the tuples that wait, when only their number is known?

Tuples that come evenly are half as old, on average, as the interval that they came in.
Where the rate steps inside the interval they are not: after a step upwards most are
younger. The number that waits tells that there was a step (they are more than the rate
before would have brought), not when. With the last rate as the unit, a step by the factor k
that left the share u of the interval to the new rate has brought

    x = 1 + (k - 1) u    tuples, whose mean age is    (1 + (x - 1) u) / (2 x)

of the interval. Nothing is known of u but that k is not extreme, so the middle of what is
possible stands for it. The interval after a step shows the rest of it: a change in the
same direction is no second step.

A change of the number is a step only outside of the usual noise. So arrivals in bursts,
which are as old as others, are left alone.

Guarantee: a share between 0.4 and 0.6; 1/2 while the numbers are steady. Memory: constant.

>>> ages = WaitingAge()
>>> ages.share(1000, 1.0), ages.share(1500, 1.0), ages.share(2000, 1.0), ages.share(2000, 1.0)
(0.5, 0.4375, 0.5, 0.5)
"""

from __future__ import annotations

import math

__all__ = ["WaitingAge"]

_EVEN = 0.5
_LARGEST_STEP = 3.0
"""Of a step nothing is expected beyond this factor, up or down."""
_NOISE_AT_START = 0.02
_NOISE_MEMORY = 0.9
_OUTSIDE = 3.0
"""A change is a step when it is this many times the usual one."""
_RATE_MEMORY = 0.5
_SHORTEST_SECONDS = 1e-6


class WaitingAge:
    """Ask `share` once for each batch, when it begins."""

    def __init__(self) -> None:
        self._rate_per_second: float | None = None
        self._noise = _NOISE_AT_START
        self._stepped = 0.0  # the logarithm of the step in the last interval, if there was one

    def share(self, waiting_tuples: int, interval_seconds: float) -> float:
        """Mean age of what waits, as a share of the interval in which it came."""
        if waiting_tuples <= 0 or interval_seconds < _SHORTEST_SECONDS:
            return _EVEN
        rate = waiting_tuples / interval_seconds
        last, self._rate_per_second = self._rate_per_second, rate
        if last is None:
            return _EVEN
        change, stepped = rate / last, self._stepped
        step = math.log(change)
        size, self._stepped = abs(step), 0.0
        if step * stepped > 0.0:
            return _EVEN
        noise, least = self._noise, 1.0 / math.sqrt(waiting_tuples)
        least = _OUTSIDE * (noise if noise > least else least)
        if size <= least:
            self._noise = noise + (1.0 - _NOISE_MEMORY) * (size - noise)
            self._rate_per_second = last + (1.0 - _RATE_MEMORY) * (rate - last)
            return _EVEN
        self._noise = noise + (1.0 - _NOISE_MEMORY) * (least - noise)
        self._stepped = step
        return _share_after(change)


def _share_after(change: float) -> float:
    """The mean age, with the middle of the possible shares of the new rate."""
    largest = _LARGEST_STEP if change > 1.0 else 1.0 / _LARGEST_STEP
    least_new = (change - 1.0) / (largest - 1.0)
    if least_new >= 1.0:
        return _EVEN
    return (1.0 + (change - 1.0) * 0.5 * (least_new + 1.0)) / (2.0 * change)
