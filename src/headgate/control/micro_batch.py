"""The latency of a tuple under micro-batches, and how many tuples fit a target.

A tuple waits until its batch begins, then for the whole batch:

    latency = age when the batch starts + duration of the batch

Tuples arrive evenly over the interval I between two batch starts, so the age at
the quantile p is p I (the mean is p = 1/2). A saturated query starts a batch when
the last one ends, so the duration D of one batch is the interval of the next, and
the duration that holds the target T for ever is

    D* = T / (1 + p).

After an interval that was too long or too short, D = T - p I holds the target in
this very batch. For the mean the error halves and changes its sign each time. For
p near 1 it would hardly shrink, so a batch after a short interval grows by at most
half of the gap; the target is then met with a little to spare.

Where the age of the waiting tuples is known, or guessed (`waiting_age`), it stands in the
place of p I. While the rate rises most tuples are young, and the batch may last longer by
as much as they are younger, up to an eighth of the interval. This comes from the arrivals,
not from the last batch, so it changes nothing in how fast an error shrinks.

Pure functions, O(1).
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.control.cost_estimate import TupleCosts

__all__ = ["BatchOutlook", "plan_micro_batch", "smallest_micro_batch_latency_seconds"]

_STRONGEST_STRETCH = 0.5
_YOUNGER_AT_MOST = 0.125


class BatchOutlook(NamedTuple):
    """What the next batch meets, apart from the costs.

    waiting_tuples:   offered to the batch.
    age_seconds:      age of its tuples at the chosen quantile when the batch begins.
    interval_seconds: from the start of the last batch to the start of this one.
    quantile:         the quantile of latency that is held (the mean is 0.5).
    server_share:     share of the server that the batch has.
    """

    waiting_tuples: int
    age_seconds: float
    interval_seconds: float
    quantile: float = 0.5
    server_share: float = 1.0

    def latency_seconds(self, costs: TupleCosts, keep_tuples: float) -> float:
        """Predicted latency at the quantile if `keep_tuples` are kept."""
        waiting, age, _, _, share = self
        fixed, looking, processing = costs
        return age + (fixed + looking * waiting + processing * keep_tuples) / share


def plan_micro_batch(
    outlook: BatchOutlook, costs: TupleCosts, target_seconds: float, least_slack: float
) -> tuple[float, float]:
    """How many tuples to keep so that the batch holds `target_seconds`, and the latency then.

    Everything if it fits. Never less than what can be processed in `least_slack`
    of the target, so that something is kept even when the target is out of reach.
    """
    waiting, age, interval, quantile, share = outlook
    fixed, look, process = costs
    everything = float(waiting)
    looked = (fixed + look * everything) / share
    latency = age + looked + process * everything / share
    if latency <= target_seconds or process <= 0.0:  # at a cost of 0, dropping saves nothing
        return everything, latency
    longest = lasting = target_seconds / (1.0 + quantile)
    if interval < lasting:
        longest += _STRONGEST_STRETCH * (lasting - interval)
    younger = quantile * interval - age
    if younger > 0.0:
        longest += min(younger, _YOUNGER_AT_MOST * interval)
    duration = target_seconds - age
    if duration > longest:
        duration = longest
    seconds = duration - looked
    if seconds < least_slack * target_seconds:
        seconds = least_slack * target_seconds
    keep = seconds * share / process
    return (keep, age + looked + seconds) if keep < everything else (everything, latency)


def smallest_micro_batch_latency_seconds(
    costs: TupleCosts,
    arrival_rate_per_second: float,
    trigger_seconds: float,
    quantile: float,
    server_share: float,
) -> float:
    """The latency that lasts when every tuple is dropped; infinite if looking alone is too much."""
    looking_load = arrival_rate_per_second * costs.looking_seconds / server_share
    if looking_load >= 1.0:
        return float("inf")
    fixed = costs.fixed_seconds / server_share
    interval = max(trigger_seconds, fixed / (1.0 - looking_load))
    return quantile * interval + fixed + looking_load * interval
