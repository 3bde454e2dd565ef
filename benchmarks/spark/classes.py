"""Classes on Spark: the classes paper's tables, and what turns cost.

The queries are those of `class_workload`: ten in three classes 6:3:1 on local[2].
Capacity is measured first, in the same run; loads are set as shares of it. The queries run
on while schemes change, so all schemes see the same warm machine; they come in turn.

The schemes are those of the classes paper, and one more:

common        one shedder for all classes, and turns by fixed shares
per class     a shedder for each class, which follows the paper's equation 1; turns by fixed shares
fixed shares  Headgate's loop for micro-batches, with lending of shares switched off
lending       Headgate as it is

In the first two a query is due when it has rows, as in the paper, and the class loops alone decide
what goes. In the others each query has its own latency controller too, as for a user. It leaves its
turns to those that need them until its results would be older than half of its target, and
that is lending too: so "per class" and not "fixed shares" is the scheme without it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.spark.class_workload import DELAY_MS, PRIORITIES, Workload
from benchmarks.spark.environment import stolen_cpu_seconds
from headgate.spark.agent.busy_cores import busy_cores
from headgate.spark.agent.classes import jain_index

__all__ = ["run", "tables", "throughput"]

SCHEMES = ("common", "per class", "fixed shares", "lending")
_AS_IN_THE_PAPER = {"redistribute_every": 0, "due_above": 0.0, "by_quota": False, "ease": 1.0}
CHANGES: dict[str, dict[str, Any]] = {
    "common": {**_AS_IN_THE_PAPER, "one_shedder": True},
    "per class": _AS_IN_THE_PAPER,
    "fixed shares": {"redistribute_every": 0},
    "lending": {},
}
"""Of the settings of the class loop, by scheme."""
PAPER = {
    "near capacity": {
        "common": {"response_ms": (3.00, 3.13, 517.07), "loss_percent": (11.42, 11.43, 11.60)},
        "per class": {"response_ms": (3.55, 3.75, 492.84), "loss_percent": (0.0, 0.0, 35.95)},
        "lending": {"response_ms": (4.28, 4.38, 42.95), "loss_percent": (0.0, 0.0, 0.0)},
    },
    "steps": {
        "lending": {"response_ms": (6.67, 96.77, 226.05), "loss_percent": (0.0, 5.19, 50.97)}
    },
    "above capacity": {},  # ours: near the capacity nobody loses much on Spark
}
LOADS = {"near capacity": 0.92, "steps": 1.05, "above capacity": 1.2}
"""Shares of what the queries do with batches of any length; with batches that are short enough for
the targets they do about 0.85 of it, because each batch has a fixed cost. The steps are 0.92 on
average."""
EVEN = dict.fromkeys(PRIORITIES, 1.0 / len(PRIORITIES))
STEPS = (1.0, 0.5, 1.2, 0.3, 0.9)
"""Load of gold in the steps, as a share of a third of the load."""
_STEP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long one measurement takes, and after how long."""

    seconds: float = 30.0
    settle_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Flow:
    """What all queries did together while some seconds passed.

    busy_cores: cores that had a task, from looks ten times a second.
    stolen_cores: taken by other machines on the same host, on average.
    response_over_target: mean latency of the kept rows of a class; None if it kept none.
    """

    rows_per_second: float
    batches_per_second: float
    busy_cores: float
    stolen_cores: float
    response_over_target: dict[str, float | None]


def measured_capacity(work: Workload, warm_up: float = 12.0, backlog: float = 20.0) -> float:
    """Rows a second of all queries together when everybody runs and all have a backlog.

    It grows with the backlog, because batches get longer and each has a fixed cost.
    """
    guess = 2.0 * 1000.0 / DELAY_MS
    work.let_all_run()
    work.set_load(EVEN, 0.3 * guess)
    time.sleep(warm_up)
    work.check()
    work.set_load(EVEN, 1.5 * guess)
    time.sleep(backlog)
    return processed(work, 10.0, to_the_end=True).rows_per_second


