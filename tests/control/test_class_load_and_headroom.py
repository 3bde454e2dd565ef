"""Class loads from the network, and the headroom monitor (ALoMa)."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from headgate.control import (
    ClassLoad,
    HeadroomAction,
    HeadroomMonitor,
    HeadroomSettings,
    HighestRateOrder,
    ResponseState,
    adjusted_headroom,
    class_loads,
    classes_of_operators,
    operator_loads,
)
from headgate.errors import UsageError
from headgate.network import Network, NetworkBuilder, Statistics


def shared_network() -> Network:
    """parse feeds a gold branch and an iron branch; iron has a stream of its own too."""
    b = NetworkBuilder("shared")
    node = b.node("n")
    b.stream("s", rate_per_second=100)
    b.stream("t", rate_per_second=10)
    parse = b.filter("parse", "s", node=node, cost_seconds=0.001, selectivity=0.5)
    rich = b.map("rich", parse, node=node, cost_seconds=0.002)
    poor = b.filter("poor", parse, node=node, cost_seconds=0.004, selectivity=0.1)
    other = b.map("other", "t", node=node, cost_seconds=0.01)
    b.query("q1", rich, query_class="gold")
    b.query("q2", poor, query_class="iron")
    b.query("q3", other, query_class="iron")
    return b.build()


class TestLoad:
    def test_cost_times_rate(self) -> None:
        loads = operator_loads(shared_network(), Statistics(), {})
        assert loads == pytest.approx({"parse": 0.1, "rich": 0.1, "poor": 0.2, "other": 0.1})

    def test_who_needs_what(self) -> None:
        users = classes_of_operators(shared_network())
        assert users["parse"] == {"gold", "iron"}
        assert users["other"] == {"iron"}

    def test_shared_operators_are_charged_by_priority_and_exactly_once(self) -> None:
        loads = class_loads(shared_network(), Statistics(), {}, {"gold": 3, "iron": 1})
        assert loads["gold"].private_load == pytest.approx(0.1)
        assert loads["gold"].shared_load == pytest.approx(0.075)
        assert loads["iron"].private_load == pytest.approx(0.3)
        assert loads["iron"].shared_load == pytest.approx(0.025)
        assert sum(load.total for load in loads.values()) == pytest.approx(0.5)

    def test_a_class_without_a_priority_is_refused(self) -> None:
        with pytest.raises(UsageError, match="'iron', which has no priority"):
            class_loads(shared_network(), Statistics(), {}, {"gold": 1})


class TestEquation1:
    @pytest.mark.parametrize(
        ("capacity", "load", "expected"),
        [
            (1.0, 1.005, 1.005),  # k = 1: log2(2) / 1 = 1
            (1.0, 1.03, 1.02),  # k = 3: log2(4) / 3 = 2/3
            (1.0, 1.15, 1.04),  # k = 15: 4/15
            (1.0, 0.85, 0.96),  # the absolute gap, downwards
            (0.5, 0.515, 0.51),  # k is relative to the capacity
            (1.0, 1.0, 1.0),
        ],
    )
    def test_by_hand(self, capacity: float, load: float, expected: float) -> None:
        assert adjusted_headroom(capacity, load) == pytest.approx(expected)

    def test_the_smallest_step_down(self) -> None:
        assert adjusted_headroom(1.0, 1.0, smallest_gap=0.03) == pytest.approx(0.98)


class TestMonitor:
    def test_idle_means_no_drop(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings())
        for _ in range(100):
            decision = monitor.step(ClassLoad(0.5), 0.01)
        assert (decision.shed_fraction, decision.action) == (0.0, HeadroomAction.HOLD)
        assert decision.headroom == 0.8
        assert decision.usage == pytest.approx(0.625)

    def test_load_too_high_and_response_normal_raises_the_capacity(self) -> None:
        decision = HeadroomMonitor(HeadroomSettings(initial_headroom=1.0)).step(
            ClassLoad(1.15), 0.01
        )
        assert decision.action is HeadroomAction.RAISE
        assert decision.headroom == pytest.approx(1.04)
        assert decision.shed_fraction == 0.0  # the monitors disagree: there is no ground to drop

    def test_shedding_neither_begins_nor_grows_while_the_response_is_short(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=0.5))
        assert monitor.step(ClassLoad(1.0), 0.39).shed_fraction == 0.0  # rising, but below 0.4 s
        assert monitor.step(ClassLoad(1.0), 0.45).shed_fraction == pytest.approx(0.5)
        assert monitor.step(ClassLoad(2.0), 0.3).shed_fraction == pytest.approx(0.5)  # not 0.75
        assert monitor.step(ClassLoad(2.0), None).shed_fraction > 0.7  # nothing seen: by the load

    def test_load_fits_and_response_too_long_lowers_it(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=1.0))
        decision = monitor.step(ClassLoad(0.85), 0.55)
        assert (decision.action, decision.response) == (
            HeadroomAction.LOWER,
            ResponseState.TOO_LONG,
        )
        assert decision.headroom == pytest.approx(0.96)
        # the next response times tell of tuples from before: wait 0.55 / 0.15, 4 cycles
        actions = [monitor.step(ClassLoad(0.85), 0.55).action for _ in range(5)]
        assert actions == [HeadroomAction.HOLD] * 4 + [HeadroomAction.LOWER]

    def test_with_ease_a_raise_halves_the_shedding(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=0.2, ease=0.5))
        assert monitor.step(ClassLoad(1.0), 0.45).shed_fraction == pytest.approx(0.8)
        decision = monitor.step(ClassLoad(1.0), 0.1)  # 0.2 are admitted and done at once
        assert decision.action is HeadroomAction.RAISE
        assert decision.shed_fraction == pytest.approx(0.4)
        assert decision.headroom == pytest.approx(0.6)

    def test_more_than_is_believable_is_believed_only_while_the_response_is_short(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=0.8))
        short = monitor.step(ClassLoad(1.0), 0.03, most=0.3)
        assert (short.shed_fraction, short.headroom > 0.8) == (0.0, True)
        long = monitor.step(ClassLoad(1.0), 0.45, most=0.3)
        assert (long.shed_fraction, long.headroom) == (pytest.approx(0.7), 0.3)

    def test_less_than_is_known_is_believed_only_while_the_response_is_too_long(self) -> None:
        settings = HeadroomSettings(initial_headroom=0.2)
        watched = HeadroomMonitor(settings).step(ClassLoad(1.0), 0.45, least=0.6)
        assert watched.headroom == 0.6
        assert watched.shed_fraction == pytest.approx(0.4)
        late = HeadroomMonitor(settings).step(ClassLoad(1.0), 0.6, least=0.6)
        assert late.headroom == 0.2

    def test_who_fits_is_given_twice_the_time_to_catch_up(self) -> None:
        settings = HeadroomSettings(initial_headroom=0.2)
        stalled = HeadroomMonitor(settings).step(ClassLoad(0.5), 0.9, least=0.5)
        assert stalled.shed_fraction == 0.0
        lost = HeadroomMonitor(settings).step(ClassLoad(0.5), 1.1, least=0.5)
        assert lost.shed_fraction == pytest.approx(0.6)

    def test_both_agree_and_the_excess_goes(self) -> None:
        decision = HeadroomMonitor(HeadroomSettings(initial_headroom=0.8)).step(ClassLoad(1.0), 0.7)
        assert decision.action is HeadroomAction.SHED
        assert decision.keep_fraction == pytest.approx(0.8)

    def test_only_the_private_load_can_be_shed(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=0.8))
        decision = monitor.step(ClassLoad(0.5, shared_load=0.5), 0.45)
        assert decision.shed_fraction == pytest.approx(0.4)

    def test_the_guaranteed_minimum_stays(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=0.1, keep_at_least=0.3))
        assert monitor.step(ClassLoad(10.0), 0.45).keep_fraction == pytest.approx(0.3)

    def test_equation_2(self) -> None:
        monitor = HeadroomMonitor(HeadroomSettings(initial_headroom=0.6))
        monitor.rescale(quota_new=0.03, quota_old=0.06)
        assert monitor.headroom == pytest.approx(0.3)
        with pytest.raises(UsageError, match="quotas"):
            monitor.rescale(0.0, 0.1)

    @pytest.mark.parametrize("response", [None, math.nan, math.inf, -1.0])
    def test_an_impossible_measurement_drops_nothing(self, response: float | None) -> None:
        monitor = HeadroomMonitor(HeadroomSettings())
        for load in (ClassLoad(math.nan), ClassLoad(math.inf), ClassLoad(-1.0)):
            assert monitor.step(load, response).shed_fraction == 0.0

    @pytest.mark.parametrize("capacity", [0.25, 0.5, 0.9])
    @pytest.mark.parametrize("load", [0.3, 1.0, 3.0])
    def test_closed_loop_finds_the_capacity_and_holds_the_delay(
        self, capacity: float, load: float
    ) -> None:
        """A queue that drains at a capacity the monitor does not know.

        The response that is seen is that of the tuple that comes out now.
        """
        monitor = HeadroomMonitor(HeadroomSettings(delay_target_seconds=0.5, initial_headroom=0.4))
        rng = np.random.default_rng(1)
        backlog, shed, responses, sheds = 0.0, 0.0, [], []
        waits, out = [0.003], 0
        for cycle in range(1, 2000):
            admitted = load * (1 - shed) * (1 + 0.05 * rng.standard_normal())
            backlog = max(0.0, backlog + 0.15 * (admitted - capacity))
            waits.append(0.003 + backlog / capacity)
            while out < cycle and 0.15 * (out + 1) + waits[out + 1] <= 0.15 * cycle:
                out += 1
            shed = monitor.step(ClassLoad(load), waits[out]).shed_fraction
            responses.append(waits[out])
            sheds.append(shed)
        late = responses[1000:]
        assert max(late) < 1.1
        assert sum(late) / len(late) <= 0.6
        if load > capacity:
            assert sum(late) / len(late) >= 0.4
        expected = max(0.0, 1.0 - capacity / load)
        assert np.mean(sheds[1000:]) == pytest.approx(expected, abs=0.02)
        monitor = pickle.loads(pickle.dumps(monitor))
        assert monitor.step(ClassLoad(0.5 * monitor.headroom), 0.01).shed_fraction == 0.0


class TestHighestRate:
    def test_the_rate_of_an_operator_is_results_over_seconds(self) -> None:
        order = HighestRateOrder(shared_network(), Statistics(), "iron")
        # parse: 0.5 * 0.1 results, 0.001 + 0.5 * 0.004 seconds; gold's branch does not count
        assert order.rate_per_second == pytest.approx(
            {"poor": 0.1 / 0.004, "parse": 0.05 / 0.003, "other": 100.0}
        )

    def test_sources_run_only_when_nothing_else_waits(self) -> None:
        order = HighestRateOrder(shared_network(), Statistics())
        assert order.sources == {"parse", "other"}
        assert order.next_operator({"parse", "other", "poor", "rich"}) == "rich"
        assert order.next_operator({"parse", "other", "poor"}) == "poor"
        assert order.next_operator({"parse", "other"}) == "parse"
        assert order.next_operator(set()) is None
        assert order.next_operator({"somebody else's"}) is None
