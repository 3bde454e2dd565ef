"""The node with classes, by hand: batches, turns, debts, conservation."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.control import ClassScheduler, HighestRateOrder
from headgate.errors import UsageError
from headgate.network import Network, NetworkBuilder, Statistics
from headgate.simulation.operator_engine import OperatorEngine
from headgate.simulation.operator_workload import CLASSES, class_network


def one_operator(*names: str, cost: float = 0.001, selectivity: float = 1.0) -> Network:
    """For each class one stream and one operator on it."""
    b = NetworkBuilder("small")
    node = b.node("n")
    for name in names:
        stream = b.stream(f"{name}.s")
        b.filter(name, stream, node, cost_seconds=cost, selectivity=selectivity)
        b.query(f"{name}.out", name, query_class=name)
    return b.build()


def engine(network: Network, quotas: dict[str, float], fixed: float = 0.0, **more):
    fixed_seconds = dict.fromkeys(network.operator_by_name, fixed)
    rng = np.random.default_rng(1)
    return OperatorEngine(network, ClassScheduler(quotas), fixed_seconds, rng, **more)


def approx(results) -> list:
    return [pytest.approx(result) for result in results]


class TestBatches:
    def test_a_run_takes_what_waits_and_costs_fixed_plus_marginal(self) -> None:
        node = engine(one_operator("a"), {"a": 1.0}, fixed=0.002)
        node.offer("a.s", np.array([0.0, 0.0, 0.0, 0.001, 0.003]))
        node.run_until(1.0)
        # three tuples: 2 + 3 ms; two arrived meanwhile, at 2 ms in the mean: 2 + 2 ms
        assert node.collect_results() == [approx([(0.0, 0.005, 3), (0.002, 0.009, 2)])]
        assert node.operators["a"].runs == 2
        assert node.operators["a"].busy_seconds == pytest.approx(0.009)
        assert node.now_seconds == 1.0

    def test_the_cost_of_a_tuple_falls_as_the_batch_grows(self) -> None:
        costs = []
        for tuples in (1, 2, 10):
            node = engine(one_operator("a"), {"a": 1.0}, fixed=0.002)
            node.offer("a.s", np.zeros(tuples))
            node.run_until(0.1)
            costs.append(node.operators["a"].busy_seconds / tuples)
        assert costs == pytest.approx([0.003, 0.002, 0.0012])

    def test_a_batch_ends_with_the_turn(self) -> None:
        node = engine(one_operator("a"), {"a": 0.010}, fixed=0.002)
        node.offer("a.s", np.zeros(20))
        node.run_until(0.010)
        # 10 ms are granted: 8 tuples fit beside the 2 ms of the run
        assert node.collect_results() == [approx([(0.0, 0.010, 8)])]
        assert node.waiting("a") == 12

    def test_a_batch_has_a_limit(self) -> None:
        node = engine(one_operator("a"), {"a": 1.0}, most_tuples_per_run=2)
        node.offer("a.s", np.zeros(5))
        node.run_until(1.0)
        assert [count for _, _, count in node.results[0]] == [2, 2, 1]

    def test_results_become_whole(self) -> None:
        node = engine(one_operator("a", selectivity=0.5), {"a": 1.0})
        node.offer("a.s", np.array([0.0, 0.0, 0.0, 0.5]))
        node.run_until(1.0)
        # 1.5 results, of which one is handed on; the half makes the next one whole
        assert [count for _, _, count in node.results[0]] == [1, 1]


class TestTurns:
    def test_a_debt_is_paid_with_the_next_turns(self) -> None:
        b = NetworkBuilder("debt")
        node_name = b.node("n")
        for name, cost in (("a", 0.008), ("b", 0.002)):
            b.map(name, b.stream(f"{name}.s"), node_name, cost_seconds=cost)
            b.query(f"{name}.out", name, query_class=name)
        node = engine(b.build(), {"a": 0.003, "b": 0.002})
        node.offer("a.s", np.zeros(5))
        node.offer("b.s", np.zeros(5))
        node.run_until(0.020)
        # a: one tuple of 8 ms out of 3, a debt of 5; -5 + 3 = -2: it sits out; -2 + 3 = 1
        assert node.collect_results() == [
            approx([(0.0, 0.008, 1), (0.0, 0.020, 1)]),
            approx([(0.0, 0.010, 1), (0.0, 0.012, 1)]),
        ]

    def test_shares_follow_the_quotas_when_both_are_overloaded(self) -> None:
        node = engine(one_operator("a", "b"), {"a": 0.030, "b": 0.010})
        for name in ("a", "b"):
            node.offer(f"{name}.s", np.zeros(2000))
        node.run_until(1.0)
        busy = {name: part.busy_seconds for name, part in node.operators.items()}
        assert busy == pytest.approx({"a": 0.75, "b": 0.25}, abs=0.02)

    def test_unused_time_falls_to_the_other(self) -> None:
        node = engine(one_operator("a", "b"), {"a": 0.030, "b": 0.010})
        node.offer("b.s", np.zeros(2000))
        node.run_until(1.0)
        assert node.operators["b"].busy_seconds == pytest.approx(1.0)

    def test_an_idle_node_waits_for_the_next_arrival(self) -> None:
        node = engine(one_operator("a"), {"a": 1.0})
        node.offer("a.s", np.array([0.4]))
        node.run_until(0.3)
        assert node.now_seconds == 0.3
        node.run_until(1.0)
        assert node.collect_results() == [approx([(0.4, 0.401, 1)])]

    def test_a_tiny_credit_far_from_the_start_still_moves(self) -> None:
        node = engine(one_operator("a"), {"a": 2e-12})
        node.now_seconds = 1e6
        node.offer("a.s", np.full(3, 1e6))
        node.run_until(1e6 + 0.01)
        assert node.operators["a"].taken == 3


class TestOrder:
    def test_operators_run_in_highest_rate_order(self) -> None:
        network = class_network()
        node = engine(network, dict.fromkeys(CLASSES, 1.0))
        order = HighestRateOrder(network, Statistics(), "class2")
        ranked = [part.name for part in node._parts.ranked[1]]
        assert ranked == [name for name in order.order if name not in order.sources]
        waiting = {"class2.join1", "class2.select1", "class2.aggregate2"}
        assert order.next_operator(waiting) == min(waiting, key=ranked.index)

    def test_every_stream_is_read_even_when_the_class_is_overloaded(self) -> None:
        b = NetworkBuilder("two streams")
        node_name = b.node("n")
        for side in ("a", "b"):
            b.map(side, b.stream(f"{side}.s"), node_name, cost_seconds=0.001)
            b.query(f"{side}.out", side, query_class="c")
        node = engine(b.build(), {"c": 0.005}, most_tuples_per_run=1)
        for side in ("a", "b"):
            node.offer(f"{side}.s", np.zeros(100))
        node.run_until(0.1)
        assert node.operators["a"].taken == node.operators["b"].taken == 50


class TestConservation:
    @pytest.mark.parametrize("keep", [1.0, 0.7])
    def test_no_tuple_is_lost_or_made(self, keep: float) -> None:
        network = class_network()
        fixed = dict.fromkeys(network.operator_by_name, 23e-6)
        rng = np.random.default_rng(3)
        scheduler = ClassScheduler.from_priorities({"class1": 6, "class2": 3, "class3": 1}, 0.02)
        node = OperatorEngine(network, scheduler, fixed, rng, 50)
        node.set_keep_fractions({"class3": keep})
        for stream in network.streams:
            node.offer(stream.name, np.sort(rng.random(2000)))
        node.run_until(1.0)
        parts = node.operators
        for operator in network.operators:
            part = parts[operator.name]
            if operator.inputs[0] not in network.stream_by_name:
                arrived = sum(parts[name].produced for name in operator.inputs)
                assert part.taken + part.waiting == arrived
            gained = part.gains[0] * part.taken
            assert part.produced == pytest.approx(gained, abs=1.0)
        for name in CLASSES:
            offered, dropped = node.counts(name)
            assert offered == 4000
            assert (dropped > 0) == (name == "class3" and keep < 1.0)
            read = sum(parts[f"{name}.read_{side}"].taken for side in ("a", "b"))
            inside = sum(part.waiting for key, part in parts.items() if key.startswith(name))
            assert node.waiting(name) - inside == offered - dropped - read
        busy = sum(part.busy_seconds for part in parts.values())
        assert busy <= node.now_seconds + 1e-9

    def test_the_gate_keeps_its_fraction(self) -> None:
        node = engine(one_operator("a"), {"a": 1.0})
        node.set_keep_fractions({"a": 0.25})
        node.offer("a.s", np.zeros(10_000))
        offered, dropped = node.counts("a")
        assert offered == 10_000
        assert dropped == pytest.approx(7500, abs=200)


class TestSharedOperators:
    def network(self) -> Network:
        b = NetworkBuilder("shared")
        node = b.node("n")
        parse = b.map("parse", b.stream("s"), node, cost_seconds=0.001)
        for name in ("a", "b"):
            b.map(name, parse, node, cost_seconds=0.001)
            b.query(f"{name}.out", name, query_class=name)
        return b.build()

    def test_each_class_sheds_behind_what_it_shares(self) -> None:
        node = engine(self.network(), {"a": 0.01, "b": 0.01})
        node.set_keep_fractions({"b": 0.0})
        node.offer("s", np.zeros(10))
        node.run_until(1.0)
        assert node.operators["parse"].taken == 10  # once, not once for each class
        assert node.counts("a") == (10, 0)
        assert node.counts("b") == (10, 10)
        assert sum(count for _, _, count in node.results[0]) == 10
        assert node.results[1] == []

    def test_no_query_of_a_class_starves_behind_a_shared_operator(self) -> None:
        """An overloaded class whose queues another class keeps filling."""
        b = NetworkBuilder("fed")
        node_name = b.node("n")
        parse = b.map("parse", b.stream("s"), node_name, cost_seconds=1e-6)
        b.query("a.out", b.map("a", parse, node_name, cost_seconds=1e-6), query_class="a")
        for name, cost in (("cheap", 0.001), ("dear", 0.002)):
            b.query(
                f"{name}.out", b.map(name, parse, node_name, cost_seconds=cost), query_class="b"
            )
        node = engine(b.build(), {"a": 0.01, "b": 0.01}, most_tuples_per_run=5)
        node.offer("s", np.arange(2000) / 2000.0)
        node.run_until(1.0)
        cheap, dear = node.operators["cheap"].taken, node.operators["dear"].taken
        assert dear == pytest.approx(cheap, abs=10)


class TestMistakes:
    def test_what_cannot_be_simulated_is_refused(self) -> None:
        with pytest.raises(UsageError, match="its cost must be above 0"):
            engine(one_operator("a", cost=0.0), {"a": 1.0})
        with pytest.raises(UsageError, match="a class that is not simulated"):
            engine(one_operator("a", "b"), {"a": 1.0})
        with pytest.raises(UsageError, match="unknown operators x"):
            OperatorEngine(
                one_operator("a"), ClassScheduler({"a": 1.0}), {"x": 1.0}, np.random.default_rng(1)
            )
        with pytest.raises(UsageError, match="most_tuples_per_run"):
            engine(one_operator("a"), {"a": 1.0}, most_tuples_per_run=0)

    def test_a_stream_beside_an_operator_is_refused(self) -> None:
        b = NetworkBuilder("mixed")
        node = b.node("n")
        first = b.map("first", b.stream("s"), node, cost_seconds=0.001)
        both = b.union("both", (first, b.stream("t")), node, cost_seconds=0.001)
        b.query("out", both, query_class="a")
        with pytest.raises(UsageError, match="put a map behind the stream"):
            engine(b.build(), {"a": 1.0})
