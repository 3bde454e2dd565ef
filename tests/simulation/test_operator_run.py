"""Managers, meter and record of the node with classes, and whole runs of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headgate.control import ClassLoad, ClassScheduler
from headgate.coordinator.settings import ClassSettings
from headgate.network import NetworkBuilder
from headgate.simulation.arrivals import Constant
from headgate.simulation.operator_engine import OperatorEngine
from headgate.simulation.operator_managers import ClassManager, CommonShedder, NoShedding
from headgate.simulation.operator_meter import LoadMeter
from headgate.simulation.operator_record import ClassCycle, OperatorRecord
from headgate.simulation.operator_run import OperatorLoad, OperatorSetup, simulate_operators
from headgate.simulation.operator_workload import (
    CLASSES,
    class_network,
    class_settings,
    constant_load,
    paper_setup,
)


def two_classes(**more) -> ClassSettings:
    return ClassSettings(
        priorities={"gold": 3.0, "iron": 1.0},
        delay_targets_seconds={"gold": 0.2, "iron": 0.4},
        initial_headroom=1.0,
        **more,
    )


class TestManagers:
    def test_nobody_sheds(self) -> None:
        verdict = NoShedding().step({"gold": ClassLoad(9.0)}, {"gold": 9.0})
        assert verdict.keep_fractions == {"gold": 1.0}

    def test_the_common_shedder_looks_at_the_worst_class_and_treats_all_alike(self) -> None:
        shedder = CommonShedder(two_classes())
        loads = {"gold": ClassLoad(0.5), "iron": ClassLoad(0.75)}
        # gold at 190 of 200 ms is worse than iron at 200 of 400
        verdict = shedder.step(loads, {"gold": 0.19, "iron": 0.2})
        assert verdict.keep_fractions == pytest.approx({"gold": 0.8, "iron": 0.8})
        assert verdict.headrooms == pytest.approx({"gold": 1.0, "iron": 1.0})

    def test_one_shedder_for_each_class(self) -> None:
        manager = ClassManager(two_classes(redistribute_every=0))
        verdict = manager.step(
            {"gold": ClassLoad(0.5), "iron": ClassLoad(0.5)}, {"gold": 0.01, "iron": 0.39}
        )
        assert verdict.keep_fractions == pytest.approx({"gold": 1.0, "iron": 0.5})
        assert verdict.headrooms == pytest.approx({"gold": 0.75, "iron": 0.25})
        assert verdict.portions is None

    def test_capacity_is_lent(self) -> None:
        manager = ClassManager(two_classes(redistribute_every=1))
        verdict = manager.step(
            {"gold": ClassLoad(0.375), "iron": ClassLoad(0.5)}, {"gold": 0.01, "iron": 0.39}
        )
        # gold can spare 0.375 less its reserve of 0.0375; iron lacks 0.25
        assert verdict.portions == pytest.approx({"gold": 0.5, "iron": 0.5}, abs=1e-6)

    def test_a_class_with_a_queue_lends_nothing_whatever_its_estimate_says(self) -> None:
        manager = ClassManager(two_classes(redistribute_every=1))
        loads = {"gold": ClassLoad(0.375), "iron": ClassLoad(0.5)}
        verdict = manager.step(loads, {"gold": 0.1, "iron": 0.39})  # half of gold's target
        assert verdict.portions is None or verdict.portions["gold"] >= 0.75 - 1e-9


class TestMeter:
    def test_the_load_is_measured_cost_times_offered_rate(self) -> None:
        b = NetworkBuilder("one")
        b.map("op", b.stream("s"), b.node("n"), cost_seconds=0.001)
        b.query("out", "op", query_class="gold")
        network = b.build()
        node = OperatorEngine(
            network, ClassScheduler({"gold": 1.0}), {"op": 0.002}, np.random.default_rng(1)
        )
        meter = LoadMeter(network, node.operators, {"gold": 1.0})
        # nothing ran yet: a tuple on its own costs 3 ms
        assert meter.cycle({"s": 100.0})["gold"].total == pytest.approx(0.3)
        node.offer("s", np.zeros(4))
        node.run_until(0.1)
        # four tuples in one run: 1.5 ms each; the rate moves half of the way to 300
        assert meter.cycle({"s": 300.0})["gold"].total == pytest.approx(0.0015 * 200)


class TestRecord:
    def cycle(self, time: float, offered: int, dropped: int) -> ClassCycle:
        return ClassCycle(time, "gold", offered, dropped, 0.5, None, 1.0, 1.0, None)

    def test_means_by_arrival(self) -> None:
        record = OperatorRecord(("gold",), 0.5)
        assert math.isnan(record.mean_response_seconds("gold"))
        means = record.add_results([[(0.25, 0.5, 1), (0.75, 1.75, 3)]])
        assert means == {"gold": pytest.approx((0.25 + 3 * 1.0) / 4)}
        assert record.add_results([[]]) == {"gold": None}
        record.add_results([[(0.75, 2.75, 1)]])
        assert record.results("gold") == 5
        assert record.mean_response_seconds("gold", 0.5) == pytest.approx((3.0 + 2.0) / 4)
        assert record.mean_response_seconds("gold", 0.0, 0.5) == pytest.approx(0.25)
        times, seconds = record.responses_by_arrival("gold", 1.0)
        assert times.tolist() == [0.5]
        assert seconds.tolist() == pytest.approx([5.25 / 5])

    def test_loss(self) -> None:
        record = OperatorRecord(("gold",), 0.5)
        assert record.loss_fraction("gold") == 0.0
        for line in (self.cycle(0.5, 10, 5), self.cycle(1.0, 30, 3)):
            record.add_cycle(line)
        assert record.loss_fraction("gold") == pytest.approx(0.2)
        assert record.loss_fraction("gold", 0.5) == pytest.approx(0.1)


class TestRuns:
    def simulate(self, seed: int) -> list[ClassCycle]:
        manager = ClassManager(class_settings())
        record = simulate_operators(paper_setup(), constant_load(seconds=3.0), manager, seed)
        return [line for name in CLASSES for line in record.cycles[name]]

    def test_the_seed_decides(self) -> None:
        assert self.simulate(1) == self.simulate(1)
        assert self.simulate(1) != self.simulate(2)

    def test_the_paper_network_has_eleven_queries_a_class(self) -> None:
        network = class_network()
        for name in CLASSES:
            mine = [q.name for q in network.queries if q.query_class == name]
            assert len(mine) == 11
            assert sum("aggregate" in q for q in mine) == 5
            assert sum("join" in q for q in mine) == 2
            assert sum("select" in q for q in mine) == 4

    def test_a_light_load_loses_nothing_and_is_quick(self) -> None:
        manager = ClassManager(class_settings())
        record = simulate_operators(paper_setup(), constant_load(200.0, 6.0), manager, seed=1)
        for name in CLASSES:
            assert record.loss_fraction(name) == 0.0
            assert record.mean_response_seconds(name) < 0.01

    def test_draining_empties_the_queues(self) -> None:
        b = NetworkBuilder("slow")
        b.map("op", b.stream("s"), b.node("n"), cost_seconds=0.015)
        b.query("out", "op", query_class="gold")
        setup = OperatorSetup(b.build(), {}, ClassSettings({"gold": 1.0}))
        load = OperatorLoad({"s": Constant(100.0)}, 3.0)
        stopped = simulate_operators(setup, load, NoShedding(), seed=1)
        drained = simulate_operators(setup, load, NoShedding(), seed=1, drain=True)
        assert stopped.results("gold") == 200  # one in 15 ms
        assert drained.results("gold") == 300