def processed(work: Workload, seconds: float, to_the_end: bool = False) -> Flow:
    """What is kept and processed while `seconds` pass; then drain.

    Rows count when their task has ended. Without turns and above the capacity tasks get longer and
    longer, and more and more rows are in tasks that have not ended; so there (`to_the_end`) rows
    and time count until the last row that has come is processed.
    """
    since, kept_before, stolen = time.time(), work.kept_so_far(), stolen_cpu_seconds()
    looks = []
    count = busy_cores(work.spark)
    while time.time() < since + seconds:
        looks.append(count())
        time.sleep(0.1)
    kept, until = work.kept_so_far() - kept_before, time.time()
    done = work.drain()
    responses = {
        name: None if (r := phase.response_seconds) is None else r / work.targets_seconds[name]
        for name, phase in work.measure(since, until).items()
    }
    batches = work.batches_between(since, until) / (until - since)
    if to_the_end:
        kept, until = work.kept_so_far() - kept_before, done
    stolen_share = (stolen_cpu_seconds() - stolen) / (time.time() - since)
    busy = sum(looks) / len(looks)
    return Flow(kept / (until - since), batches, busy, stolen_share, responses)


def tables(
    work: Workload,
    capacity: float,
    rounds: int = 2,
    seconds: float = 30.0,
    settle: float = 20.0,
) -> dict[str, Any]:
    """Response and loss of each class, the schemes on three loads, beside the paper's.

    A class hears of its response when a batch has ended, and batches last about as long as the
    targets: some of these have to pass until shares and capacities have settled.
    The schemes come in turn, in each round in the other order; figures are means over the rounds.
    """
    found: dict[str, Any] = {}
    for load in LOADS:
        looks: dict[str, list[dict[str, Any]]] = {scheme: [] for scheme in SCHEMES}
        for number in range(rounds):
            for scheme in SCHEMES if number % 2 == 0 else reversed(SCHEMES):
                look = _scheme_look(work, capacity, load, scheme, seconds, settle)
                looks[scheme].append(look)
                _say(f"{load}, {scheme}: {json.dumps(look)}")
        found[load] = {
            scheme: {
                "response_ms": _mean_by_class(seen, "response_ms"),
                "loss_percent": _mean_by_class(seen, "loss_percent"),
                "jain_index_of_kept": mean(look["jain_index_of_kept"] for look in seen),
                "rounds": seen,
                "paper": PAPER[load].get(scheme),
            }
            for scheme, seen in looks.items()
        }
    found["claims"] = claims(found)
    return found


def _mean_by_class(looks: Sequence[Mapping[str, Any]], figure: str) -> dict[str, float | None]:
    """None for a class that kept nothing in any round."""
    found: dict[str, float | None] = {}
    for name in PRIORITIES:
        seen = [look[figure][name] for look in looks if look[figure][name] is not None]
        found[name] = mean(seen) if seen else None
    return found


def _scheme_look(
    work: Workload, capacity: float, load: str, scheme: str, seconds: float, settle: float
) -> dict[str, Any]:
    """One scheme on one load, once."""
    others = {"silver": 1.15, "bronze": 0.7} if load == "steps" else {"silver": 1.0, "bronze": 1.0}
    part = LOADS[load] * capacity / len(PRIORITIES)
    work.set_load({"gold": 1.0, **others}, part)
    _use(work, scheme)
    time.sleep(settle)
    since, stolen = time.time(), stolen_cpu_seconds()
    seen: list[dict[str, float]] = []
    for step in STEPS if load == "steps" else (1.0,):
        work.set_load({"gold": step, **others}, part)
        until = time.time() + (_STEP_SECONDS if load == "steps" else seconds)
        while time.time() < until:
            seen.append(work.hg.share())
            time.sleep(0.5)
    work.check()
    until = time.time()
    stolen_cores = (stolen_cpu_seconds() - stolen) / (until - since)
    work.drain()
    phases = work.measure(since, until)
    return {
        "response_ms": {
            n: None if p.response_seconds is None else 1e3 * p.response_seconds
            for n, p in phases.items()
        },
        "loss_percent": {n: 100.0 * p.loss for n, p in phases.items()},
        "offered": {n: p.offered for n, p in phases.items()},
        "kept_per_second": sum(p.kept for p in phases.values()) / (until - since),
        "jain_index_of_kept": jain_index([1.0 - p.loss for p in phases.values()]),
        "shares_mean": {n: mean(shares[n] for shares in seen) for n in PRIORITIES},
        "share_of_bronze_most": max(shares["bronze"] for shares in seen),
        "stolen_cores": stolen_cores,
    }


