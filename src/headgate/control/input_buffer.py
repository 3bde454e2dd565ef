"""The latency of a tuple in a buffer that is thinned each period, and how many fit.

Every period P the shedder looks at all N tuples of the buffer and keeps n of them
at random, old and new alike; A tuples arrive and m are processed until the next
time. So a tuple moves forward in two ways: m tuples in front of it are processed,
and some of those in front are dropped. With keep fraction f = n / N a tuple at the
end of the buffer has x tuples in front, then f (x - m), and so on. It is out after
K = T / P periods if

    n = m (1 + 1/f + ... + 1/f^(K-1)),    N = n - m + A,

which has the closed solution

    n = (A - m) / ((A / m)^(1/K) - 1),    and n = K m when A <= m.

For a short period this is the logarithmic mean of arrival and service rate times
the target. It is larger than the plain m T / P (2.7 m instead of 2 m at three times
the capacity and K = 2): who forgets the thinning sheds too much.

Looking costs server time too, so m depends on N and therefore on n. `plan_buffer`
solves for both with Newton's method, held between two bounds. Pure functions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from headgate.control.cost_estimate import TupleCosts

__all__ = ["BufferPlan", "buffer_drain_periods", "buffer_tuples_for_periods", "plan_buffer"]

_MOST_STEPS = 24
_CLOSE = 1e-6
"""So much of the server's time may be left over, or be too much, as a share."""


def buffer_tuples_for_periods(periods: float, arrived: float, processed: float) -> float:
    """n for which a tuple at the end of the buffer is out after `periods`.

    `arrived` and `processed` are tuples per period.

    >>> round(buffer_tuples_for_periods(2, arrived=300, processed=100), 1)
    273.2
    """
    if processed <= 0.0 or periods <= 0.0:
        return 0.0
    return _tuples_and_growth(periods, arrived, processed)[0]


def buffer_drain_periods(tuples: float, arrived: float, processed: float) -> float:
    """The other way round: periods until a tuple with `tuples` in front of it is out."""
    if tuples <= 0.0:
        return 0.0
    if processed <= 0.0:
        return math.inf
    surplus = arrived - processed
    if surplus <= 1e-9 * processed:
        return tuples / processed
    return math.log(arrived / processed) / math.log1p(surplus / tuples)


class BufferPlan(NamedTuple):
    """keep_tuples fit the target; processed_per_period is what the server will do.

    `reachable` is False when looking at the arrivals alone fills the server.
    """

    keep_tuples: float
    processed_per_period: float
    reachable: bool


def plan_buffer(
    costs: TupleCosts,
    waiting_tuples: float,
    arrived_per_period: float,
    period_seconds: float,
    target_seconds: float,
    server_share: float,
    least_slack: float,
) -> BufferPlan:
    """How many of the `waiting_tuples` may stay in the buffer after this period's shedding.

    While arrivals exceed the capacity a tuple counts on the thinning to come. When
    they no longer do, it has to get out without: what came before the last period is
    older than a period, and has only the rest of the target left.

    When looking leaves less than `least_slack` of the server for processing, the
    plan is made for that share all the same, and says that it is not reachable.
    """
    available = period_seconds * server_share - costs.fixed_seconds
    cost = costs.processing_seconds
    if cost <= 0.0:
        return BufferPlan(math.inf, math.inf, True)
    periods = max(0.0, target_seconds - cost) / period_seconds
    smallest = least_slack * period_seconds * server_share / cost
    unlooked = (available - costs.looking_seconds * arrived_per_period) / cost
    if unlooked >= arrived_per_period:  # capacity suffices: nothing is thinned later
        fits = periods * unlooked
        older = waiting_tuples - arrived_per_period
        if waiting_tuples > fits and older > 0.0:
            fits = min(fits, waiting_tuples * max(0.0, fits - unlooked) / older)
        return BufferPlan(max(fits, 1.0), unlooked, True)
    low, high = smallest, available / cost
    if high <= low or unlooked <= low:
        return BufferPlan(
            max(1.0, buffer_tuples_for_periods(periods, arrived_per_period, smallest)),
            smallest,
            False,
        )
    looking, close = costs.looking_seconds, _CLOSE * available
    middle = min(unlooked, high)
    for _ in range(_MOST_STEPS):
        kept, growth = _tuples_and_growth(periods, arrived_per_period, middle)
        newly = arrived_per_period - middle
        if newly > 0.0:
            slack, growth = available - cost * middle - looking * (kept + newly), growth - 1.0
        else:
            slack = available - cost * middle - looking * kept
        if -close <= slack <= close:
            break
        if slack > 0.0:
            low = middle
        else:
            high = middle
        slope = cost + looking * growth
        middle = middle + slack / slope if slope > 0.0 else math.inf
        if not low < middle < high:
            middle = 0.5 * (low + high)
    return BufferPlan(kept if kept > 1.0 else 1.0, middle, True)


def _tuples_and_growth(periods: float, arrived: float, processed: float) -> tuple[float, float]:
    """`buffer_tuples_for_periods`, and how it grows with `processed`."""
    surplus = arrived - processed
    if periods <= 0.0 or surplus <= 1e-9 * processed:
        return periods * processed, periods
    exponent = math.log(arrived / processed) / periods
    if exponent > 700.0:
        return 0.0, 0.0
    thinned = math.expm1(exponent)
    tuples = surplus / thinned
    return tuples, (tuples * (1.0 + thinned) / (periods * processed) - 1.0) / thinned
