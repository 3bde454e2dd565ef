"""What a gate observes and the agent reads: names and quantiles.

A source in a process of its own needs a name from here too, so this imports nothing of Headgate.
"""

from __future__ import annotations

import itertools
import re

__all__ = [
    "ARRIVAL_QUANTILES",
    "METRIC_PREFIX",
    "RESULT_PREFIX",
    "RESULT_QUANTILES",
    "SAMPLED_TUPLES",
    "gate_in",
    "is_of_a_gate",
    "metric_name",
]

METRIC_PREFIX = "headgate:"
_NUMBERED = re.compile(r"#\d+\Z")
_numbers = itertools.count(1)
ARRIVAL_QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Of the arrivals of kept tuples; 0.05 of the arrivals are older than 95 % of the latencies."""
SAMPLED_TUPLES = 16
"""One kept tuple in so many is looked at for them."""
RESULT_PREFIX = "headgate results:"
RESULT_QUANTILES = (0.0, 0.01, 0.05, 0.5)
"""Of the arrivals behind results; latency percentiles 100, 99, 95 and 50."""


def metric_name(gate: str, prefix: str = METRIC_PREFIX) -> str:
    """What a new gate calls its metrics. Numbered, so that two gates of one name on different
    streams can stand in one plan of Spark until `Headgate.start` says what is wrong with it.
    """
    return f"{prefix}{gate}#{next(_numbers)}"


def gate_in(metric: str, prefix: str = METRIC_PREFIX) -> str | None:
    """The gate that observed this; None for what is not of a gate.

    >>> gate_in("headgate:orders#7"), gate_in("headgate:orders"), gate_in("mine")
    ('orders', 'orders', None)
    """
    return _NUMBERED.sub("", metric[len(prefix) :]) if metric.startswith(prefix) else None


def is_of_a_gate(metric: str) -> bool:
    """True for a name that `metric_name` made: not for what a program observes by hand."""
    return metric.startswith(METRIC_PREFIX) and _NUMBERED.search(metric) is not None
