"""What a gate costs when there is nothing to shed and half of the capacity is used.

Three queries run for minutes in one session: one with a gate and two without, else the same. They
take turns by the clock, a batch every half second, so a batch with a gate and the two beside it
see the same machine. Each batch has as many rows as the query does in half of that time when
saturated and without a gate (the median of some rounds of this run). The queries are `cheap`,
`parsing` and `heavy` of `overhead`. Longer batches are no better to compare: on a machine that is
shared with others the same batch takes a sixth longer or shorter each time, whatever its length.

`extra` is the time of a batch with a gate less the mean of the two without that come next to it,
`noise` the difference of these two, which is what this way to measure shows where nothing
differs: medians over all batches, and the middle half of them. A JVM goes on compiling for
minutes, and how fast code gets differs from JVM to JVM. So there are several, each with all
queries; `by_jvm` has the medians of each. The JVM keeps what it has compiled
(`-XX:-UseCodeCacheFlushing`): Java 17 throws away code that has not run for a while, and that of a
driver with a batch a second is compiled again and again.
`throughput_ratio`: rows a second with a gate over those without; intervals differ by up to 0.3 %.
`over_all`: the differences of all batches of all three queries together.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.spark.environment import progress_of, spark_and_headgate, stolen_cpu_seconds
from benchmarks.spark.overhead import batch_times, compare, hashing, parsing, stream_of
from headgate.spark.local_session import PLAIN_FILES

__all__ = ["run"]

JVMS = 2
BATCHES = 60
_SIDES = ("gate", "plain", "plain too")
_SLOT_MS = 500
_WARM_UP_BATCHES = 40
_SATURATED_ROUNDS = 3
_SETTINGS = {**PLAIN_FILES, "spark.driver.extraJavaOptions": "-XX:-UseCodeCacheFlushing"}
_PARTS = {
    "batch": "triggerExecution",
    "add_batch": "addBatch",
    "planning": "queryPlanning",
    "asking": "latestOffset",
    "offset_log": "walCommit",
    "commit": "commitOffsets",
}

Batch = dict[str, float]


def run(jvms: int = JVMS, batches: int = BATCHES) -> dict[str, Any]:
    spawn = multiprocessing.get_context("spawn")
    seen = []
    for number in range(jvms):
        print(f"  JVM {number + 1} of {jvms} ...", file=sys.stderr, flush=True)
        with ProcessPoolExecutor(1, spawn) as pool:
            seen.append(pool.submit(in_one_jvm, batches).result())
    found: dict[str, Any] = {"jvms": jvms, "batches_of_each": batches}
    for name in seen[0]:
        by_jvm = [one[name] for one in seen]
        found[name] = {
            **_figures([rows for one in by_jvm for rows in one["batches"]]),
            "by_jvm": [_of_one_jvm(one) for one in by_jvm],
        }
    every = [rows for one in seen for own in one.values() for rows in own["batches"]]
    return {**found, "over_all": _figures(every)}


def in_one_jvm(batches: int) -> dict[str, dict[str, Any]]:
    """By query the rows of a batch, and the batches of the three sides."""
    queries = {
        "cheap": (hashing(2), 200_000),
        "parsing": (parsing, 100_000),
        "heavy": (hashing(40), 20_000),
    }
    with spark_and_headgate(_SETTINGS) as (spark, hg):
        compare(spark, hg, parsing, 1000, rounds=2, warm_up=25)  # Java has much to compile
        return {
            name: _measured(spark, hg, work, rows, batches)
            for name, (work, rows) in queries.items()
        }


def _measured(spark: Any, hg: Any, work: Any, rows: int, batches: int) -> dict[str, Any]:
    saturated = []
    for number in range(_SATURATED_ROUNDS):
        for gated in (True, False) if number % 2 == 0 else (False, True):
            times = batch_times(spark, hg, work, rows, gated)
            if not gated:
                saturated.append(times["trigger_ms"])
    half = round(0.5 * _SLOT_MS * rows / median(saturated))
    stolen, since = stolen_cpu_seconds(), time.time()
    found = _in_turn(spark, hg, work, half, batches)
    taken = (stolen_cpu_seconds() - stolen) / (time.time() - since)
    seen = {"rows_of_a_batch": half, "stolen_cores": taken, "batches": found}
    print(f"    {_of_one_jvm(seen)}", file=sys.stderr, flush=True)
    return seen


def _in_turn(spark: Any, hg: Any, work: Any, rows: int, batches: int) -> list[tuple[Batch, ...]]:
    """Batches of the sides that came next to each other, after those that warm up."""
    intervals = intervals_in_turn(round(1000.0 * time.time()), _SLOT_MS, len(_SIDES))
    queries = []
    try:
        for side, interval in zip(_SIDES, intervals, strict=True):
            stream = stream_of(spark, rows)
            if side == "gate":
                stream = hg.gate(stream, "orders", arrival="timestamp", identity=["value"])
            writer = work(stream).trigger(processingTime=f"{interval} milliseconds")
            name = f"half{time.time_ns()}"
            gated = side == "gate"
            query = hg.start(writer, name=name, latency="600s") if gated else writer.start()
            queries.append(query)
        while min(len(progress_of(query)) for query in queries) < _WARM_UP_BATCHES + batches + 2:
            time.sleep(0.5)
    finally:
        for query in queries:
            query.stop()
    sides = [[_batch(progress) for progress in progress_of(query)] for query in queries]
    begin = max(side[_WARM_UP_BATCHES]["at"] for side in sides)
    after = [[batch for batch in side if batch["at"] >= begin] for side in sides]
    return list(zip(*after, strict=False))[:batches]


def intervals_in_turn(now_ms: int, slot_ms: int, sides: int) -> tuple[int, ...]:
    """Intervals in milliseconds of about `sides` slots, so that triggers come in turn for a while.

    Spark starts a batch at whole multiples of the interval since 1970. Intervals that differ by
    a few milliseconds are therefore at quite different places now, and drift apart slowly.

    >>> intervals = intervals_in_turn(1_790_000_000_000, 1000, 3)
    >>> places = sorted(1_790_000_200_000 % interval for interval in intervals)
    >>> [round(later - sooner, -2) for sooner, later in zip(places, places[1:])]
    [1000, 1000]
    """
    whole = sides * slot_ms
    middle = now_ms + 200 * slot_ms  # of what is measured, about
    best: tuple[float, tuple[int, ...]] = (float("inf"), ())
    for first in range(round(0.95 * whole), round(1.05 * whole)):
        place = middle % first
        found = [first]
        error = 0.0
        for number in range(1, sides):
            near = {
                other: abs(
                    (middle % other - place - number * slot_ms + whole / 2) % whole - whole / 2
                )
                for other in range(first - 4, first + 5)
                if other not in found
            }
            found.append(min(near, key=near.__getitem__))
            error += near[found[-1]]
        best = min(best, (error, tuple(found)))
    return best[1]


def _batch(progress: dict[str, Any]) -> Batch:
    times = progress["durationMs"]
    at = datetime.fromisoformat(progress["timestamp"]).timestamp()
    parts = {part: float(times.get(key, 0)) for part, key in _PARTS.items()}
    return {"at": at, "rows": progress["numInputRows"], **parts}


def _of_one_jvm(seen: dict[str, Any]) -> dict[str, Any]:
    batches = seen["batches"]
    gate, *plain = (_rows_per_second(side) for side in zip(*batches, strict=True))
    throughput = {"throughput_ratio": gate / mean(plain)}
    return {**{k: v for k, v in seen.items() if k != "batches"}, **throughput, **_figures(batches)}


def _rows_per_second(side: Sequence[Batch]) -> float:
    return sum(batch["rows"] for batch in side[1:]) / (side[-1]["at"] - side[0]["at"])


def _figures(batches: Sequence[tuple[Batch, ...]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "batch_ms_with_gate": median(gate["batch"] for gate, *_ in batches),
        "batch_ms_without_gate": median(one["batch"] for _, *plain in batches for one in plain),
    }
    for part in _PARTS:
        extra = [gate[part] - mean(one[part] for one in plain) for gate, *plain in batches]
        found |= {f"extra_{part}_ms": _spread(extra) if part == "batch" else median(extra)}
    found["noise_ms"] = _spread(plain["batch"] - too["batch"] for _, plain, too in batches)
    return found


def _spread(values: Iterable[float]) -> dict[str, float]:
    low, middle, high = map(float, np.percentile(list(values), (25, 50, 75)))
    return {"median": middle, "quarter": low, "three_quarters": high}
