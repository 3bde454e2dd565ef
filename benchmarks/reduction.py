"""Events per second through reduction policies, Arrow against a loop over plain events.

Claims: at least 5 million events per second and core through three levels of row-wise
filters, 1 million through queue-wise ones, on Arrow. The other side is the same policy
over the same data as plain Python events, in the same run. Rates are per second of one
core's time (`time.process_time`, Arrow on one thread), so that other work on the machine
counts as little as possible; the wall clock is given beside it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import compare
from headgate.reduction import Policy, PolicyBuilder, reduce_to_level, use

ROWS = 1_000_000
EVENTS = 20_000  # of the same data, for the slow side
ROUNDS = 5
ROW_TARGET = 5_000_000
QUEUE_TARGET = 1_000_000


def data(rows: int, seed: int = 1) -> Any:
    """Readings of 1000 sensors: a walking value, a status text, a time."""
    rng = np.random.default_rng(seed)
    status = pa.array(["ok", "warm", "hot", "failed"])
    return pa.record_batch(
        {
            "number": np.arange(rows),
            "sensor": rng.integers(0, 1000, rows),
            "value": np.round(rng.normal(80.0, 15.0, rows), 1),
            "status": status.take(pa.array(rng.choice(4, rows, p=[0.7, 0.2, 0.07, 0.03]))),
            "time": np.arange(rows) / 10_000.0,
        }
    )


def row_wise() -> Policy:
    return (
        PolicyBuilder("row-wise", attribute="value", identity="number")
        .level(use("WITHIN", "drop", low=70, high=90))
        .level(use("EQ", "drop", attribute="status", value="ok"))
        .level(use("RANDOM", "drop", fraction=0.5))
        .digest("COUNT")
        .build()
    )


def row_wise_summed() -> Policy:
    """The same filters with a mean and extremes of what goes."""
    return (
        PolicyBuilder("row-wise, summed", attribute="value", identity="number")
        .level(use("WITHIN", "drop", low=70, high=90))
        .level(use("EQ", "drop", attribute="status", value="ok"))
        .level(use("RANDOM", "drop", fraction=0.5))
        .digest("MEAN")
        .digest("MAX")
        .digest("COUNT")
        .build()
    )


def queue_wise() -> Policy:
    return (
        PolicyBuilder("queue-wise", attribute="value", group="sensor", time="time")
        .level(use("DELTA", "keep", change=5))
        .level(use("RATE_LIMIT", "keep", count=5, per="1s"))
        .level(use("LATEST_PER_KEY", "keep"))
        .digest("COUNT")
        .build()
    )


def queue_wise_whole() -> Policy:
    """Without groups, and with the filters that look back furthest."""
    return (
        PolicyBuilder("queue-wise, no group", attribute="value")
        .level(use("DELTA", "keep", change=5, since="selected"))
        .level(use("GUNIQ", "keep"))
        .level(use("EVERY", "keep", count=2))
        .digest("COUNT")
        .build()
    )


def run() -> dict[str, Any]:
    pa.set_cpu_count(1)
    batch = data(ROWS)
    small = batch.slice(0, EVENTS)
    return {
        "rows": ROWS,
        "row_wise": measured(row_wise(), batch, small, ROW_TARGET),
        "row_wise_summed": measured(row_wise_summed(), batch, small, ROW_TARGET),
        "queue_wise": measured(queue_wise(), batch, small, QUEUE_TARGET),
        "queue_wise_whole": measured(queue_wise_whole(), batch, small, QUEUE_TARGET),
    }


def core_and_wall(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU, and of the wall clock, that one call takes."""
    gc.collect()
    gc.disable()
    try:
        core, wall = time.process_time(), time.perf_counter()
        call()
        return time.process_time() - core, time.perf_counter() - wall
    finally:
        gc.enable()


def measured(policy: Policy, batch: Any, small: Any, target: int) -> dict[str, Any]:
    level = len(policy.levels)
    rounds = [core_and_wall(partial(reduce_to_level, batch, policy, level)) for _ in range(ROUNDS)]
    core, wall = (sorted(times) for times in zip(*rounds, strict=True))
    events = small.to_pylist()
    comparison = compare(
        lambda: reduce_to_level(small, policy, level),
        lambda: reduce_to_level(events, policy, level),
    )
    packing = reduce_to_level(batch, policy, level)
    return {
        "events_per_core_second_median": batch.num_rows / core[ROUNDS // 2],
        "events_per_core_second_best": batch.num_rows / core[0],
        "events_per_wall_second_median": batch.num_rows / wall[ROUNDS // 2],
        "target_events_per_core_second": target,
        "kept": len(packing.kept_rows),
        "against_plain_events": asdict(comparison) | {"rows": small.num_rows},
    }
