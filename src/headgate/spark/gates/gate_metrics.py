"""What a gate observes and the agent reads: names and quantiles.

A source in a process of its own needs a name from here too, so this imports nothing.
"""

from __future__ import annotations

__all__ = [
    "ARRIVAL_QUANTILES",
    "METRIC_PREFIX",
    "RESULT_PREFIX",
    "RESULT_QUANTILES",
    "SAMPLED_TUPLES",
]

METRIC_PREFIX = "headgate:"
ARRIVAL_QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Of the arrivals of kept tuples; 0.05 of the arrivals are older than 95 % of the latencies."""
SAMPLED_TUPLES = 16
"""One kept tuple in so many is looked at for them."""
RESULT_PREFIX = "headgate results:"
RESULT_QUANTILES = (0.0, 0.01, 0.05, 0.5)
"""Of the arrivals behind results; latency percentiles 100, 99, 95 and 50."""
