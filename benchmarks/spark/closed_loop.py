"""Does the latency stay at its target under overload, and how much is kept?

For each load (times the capacity) and target, in one run:

1. `saturated`: the same query without a gate on a source that always has more, in batches
   as long as the held ones, before and after; what was kept is compared with the mean of both.
   Once also behind an open gate, which can happen to be faster: the load is so many times the
   larger one.
2. The query behind a gate: half the capacity, then a step to the load, then back. At last the
   gate is opened and twice the capacity comes: what this very query processes when nothing
   falls (`kept_over_opened`). A query that is started anew can be faster or slower by a third,
   as its generated code was compiled; this comparison is free of that.

Counted from the first batch that began after the step: the batches until the mean
latency is within 10 % of the target and the following one too (settling); from the sixth
on until the load falls, the mean and the 95th percentile of latency and what was kept a
second, over the capacity. After the fall, the batches that still dropped something.
A cell in which the capacity before and after differ by more than a quarter, or from which other
machines on the host took more than a twentieth of its CPU time, is measured again, at most twice:
the machine was not the same, so the load was not what it says.
`without`: the same crowd with Headgate switched off, in the same session.

Every row costs about 0.2 ms of CPU time. Looking at a row that is dropped costs the Python
source a few microseconds, so at three times the load a query whose rows cost less keeps
less than 95 %: `cheap_rows` shows one.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from statistics import median
from typing import Any

from benchmarks.spark.environment import (
    costly,
    replay,
    spark_and_headgate,
    stolen_cpu_seconds,
)
from headgate.spark.saturation import Saturation, SaturationSettings, measure_saturation

__all__ = ["LOADS", "TARGETS_SECONDS", "joined", "measure_cell", "run", "told", "windowed"]

LOADS = (1.5, 2.0, 3.0)
TARGETS_SECONDS = (2.0, 3.0, 5.0)
_BASE_SECONDS = 8.0
_BASE_SECONDS_WITH_STATE = 20.0
_STEADY_WITHIN = 1.25
_MOST_STOLEN = 0.05
_TRIES = 3
_HELD_BATCHES = 14
_OPENED_LOAD = 2.0
_OPENED_TARGETS = 4.0
"""How long it stays open, in targets: batches double until they are as long as the held ones."""
_OPENED_LENGTHS = (0.6, 1.7)
"""Batches are compared that are so long, in held ones: longer ones have less of the fixed cost."""
_WARM_UP_SECONDS = 60.0
_SETTLED_AFTER = 5
_DEAR_ROW = (16, 40)
_CHEAP_ROW = (20, 1)

Build = Callable[[Any, Any, Any], Any]
"""(session, gate or None, options of the source) -> writer of the query."""


def plain(row: tuple[int, int]) -> Build:
    """One costly column, summed up: no state but one number."""

    def build(spark: Any, gate: Any, options: dict[str, Any]) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        stream = replay(spark, **options)
        stream = stream if gate is None else gate(stream, "crowd")
        work = stream.select(F.sum(F.length(costly("id", *row))).alias("total"))
        return work.writeStream.format("noop").outputMode("complete")

    return build


def windowed(spark: Any, gate: Any, options: dict[str, Any]) -> Any:
    """A stateful aggregate: windows of ten seconds by key, with a watermark."""
    from pyspark.sql import functions as F  # noqa: N812

    stream = replay(spark, **options)
    stream = stream if gate is None else gate(stream, "crowd")
    stream = stream.withColumn("work", F.length(costly("id", *_DEAR_ROW)))
    windows = stream.withWatermark("timestamp", "20 seconds").groupBy(
        F.window("timestamp", "10 seconds"), "key"
    )
    work = windows.agg(F.count("*").alias("rows"), F.sum("work").alias("work"))
    return work.writeStream.format("noop").outputMode("update")


def joined(spark: Any, gate: Any, options: dict[str, Any]) -> Any:
    """A stream-stream join on the identity: both sides fall together."""
    from pyspark.sql import functions as F  # noqa: N812

    sides = []
    half = {**options, "epoch": options.get("epoch", time.time())}
    if "rate" in half:
        half["rate"] = max(1, half["rate"] // 2)
    for name in ("rates", "maxRowsPerTrigger"):
        if name in half:
            half[name] = tuple(max(1, number // 2) for number in half[name])
    for name in ("left", "right"):
        stream = replay(spark, **half)
        stream = stream if gate is None else gate(stream, name)
        stream = stream.withColumn("work", F.length(costly("id", *_DEAR_ROW)))
        late = stream.withWatermark("timestamp", "5 seconds")
        sides.append(late.select("id", F.col("timestamp").alias(f"{name}_time"), "work"))
    same_time = F.expr("right_time = left_time")
    work = sides[0].join(sides[1], on=[sides[0]["id"] == sides[1]["id"], same_time])
    return work.writeStream.format("noop").outputMode("append")


def run() -> dict[str, Any]:
    """All cells; see the module."""
    with spark_and_headgate() as (spark, hg):
        return _measure_all(spark, hg)


def _measure_all(spark: Any, hg: Any) -> dict[str, Any]:
    told("warming up", _warm_up, spark, hg)
    cells = [
        told(f"{load:g} times, {target:g} s", measure_cell, spark, hg, load, target)
        for target in TARGETS_SECONDS
        for load in LOADS
    ]
    cheap = told("cheap rows", measure_cell, spark, hg, 3.0, 3.0, plain(_CHEAP_ROW))
    without = told("without", measure_without, spark, hg, 3.0, 3.0)
    return {
        "cells": cells,
        "over_all_cells": over_all(cells),
        "cheap_rows": cheap,
        "without": without,
    }


def over_all(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median, least and most of the cells.

    The speed of a shared machine moves within a cell, and with it what is kept over what is
    possible; the cells together are so many rounds of that comparison.
    """
    names = ("mean_over_target", "p95_over_target", "kept_over_saturated", "kept_over_opened")
    found: dict[str, Any] = {}
    for name in (*names, "batches_to_settle", "batches_still_shedding"):
        values = [cell[name] for cell in cells if cell[name] is not None]
        found[name] = {"median": median(values), "least": min(values), "most": max(values)}
    return found


