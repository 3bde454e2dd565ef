"""One run of a node with classes: arrivals in, a record of every load cycle out.

Each load cycle (150 ms in the 2011 paper): the arrivals of the cycle are offered, the
engine runs to its end, costs and rates are measured, the load manager decides, gates and
quotas follow. When the input has ended the node goes on until its queues are empty, for
at most as long again (`drain`).

Guarantees: the same setup, load, manager and seed give the same record. Tuples are
conserved (see `operator_engine`). Cost: about 2 µs per operator run; the paper's node
makes some 10,000 of them in a virtual second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.control import ClassScheduler
from headgate.coordinator.settings import ClassSettings
from headgate.network import Network
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.operator_engine import OperatorEngine
from headgate.simulation.operator_managers import LoadManager
from headgate.simulation.operator_meter import LoadMeter
from headgate.simulation.operator_record import ClassCycle, OperatorRecord

__all__ = ["OperatorLoad", "OperatorSetup", "simulate_operators"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OperatorSetup:
    """The node.

    network:       its operators; `cost_seconds` is the marginal cost of a tuple.
    fixed_seconds: by operator, what a run costs beyond its tuples.
    classes:       priorities, load cycle and round.
    most_tuples_per_run: no run takes more tuples.
    """

    network: Network
    fixed_seconds: Mapping[str, float]
    classes: ClassSettings
    most_tuples_per_run: int = 1_000_000


@dataclass(frozen=True)
class OperatorLoad:
    """The input: arrivals by stream, for `seconds`, each delayed by up to `jitter_seconds`."""

    arrivals: Mapping[str, Arrivals]
    seconds: float
    jitter_seconds: float = 0.0


def simulate_operators(
    setup: OperatorSetup, load: OperatorLoad, manager: LoadManager, seed: int, drain: bool = False
) -> OperatorRecord:
    """Run the node under a load manager.

    seed:  of arrivals, jitter and random drops.
    drain: go on after the input has ended until nothing waits, at most as long again.
    """
    rng = np.random.default_rng(seed)
    node = _Node(setup, manager, rng)
    streams = {name: _arrival_times(a, load, rng) for name, a in load.arrivals.items()}
    cycles = round(load.seconds / setup.classes.cycle_seconds)
    for _ in range(cycles):
        node.cycle(streams)
    nothing = dict.fromkeys(streams, np.empty(0))
    for _ in range(cycles if drain else 0):
        if not any(node.engine.waiting(name) for name in setup.classes.priorities):
            break
        node.cycle(nothing)
    return node.record


class _Node:
    """Engine, meter and manager, and the record they write."""

    def __init__(self, setup: OperatorSetup, manager: LoadManager, rng: np.random.Generator):
        settings = setup.classes
        self._settings = settings
        self._manager = manager
        self._cycles = 0
        self._headrooms: Mapping[str, float] = {}
        self._keep: Mapping[str, float] = dict.fromkeys(settings.priorities, 1.0)
        scheduler = ClassScheduler.from_priorities(settings.priorities, settings.round_seconds)
        self.engine = OperatorEngine(
            setup.network, scheduler, setup.fixed_seconds, rng, setup.most_tuples_per_run
        )
        self._meter = LoadMeter(setup.network, self.engine.operators, settings.priorities)
        self.record = OperatorRecord(self.engine.classes, settings.cycle_seconds)

    def cycle(self, streams: Mapping[str, Floats]) -> None:
        """One load cycle."""
        length = self._settings.cycle_seconds
        start, end = self._cycles * length, (self._cycles + 1) * length
        self._cycles += 1
        before = {name: self.engine.counts(name) for name in self.engine.classes}
        rates = {}
        for name, times in streams.items():
            first, last = np.searchsorted(times, (start, end))
            self.engine.offer(name, times[first:last])
            rates[name] = float(last - first) / length
        self.engine.run_until(end)
        responses = self.record.add_results(self.engine.collect_results())
        loads = self._meter.cycle(rates)
        for name in self.engine.classes:
            offered, dropped = self.engine.counts(name)
            self.record.add_cycle(
                ClassCycle(
                    time_seconds=end,
                    query_class=name,
                    offered=offered - before[name][0],
                    dropped=dropped - before[name][1],
                    load=loads[name].total,
                    headroom=self._headrooms.get(name),
                    portion=self._portion(name),
                    keep_fraction=self._keep[name],
                    response_seconds=responses[name],
                )
            )
        verdict = self._manager.step(loads, responses)
        self._keep, self._headrooms = verdict.keep_fractions, verdict.headrooms
        self.engine.set_keep_fractions(verdict.keep_fractions)
        if verdict.portions is not None:
            k = self._settings.round_seconds
            self.engine.scheduler.set_quotas({c: k * p for c, p in verdict.portions.items()})

    def _portion(self, name: str) -> float:
        return self.engine.scheduler.quota_seconds[name] / self._settings.round_seconds


def _arrival_times(arrivals: Arrivals, load: OperatorLoad, rng: np.random.Generator) -> Floats:
    """All arrival times of a stream, sorted; the jitter may move tuples past one another."""
    times = arrivals.times(0.0, load.seconds, rng)
    if load.jitter_seconds > 0.0:
        times = np.sort(times + load.jitter_seconds * rng.random(len(times)))
        times = times[times < load.seconds]
    return times
