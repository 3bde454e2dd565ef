"""What a gate costs when there is nothing to shed and half of the capacity is used.

Spark's rate source gives half of what a query can do without a gate (the median of some rounds of
this run), a batch every second, with a gate and without in turn. The queries are `cheap`, `parsing`
and `heavy` of `overhead`. Throughput is rows a second from the first to the last measured batch,
`cpu` the CPU time of Spark's JVM for each batch, which other work on the machine moves less, and
`compiling` the time in which that JVM compiled code, on threads of its own.

A JVM goes on compiling for minutes, and how fast code gets differs from JVM to JVM. So there are
several, each with all rounds of all queries, and figures are medians over the rounds of all of
them; `by_jvm` has those of each. Both sides run equally often before anything is measured. In
the rounds a query leaves some batches out, because a start is compiled too. The JVM keeps what it
has compiled (`-XX:-UseCodeCacheFlushing`): Java 17 throws away code that has not run for a while,
and that of a driver with a batch a second is compiled again and again.
`over_all`: the differences of all rounds of all three queries together.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from statistics import median
from typing import Any

from benchmarks.spark.environment import jvm_cpu_seconds, progress_of, spark_and_headgate
from benchmarks.spark.overhead import BATCHES, batch_times, compare, hashing, medians, parsing
from headgate.spark.local_session import PLAIN_FILES

__all__ = ["run"]

JVMS = 2
ROUNDS = 4
_SATURATED_ROUNDS = 3
_LEFT_OUT = 5  # batches of a round
_SETTINGS = {**PLAIN_FILES, "spark.driver.extraJavaOptions": "-XX:-UseCodeCacheFlushing"}

Pairs = list[tuple[dict[str, float], dict[str, float]]]


def run(jvms: int = JVMS, rounds: int = ROUNDS) -> dict[str, Any]:
    spawn = multiprocessing.get_context("spawn")
    seen = []
    for number in range(jvms):
        print(f"  JVM {number + 1} of {jvms} ...", file=sys.stderr, flush=True)
        with ProcessPoolExecutor(1, spawn) as pool:
            seen.append(pool.submit(in_one_jvm, rounds).result())
    found: dict[str, Any] = {"jvms": jvms, "rounds_of_each": rounds}
    for name in seen[0]:
        rates, pairs = zip(*(one[name] for one in seen), strict=True)
        by_jvm = [
            {"rows_per_second": rate, **_figures(own)}
            for rate, own in zip(rates, pairs, strict=True)
        ]
        found[name] = {**_figures([pair for own in pairs for pair in own]), "by_jvm": by_jvm}
    every = [pair for one in seen for _, pairs in one.values() for pair in pairs]
    return {**found, "over_all": _figures(every)}


def in_one_jvm(rounds: int) -> dict[str, tuple[int, Pairs]]:
    """By query the rate, and what was seen with the gate and without, by round."""
    queries = {
        "cheap": (hashing(2), 200_000),
        "parsing": (parsing, 100_000),
        "heavy": (hashing(40), 20_000),
    }
    with spark_and_headgate(_SETTINGS) as (spark, hg):
        compare(spark, hg, parsing, 1000, rounds=2, warm_up=25)  # Java has much to compile
        return {
            name: _measured(spark, hg, work, rows, rounds) for name, (work, rows) in queries.items()
        }


def _measured(spark: Any, hg: Any, work: Any, rows: int, rounds: int) -> tuple[int, Pairs]:
    saturated = []
    for number in range(_SATURATED_ROUNDS):
        for gated in _in_turn(number):
            times = batch_times(spark, hg, work, rows, gated)
            if not gated:
                saturated.append(times["trigger_ms"])
    rate = round(rows / (median(saturated) / 1000.0) / 2.0)
    pairs: Pairs = []
    for number in range(rounds):
        seen = {gated: _at_rate(spark, hg, work, rate, gated) for gated in _in_turn(number)}
        pairs.append((seen[True], seen[False]))
        print(f"    {seen[True]}\n    {seen[False]}", file=sys.stderr, flush=True)
    return rate, pairs


def _in_turn(number: int) -> tuple[bool, bool]:
    return (True, False) if number % 2 == 0 else (False, True)


def _figures(pairs: Pairs) -> dict[str, Any]:
    ratios = [a["rows_per_second"] / b["rows_per_second"] for a, b in pairs]
    found: dict[str, Any] = {
        "batch_ms_with_gate": median(a["trigger_ms"] for a, _ in pairs),
        "batch_ms_without_gate": median(b["trigger_ms"] for _, b in pairs),
        "cpu_ms_with_gate": median(a["cpu_ms"] for a, _ in pairs),
        "cpu_ms_without_gate": median(b["cpu_ms"] for _, b in pairs),
        "throughput_ratio_median": median(ratios),
        "throughput_ratio_least": min(ratios),
        "throughput_ratio_most": max(ratios),
    }
    for key, name in (("trigger_ms", "extra_ms"), ("cpu_ms", "extra_cpu_ms")):
        extra = [a[key] - b[key] for a, b in pairs]
        found |= {
            f"{name}_median": median(extra),
            f"{name}_least": min(extra),
            f"{name}_most": max(extra),
        }
    for part in ("add_ms", "planning_ms", "latest_ms", "compiling_ms"):
        found[f"extra_{part}_median"] = median(a[part] - b[part] for a, b in pairs)
    return found


def _at_rate(spark: Any, hg: Any, work: Any, rate: int, gated: bool) -> dict[str, float]:
    """Rows a second, and medians over batches; `cpu_ms` is the JVM's for each."""
    stream = spark.readStream.format("rate").option("rowsPerSecond", rate)
    stream = stream.option("numPartitions", 2).load()
    if gated:
        stream = hg.gate(stream, "orders", arrival="timestamp", identity=["value"])
    writer = work(stream).trigger(processingTime="1 second")
    name = f"half{time.time_ns()}"
    query = hg.start(writer, name=name, latency="600s") if gated else writer.start()
    try:
        before = _wait_for(query, _LEFT_OUT), jvm_cpu_seconds(spark), _compiling_ms(spark)
        after = _wait_for(query, _LEFT_OUT + BATCHES), jvm_cpu_seconds(spark), _compiling_ms(spark)
    finally:
        query.stop()
    passed = after[0] - before[0]
    batches = _full(query)[_LEFT_OUT : _LEFT_OUT + BATCHES]
    times = [datetime.fromisoformat(batch["timestamp"]).timestamp() for batch in batches]
    rows = sum(batch["numInputRows"] for batch in batches[1:])
    return {
        "rows_per_second": rows / (times[-1] - times[0]),
        "cpu_ms": 1000.0 * (after[1] - before[1]) / passed,
        "compiling_ms": (after[2] - before[2]) / passed,
        **medians([batch["durationMs"] for batch in batches]),
    }


def _compiling_ms(spark: Any) -> float:
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    return float(beans.getCompilationMXBean().getTotalCompilationTime())


def _wait_for(query: Any, batches: int) -> int:
    """Wait for so many batches with rows; how many there are."""
    while (count := len(_full(query))) < batches:
        time.sleep(0.1)
    return count


def _full(query: Any) -> list[dict[str, Any]]:
    return [progress for progress in progress_of(query) if progress["numInputRows"]]