def measure_cell(
    spark: Any,
    hg: Any,
    load: float,
    target_seconds: float,
    build: Build | None = None,
    held_batches: int = _HELD_BATCHES,
) -> dict[str, Any]:
    """One load and target; see the module."""
    tries, steady = 0, False
    while not steady and tries < _TRIES:
        found = _measure_once(spark, hg, load, target_seconds, build, held_batches)
        before, after = found["saturated_before_and_after"]
        steady = max(before, after) <= _STEADY_WITHIN * min(before, after)
        steady = steady and found["stolen_cpu_share"] <= _MOST_STOLEN
        tries += 1
    return {**found, "tries": tries}


def _measure_once(
    spark: Any,
    hg: Any,
    load: float,
    target_seconds: float,
    build: Build | None,
    held_batches: int,
) -> dict[str, Any]:
    base_seconds = _BASE_SECONDS_WITH_STATE if build in (windowed, joined) else _BASE_SECONDS
    build = build or plain(_DEAR_ROW)
    begun, stolen = time.monotonic(), stolen_cpu_seconds()
    before = _saturated(spark, build, target_seconds)
    opened = _saturated(spark, build, target_seconds, before.rows, hg)
    capacity = max(before.rows_per_second, opened.rows_per_second)
    held = (load, target_seconds, held_batches)
    rows = _gated(spark, hg, build, capacity, *held, base_seconds=base_seconds)
    after = _saturated(spark, build, target_seconds, before.rows)
    elapsed = (time.monotonic() - begun) * (os.cpu_count() or 1)
    both = [before.rows_per_second, after.rows_per_second]
    found = _judge(rows, target_seconds, sum(both) / 2.0)
    return {
        "load": load,
        "target_seconds": target_seconds,
        "saturated_rows_per_second": sum(both) / 2.0,
        "saturated_before_and_after": both,
        "saturated_behind_an_open_gate": opened.rows_per_second,
        "stolen_cpu_share": (stolen_cpu_seconds() - stolen) / elapsed,
        **found,
    }


def _warm_up(spark: Any, hg: Any) -> dict[str, Any]:
    """A JVM that has just started is slow: the first capacity would be that of another machine."""
    begun = time.monotonic()
    while time.monotonic() < begun + _WARM_UP_SECONDS:
        _saturated(spark, plain(_DEAR_ROW), TARGETS_SECONDS[0])
        _saturated(spark, plain(_DEAR_ROW), TARGETS_SECONDS[0], hg=hg)
    return {}


def _saturated(
    spark: Any, build: Build, target_seconds: float, rows: int = 2000, hg: Any = None
) -> Saturation:
    """Of the query in batches as long as the held ones; behind an open gate if `hg` is given."""

    def start(in_turn: tuple[int, int]) -> Any:
        options = {"rate": 10_000_000, "maxRowsPerTrigger": in_turn}
        if hg is None:
            return build(spark, None, options).start()
        return hg.start(build(spark, partial(_gate, hg), options), name=f"open{time.time_ns()}")

    return measure_saturation(start, SaturationSettings(target_seconds / 1.5, first_rows=rows))


def _gate(hg: Any, stream: Any, name: str) -> Any:
    return hg.gate(stream, name, arrival="timestamp", identity=["id"])


def measure_without(spark: Any, hg: Any, load: float, target_seconds: float) -> dict[str, Any]:
    """The same crowd, Headgate switched off: the latency of batch after batch."""
    build = plain(_DEAR_ROW)
    capacity = _saturated(spark, build, target_seconds).rows_per_second
    hg.mode("off")
    try:
        rows = _gated(spark, hg, build, capacity, load, target_seconds, 4, seconds=30.0)
    finally:
        hg.mode("on")
    latencies = [row["latency_mean_seconds"] for row in rows["crowd"]]
    return {
        "load": load,
        "target_seconds": target_seconds,
        "latency_mean_seconds_by_batch": latencies,
        "last_over_target": latencies[-1] / target_seconds,
        "grows": all(later > before for before, later in pairwise(latencies)),
    }


