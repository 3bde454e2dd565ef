"""The node and the load of the 2012 paper, section 4, and one simulated run of it.

Ten sources send 50, 100, 150, 100, 50 ... tuples/s in steps of 10 s, and each query
has its own copy of every tuple. What the paper does not give was chosen here:

- Capacity: the node keeps up with 92 queries, so that 80 are fine and 100 are too many.
  At 200 % CPU (the paper's limit) that is 21.7 microseconds of CPU for a tuple. Looking
  at a tuple in the buffer costs 0.1 microseconds.
- Phases: the sources are separate processes, so each begins the pattern at a whole second
  of its own, drawn from the seed. If all ten kept step, the load of 120 queries would
  fall below the capacity for 10 s in every 40 s, and no controller could hold a mean.
- Latency is that of a tuple, from its arrival until it is processed. With the second of
  the query's window in it, a target of 500 ms could not be met by any shedding.
- One simulated tuple stands for the copies of several queries (20, or 100 in a quick
  run): rates are divided and costs multiplied by that. All queries are alike, so one
  operator does the work of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.control import ServiceKind
from headgate.network import Network, NetworkBuilder
from headgate.reproduce.experiment import Request
from headgate.simulation.arrivals import Arrivals, Poisson, Steps
from headgate.simulation.record import JobOutcome, SimulationResult
from headgate.simulation.settings import SimulationSettings, WorkCosts
from headgate.simulation.simulate import simulate

__all__ = [
    "CAPACITY_QUERIES",
    "CPU_LIMIT",
    "LOOKING_SECONDS",
    "MEAN_RATE_PER_QUERY",
    "PERIOD_SECONDS",
    "STREAM",
    "TARGETS_SECONDS",
    "TUPLE_SECONDS",
    "Scale",
    "node_network",
    "only_job",
    "paper_load",
    "run_node",
    "scale_for",
]

PATTERN_PER_SECOND = (50.0, 100.0, 150.0, 100.0)
STEP_SECONDS = 10
SOURCES = 10
MEAN_RATE_PER_QUERY = SOURCES * float(np.mean(PATTERN_PER_SECOND))
CAPACITY_QUERIES = 92.0
CPU_LIMIT = 2.0
TUPLE_SECONDS = CPU_LIMIT / (CAPACITY_QUERIES * MEAN_RATE_PER_QUERY)
LOOKING_SECONDS = 1e-7
PERIOD_SECONDS = 0.25
TRIGGER_SECONDS = 0.1
UNCONTROLLED_PERIOD_SECONDS = 1.0
TARGETS_SECONDS = (0.5, 1.0, 2.0, 3.0)
STREAM = "machines"


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is: queries for one simulated tuple, virtual seconds, repetitions."""

    copies: int
    warm_up_seconds: float
    seconds: float
    runs: int
    queries: tuple[int, ...]


def scale_for(request: Request) -> Scale:
    if request.quick:
        return Scale(100, 40.0, 80.0, 1, (80, 120, 200))
    return Scale(20, 40.0, 200.0, 5, tuple(range(20, 201, 20)))


def node_network(copies: int) -> Network:
    """One node, one stream of copies for all queries, one operator."""
    b = NetworkBuilder("dissp")
    node = b.node("node", capacity=CPU_LIMIT)
    stream = b.stream(STREAM)
    cost = TUPLE_SECONDS * copies
    b.query("averages", b.delay("average", stream, node, cost_seconds=cost, selectivity=1.0))
    return b.build()


def paper_load(queries: int, copies: int, seed: int, in_step: bool = False) -> Steps:
    """The ten sources' tuples for all queries, in simulated tuples per second.

    Each source begins the pattern at a second of its own, unless `in_step`.
    """
    rng = np.random.default_rng((seed, 2012))
    base = np.repeat(PATTERN_PER_SECOND, STEP_SECONDS)
    phases = rng.integers(0, len(base), SOURCES)
    total = np.sum([np.roll(base, 0 if in_step else phase) for phase in phases], axis=0)
    return Steps(tuple((total * queries / copies).tolist()), 1.0)


def run_node(
    load: Arrivals,
    scale: Scale,
    *,
    seed: int,
    controller: str = "paper",
    target_seconds: float | None = None,
    seconds: float | None = None,
    memory_tuples: int | None = None,
    service: ServiceKind = ServiceKind.INPUT_BUFFER,
    controller_settings: Mapping[str, float] | None = None,
    reports_waiting_age: bool = False,
) -> SimulationResult:
    """The node under `load`: a control period of 250 ms as in the paper, or a trigger of 100 ms.

    Without control nobody looks at the tuples that wait, and nothing hangs on the period.
    """
    period = PERIOD_SECONDS if service is ServiceKind.INPUT_BUFFER else TRIGGER_SECONDS
    if controller == "none" and target_seconds is None:
        period = UNCONTROLLED_PERIOD_SECONDS
    looking = 0.0 if controller == "none" else LOOKING_SECONDS * scale.copies
    settings = SimulationSettings(
        seconds=scale.seconds if seconds is None else seconds,
        seed=seed,
        service=service,
        period_seconds=period,
        controller=controller,
        controller_settings=controller_settings or {},
        latency_target_seconds=target_seconds,
        costs=WorkCosts(looking_seconds=looking),
        memory_tuples=memory_tuples,
        reports_waiting_age=reports_waiting_age,
        warm_up_seconds=scale.warm_up_seconds,
    )
    return simulate(node_network(scale.copies), {STREAM: Poisson(load)}, settings)


def only_job(result: SimulationResult) -> JobOutcome:
    return next(iter(result.jobs.values()))