def _use(work: Workload, scheme: str) -> None:
    """Fresh class loops under another scheme; "open" lets everybody run."""
    if scheme == "open":
        work.let_all_run()
    else:
        as_in_the_paper = CHANGES[scheme].get("by_quota") is False
        work.govern(CHANGES[scheme], "none" if as_in_the_paper else "model")


def claims(found: Mapping[str, Any]) -> dict[str, bool]:
    """What is wanted of the means, tested on what was measured."""
    asked = ("near capacity", "steps")
    losses = {
        (load, scheme): found[load][scheme]["loss_percent"] for load in LOADS for scheme in SCHEMES
    }
    return {
        "the common shedder takes from every class": min(
            losses["above capacity", "common"].values()
        )
        > 0.0,
        "gold loses nothing but under the common shedder": all(
            losses[load, scheme]["gold"] == 0.0 for load in asked for scheme in SCHEMES[1:]
        ),
        "nor above the capacity, with Headgate's own loops": all(
            losses["above capacity", scheme]["gold"] == 0.0 for scheme in SCHEMES[2:]
        ),
        "with lending bronze loses at most half": all(
            losses[load, "lending"]["bronze"] <= 0.5 * losses[load, "per class"]["bronze"]
            for load in asked
        ),
        "loss by priority": all(
            losses[load, scheme]["gold"]
            <= losses[load, scheme]["silver"]
            <= losses[load, scheme]["bronze"]
            for load in LOADS
            for scheme in SCHEMES[1:]
        ),
    }


def throughput(
    work: Workload, capacity: float, load: float, rounds: int = 2, sizes: Sizes | None = None
) -> dict[str, Any]:
    """Rows a second with turns over rows a second without."""
    sizes = sizes or Sizes()
    sides: dict[str, list[Flow]] = {"open": [], "lending": []}
    for number in range(rounds):
        order = ("open", "lending") if number % 2 == 0 else ("lending", "open")
        for scheme in order:
            work.set_load(EVEN, load * capacity)
            _use(work, scheme)
            time.sleep(sizes.settle_seconds)
            to_the_end = scheme == "open" and load > 1.0
            sides[scheme].append(processed(work, sizes.seconds, to_the_end))
            _say(f"{load}, {scheme}: {sides[scheme][-1]}")
    pairs = list(zip(sides["lending"], sides["open"], strict=True))
    ratios = [turns.rows_per_second / opened.rows_per_second for turns, opened in pairs]
    return {
        "targets_seconds": work.targets_seconds,
        "with_turns": [asdict(flow) for flow in sides["lending"]],
        "without": [asdict(flow) for flow in sides["open"]],
        "ratio_median": median(ratios),
        "ratio_least": min(ratios),
    }


def all_throughputs(work: Workload, capacity: float) -> dict[str, Any]:
    """At half load and at overload."""
    return {
        "half load": throughput(work, capacity, 0.5, sizes=Sizes(settle_seconds=10.0)),
        "overload": throughput(work, capacity, 1.5),
    }


def run(parts: Sequence[str] = ("tables", "throughput"), **sizes: Any) -> dict[str, Any]:
    """The parts by name. `sizes` go to `tables`."""
    results: dict[str, Any] = {}
    results["cost"] = f"each kept row holds its task slot for {DELAY_MS} ms"
    measured: dict[str, Callable[[Workload, float], dict[str, Any]]] = {
        "tables": partial(tables, **sizes),
        "throughput": all_throughputs,
    }
    for part in parts:
        if part in measured:
            with _running() as work:
                if "capacity_rows_per_second" not in results:
                    results["capacity_rows_per_second"] = measured_capacity(work)
                    _say(f"capacity {results['capacity_rows_per_second']:.0f} rows a second")
                found = measured[part](work, results["capacity_rows_per_second"])
                found["alarms"] = sorted({f"{a.kind}: {a.text}" for a in work.hg.alarms()})[:20]
                results[part] = found
    return results


@contextmanager
def _running() -> Iterator[Workload]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
        work = Workload(Path(directory))
        try:
            work.start()
            _say("queries started")
            yield work
        finally:
            work.close()


def _say(text: str) -> None:
    print(f"{time.strftime('%X')} {text}", file=sys.stderr, flush=True)