def _gated(
    spark: Any,
    hg: Any,
    build: Build,
    capacity: float,
    load: float,
    target_seconds: float,
    held_batches: int,
    seconds: float | None = None,
    base_seconds: float = _BASE_SECONDS,
) -> dict[str, list[dict[str, Any]]]:
    """Ledger rows (one a batch) of the phases base, crowd, calm and opened."""
    crowd_seconds = seconds or held_batches * target_seconds / 1.5 + target_seconds
    phases = {
        "base": (0.5, base_seconds),
        "crowd": (load, crowd_seconds),
        "calm": (0.5, 3.0 * target_seconds),
        "opened": (_OPENED_LOAD, 0.0 if seconds else _OPENED_TARGETS * target_seconds),
    }
    lengths = {phase: math.ceil(length) for phase, (_, length) in phases.items()}
    rates = [
        round(capacity * times)
        for phase, (times, _) in phases.items()
        for _ in range(lengths[phase])
    ]
    epoch = time.time() + 1.0
    options = {"pattern": "steps", "rates": tuple(rates), "step": "1s", "epoch": epoch}
    name = f"loop{time.time_ns()}"
    starts = dict(zip(phases, accumulate(lengths.values(), initial=epoch), strict=False))
    mode = hg.mode()
    writer = build(spark, partial(_gate, hg), options)
    query = hg.start(writer, name=name, latency=target_seconds)
    try:
        _wait_until(query, starts["opened"])
        if lengths["opened"]:
            hg.mode("open")
            _wait_until(query, starts["opened"] + lengths["opened"])
    finally:
        query.stop()
        hg.mode(mode)
    found: dict[str, list[dict[str, Any]]] = {phase: [] for phase in phases}
    for row in _by_batch(hg, name):
        begun = row["time_seconds"] - row["duration_seconds"]
        found[next((p for p in reversed(phases) if begun >= starts[p]), "base")].append(row)
    return found


def _by_batch(hg: Any, query: str) -> list[dict[str, Any]]:
    """The ledger with the gates of a batch added up."""
    batches: dict[int, dict[str, Any]] = {}
    hg.report()
    for row in hg._book.rows():
        if row["query"] != query:
            continue
        known = batches.setdefault(row["batch"], {**row, "offered": 0, "kept": 0, "dropped": 0})
        for count in ("offered", "kept", "dropped"):
            known[count] += row[count]
    return [batches[batch] for batch in sorted(batches) if batches[batch]["offered"]]


def _judge(rows: dict[str, Any], target_seconds: float, saturated: float) -> dict[str, Any]:
    crowd, calm = rows["crowd"], rows["calm"]
    near = [abs(row["latency_mean_seconds"] / target_seconds - 1.0) <= 0.1 for row in crowd]
    settled_at = next((i for i in range(len(near) - 1) if near[i] and near[i + 1]), None)
    held = crowd[_SETTLED_AFTER:]
    kept = sum(row["kept"] for row in held)
    seconds = sum(row["duration_seconds"] for row in held)
    mean = sum(row["latency_mean_seconds"] * row["kept"] for row in held) / max(kept, 1)
    p95 = sum(row["latency_p95_seconds"] * row["kept"] for row in held) / max(kept, 1)
    shedding = [row["dropped"] > 0 for row in calm]
    batch_seconds = median(row["duration_seconds"] for row in held) if held else None
    kept_a_second = kept / max(seconds, 1e-9)
    opened = _opened_rate(rows["opened"], batch_seconds or target_seconds)
    return {
        "batches_held": len(held),
        "mean_over_target": mean / target_seconds,
        "p95_over_target": p95 / target_seconds,
        "kept_over_saturated": kept_a_second / saturated,
        "kept_over_opened": None if opened is None else kept_a_second / opened,
        "opened_rows_per_second": opened,
        "kept_share": kept / max(sum(row["offered"] for row in held), 1),
        "batches_to_settle": None if settled_at is None else settled_at + 1,
        "batches_still_shedding": len(shedding) - shedding[::-1].index(True)
        if any(shedding)
        else 0,
        "dropped_before_the_step": sum(row["dropped"] for row in rows["base"]),
        "latency_mean_seconds_by_batch": [row["latency_mean_seconds"] for row in crowd],
        "batch_seconds": batch_seconds,
    }


def _opened_rate(rows: list[dict[str, Any]], batch_seconds: float) -> float | None:
    """Rows a second of batches about as long as the held ones; None if there was none."""
    least, most = (times * batch_seconds for times in _OPENED_LENGTHS)
    alike = [row for row in rows if not row["dropped"] and least <= row["duration_seconds"] <= most]
    if not alike:
        return None
    seconds = sum(row["duration_seconds"] for row in alike)
    return float(sum(row["kept"] for row in alike) / seconds)


def _wait_until(query: Any, when: float) -> None:
    while time.time() < when:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.2)


def told(name: str, measure: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    print(f"  {name} ...", file=sys.stderr, flush=True)
    return measure(*given)
