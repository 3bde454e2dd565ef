"""What the monitor learns from batches, and the figures of a run. No Spark."""

from __future__ import annotations

import pytest

from headgate.coordinator import QuerySettings
from headgate.errors import UsageError
from headgate.network import dump_network, parse_network
from headgate.planning import ExactPlanner
from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.networks.network_export import MeasuredQuery, network_of_queries
from headgate.spark.networks.network_groups import NODE, as_it_runs
from headgate.spark.networks.network_monitor import NetworkMonitor
from headgate.spark.networks.network_record import NetworkRecord
from headgate.spark.networks.network_run import measured_network

SPLIT = """\
network: split
nodes: {A: {capacity: 2}}
streams:
  a: {rate: 400/s}
operators:
  shared: {kind: delay, input: a, node: A, cost: 1ms, selectivity: 1}
  light: {kind: delay, input: shared, node: A, cost: 2ms, selectivity: 1}
  heavy: {kind: delay, input: shared, node: A, cost: 5ms, selectivity: 1}
queries:
  top: {input: light, latency: 3s}
  bottom: {input: heavy, latency: 3s}
"""


def report(batch: int, offered: int, keep_heavy: float, seconds: float) -> BatchReport:
    """One batch of the split network in every `seconds`."""
    heavy = round(offered * keep_heavy)
    decision = GateDecision().changed_to({"shared->heavy": keep_heavy})
    gates = {
        "a->shared": GateReport(offered, offered),
        "shared->light": GateReport(offered, offered),
        "shared->heavy": GateReport(offered, heavy),
    }
    return BatchReport("id", "run", batch, seconds * batch, seconds, decision, gates)


def watched(batches: int) -> tuple[NetworkMonitor, NetworkRecord]:
    """A machine that is twice as slow as described, 1.6 cores wide, with 0.2 s for nothing."""
    running = as_it_runs(parse_network(SPLIT), cores=2)
    monitor = NetworkMonitor(running, cores=2)
    record = NetworkRecord(running.network, {"a": "split"}, ("split",))
    for batch in range(batches):
        keep = (1.0, 0.4, 0.2)[batch % 3]
        offered = 400
        tasks = (0.002 + 0.004 + 0.010 * keep) * offered
        seen = report(batch, offered, keep, 0.2 + tasks / 1.6)
        flows = {"light": offered, "heavy": round(offered * keep)}
        record.add(monitor.observe("split", seen, flows, tasks))
    return monitor, record


def test_costs_rates_selectivities_and_capacity_are_learnt() -> None:
    monitor, record = watched(60)
    numbers = monitor.statistics()
    assert numbers["heavy"].cost_seconds == pytest.approx(0.010, rel=0.1)
    shared_and_light = sum(numbers[n].cost_seconds or 0.0 for n in ("shared", "light"))
    assert shared_and_light == pytest.approx(0.006, rel=0.1)
    assert numbers["light"].selectivity == pytest.approx(1.0)
    assert monitor.capacity() == pytest.approx(1.6 * 0.9, rel=0.1)  # 0.2 s of every 2 s are gone
    assert record.predicted_load() == pytest.approx(record.measured_load(), rel=0.05)


def test_the_planner_is_told_what_moved_and_not_more() -> None:
    monitor, _ = watched(60)
    news = monitor.news(1.0)
    assert news is not None
    assert set(news.operators) == {"shared", "light", "heavy"}
    assert set(news.capacities) == {NODE}
    again = monitor.news(2.0)
    assert again is not None
    assert again.operators == {}


def test_nothing_is_told_before_anything_was_learnt() -> None:
    monitor, record = watched(1)  # the first batch compiles code and starts processes
    assert monitor.news(1.0) is None
    assert record.score() is None
    assert record.best_score() is None


def test_what_was_measured_is_a_network_file_that_can_be_planned() -> None:
    monitor, _ = watched(30)
    text = dump_network(measured_network(monitor))
    network = parse_network(text)
    assert network.operator_by_name["heavy"].cost_seconds == pytest.approx(0.010, rel=0.2)
    assert ExactPlanner(network).plan({}).keep_fraction["shared->heavy"] < 1.0


def test_the_score_is_set_against_the_best_plan_of_what_was_measured() -> None:
    _, record = watched(60)
    score, best = record.score(), record.best_score()
    assert score is not None
    assert best is not None
    assert 0.0 < score <= best * 1.001


def test_queries_that_were_started_by_hand_become_a_network_too() -> None:
    orders = MeasuredQuery("alerts", QuerySettings(("orders",), 3.0), {"orders": 500.0}, 0.001)
    both = MeasuredQuery(
        "joined",
        QuerySettings(("orders", "a->b", "late"), after={"late": ("orders",)}),
        {"orders": 500.0, "a->b": 100.0, "late": 400.0},
        0.002,
    )
    idle = MeasuredQuery("idle", QuerySettings(("x",)), {}, None)
    network = network_of_queries("measured", [orders, both, idle])
    assert {s.name: s.rate_per_second for s in network.streams} == {
        "orders": 500.0,
        "orders 2": 500.0,
        "a to b": 100.0,
    }
    assert ExactPlanner(network).plan({}).node_load["spark"] <= 1.0
    assert parse_network(dump_network(network)) == network
    with pytest.raises(UsageError, match="nothing was measured yet"):
        network_of_queries("measured", [idle])
