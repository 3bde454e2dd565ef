"""Control: coordinator decisions and simulated tuples per second on one core.

`python -m benchmarks control` writes benchmarks/results/control.json. A decision is one
batch: the coordinator is told that it started, answers, and is told that it completed,
with the ledger kept. The events are recorded first, so that only the coordinator is timed.
Seconds are CPU seconds of one thread, because the machines are shared, with the garbage
collector at work as usual; wall seconds stand beside them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from headgate.control import ServiceKind
from headgate.coordinator import (
    BatchCompleted,
    BatchStarted,
    Coordinator,
    CoordinatorSettings,
    Event,
    GateCount,
    QuerySettings,
    SetKeepFraction,
)
from headgate.network import Network, NetworkBuilder
from headgate.simulation.arrivals import Poisson
from headgate.simulation.settings import SimulationSettings
from headgate.simulation.simulate import simulate

__all__ = ["run"]

TARGET_DECISIONS_PER_SECOND = 20_000
BATCHES = 10_000
QUERIES = 20
ROUNDS = 15


def run() -> dict[str, Any]:
    """All measurements of this file."""
    return {
        "decisions_per_second": {
            "target": TARGET_DECISIONS_PER_SECOND,
            "model_micro_batch_within_capacity": decisions("model", {}, 0.5),
            "model_micro_batch_overloaded": decisions("model", {}, 3.0),
            "model_input_buffer_overloaded": decisions(
                "model", {"service": ServiceKind.INPUT_BUFFER, "period_seconds": 0.25}, 3.0
            ),
            "paper_overloaded": decisions("paper", {}, 3.0),
            "no_control": decisions("none", {}, 3.0),
        },
        "simulated_tuples_per_second": {
            "micro_batch": tuples(ServiceKind.MICRO_BATCH, 0.1, 1e6),
            "input_buffer": tuples(ServiceKind.INPUT_BUFFER, 0.25, 1e6),
            "input_buffer_small": tuples(ServiceKind.INPUT_BUFFER, 0.25, 1e4),
        },
    }


def decisions(controller: str, settings: dict[str, Any], load: float) -> dict[str, float]:
    """Batches per second through the coordinator: started, decided, completed, entered."""
    queries = {
        f"q{i}": QuerySettings((f"g{i}",), 1.0, None, controller, settings) for i in range(QUERIES)
    }
    events = _events(CoordinatorSettings(queries), load)
    gc.collect()
    gc.freeze()  # these events are the benchmark's: nobody holds 20,000 of them at work

    def handle_all() -> None:
        coordinator = Coordinator(CoordinatorSettings(queries))
        for event in events:
            coordinator.handle(event)

    try:
        return _per_second(handle_all, BATCHES)
    finally:
        gc.unfreeze()


def _events(settings: CoordinatorSettings, load: float) -> list[Event]:
    """What a server of 1 ms a tuple would report, with the coordinator's own answers."""
    coordinator = Coordinator(settings)
    rng = np.random.default_rng(1)
    names = list(settings.queries)
    events: list[Event] = []
    last = dict.fromkeys(names, 0.5)
    for number in range(BATCHES):
        query, batch = names[number % QUERIES], number // QUERIES
        gate = f"g{number % QUERIES}"
        offered = int(rng.poisson(1000.0 * load * last[query]))
        started = BatchStarted(float(batch), query, batch, {gate: offered})
        answers = coordinator.handle(started)
        keep = min(d.keep_fraction for d in answers if isinstance(d, SetKeepFraction))
        kept = int(rng.binomial(offered, keep))
        busy = max(0.001 * kept * (1.0 + 0.05 * rng.standard_normal()), 1e-4)
        latency = 0.5 * last[query] + busy
        last[query] = min(busy, 2.0)
        completed = BatchCompleted(
            batch + busy,
            query,
            batch,
            busy,
            busy,
            {gate: GateCount(offered, kept, offered - kept)},
            latency,
            {95.0: 1.5 * latency},
            1000.0 * load,
        )
        coordinator.handle(completed)
        events += [started, completed]
    return events


def tuples(service: ServiceKind, period_seconds: float, rate: float) -> dict[str, float]:
    """Tuples that arrive in a run at three times the capacity, over its wall seconds."""
    network = _network(3.0 / rate)
    settings = SimulationSettings(
        seconds=20.0, service=service, period_seconds=period_seconds, latency_target_seconds=1.0
    )
    load = {"s": Poisson(rate)}
    arrived = sum(job.arrived for job in simulate(network, load, settings).jobs.values())
    return _per_second(lambda: simulate(network, load, settings), arrived, rounds=3)


def _network(cost_seconds: float) -> Network:
    b = NetworkBuilder("one")
    stream, node = b.stream("s"), b.node("n")
    b.query("q", b.delay("work", stream, node, cost_seconds=cost_seconds, selectivity=1.0))
    return b.build()


def _per_second(call: Callable[[], object], things: int, rounds: int = ROUNDS) -> dict[str, float]:
    """By the CPU seconds of the thread that works, and by the wall clock beside it."""
    cpu, wall = [], []
    for _ in range(rounds):
        gc.collect()  # not the last round's garbage; the round's own is collected in it
        begin, at = time.thread_time(), time.perf_counter()
        call()
        cpu.append(time.thread_time() - begin)
        wall.append(time.perf_counter() - at)
    return {
        "median": things / median(cpu),
        "best": things / min(cpu),
        "worst": things / max(cpu),
        "median_by_wall_clock": things / median(wall),
        "rounds": rounds,
    }
