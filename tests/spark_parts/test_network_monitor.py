"""What the monitor learns from batches, and the figures of a run. No Spark."""

from __future__ import annotations

import pytest

from headgate.coordinator import QuerySettings
from headgate.errors import UsageError
from headgate.network import dump_network, parse_network
from headgate.planning import ExactPlanner
from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.gates.window_drop import WindowMemory, WindowShape
from headgate.spark.networks.decided_share import decided_share
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


PERIOD_SECONDS = 5.0


def report(batch: int, offered: int, keep_heavy: float, seconds: float) -> BatchReport:
    """A batch of the split network that takes so long; one begins in every period."""
    heavy = round(offered * keep_heavy)
    decision = GateDecision().changed_to({"shared->heavy": keep_heavy})
    gates = {
        "a->shared": GateReport(offered, offered),
        "shared->light": GateReport(offered, offered),
        "shared->heavy": GateReport(offered, heavy),
    }
    return BatchReport("id", "run", batch, PERIOD_SECONDS * batch, seconds, decision, gates)


def watched(batches: int) -> tuple[NetworkMonitor, NetworkRecord]:
    """A machine that is twice as slow as described, 1.6 cores wide, with 0.2 s for nothing."""
    running = as_it_runs(parse_network(SPLIT), cores=2)
    monitor = NetworkMonitor(running, cores=2)
    record = NetworkRecord(running.network, {"a": "split"}, ("split",))
    for batch in range(batches):
        keep = (1.0, 0.4, 0.2)[batch % 3]
        offered = 400
        tasks = tasks_of(offered, keep)
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


def tasks_of(offered: int, keep: float) -> float:
    return (0.002 + 0.004 + 0.010 * keep) * offered


def test_a_load_that_nobody_foresaw_was_not_predicted() -> None:
    """Twice as much arrives at once: the batch is predicted from what was known before it."""
    monitor, record = watched(60)
    before = record.load_error_mean_abs()
    assert before is not None
    tasks = tasks_of(800, 1.0)
    flows = {"light": 800, "heavy": 800}
    seen = monitor.observe("split", report(60, 800, 1.0, 0.2 + tasks / 1.6), flows, tasks)
    assert seen.predicted_seconds == pytest.approx(tasks / 2.0, rel=0.1)
    assert seen.busy_seconds == tasks
    record.add(seen)
    off = record.load_error_mean_abs()
    assert off is not None
    assert off > before + 0.01


def test_before_a_forecast_nothing_is_predicted() -> None:
    running = as_it_runs(parse_network(SPLIT), cores=2)
    monitor = NetworkMonitor(running, cores=2)
    for batch in (0, 1):  # the first compiles code, the second is the first that teaches costs
        seen = monitor.observe("split", report(batch, 400, 1.0, 4.0), {}, 6.0)
        assert seen.predicted_seconds is None


def test_the_decided_share_is_known_before_anything_came() -> None:
    shape = WindowShape.of(4_000_000, 1_000_000, 1_000_000)
    memory = WindowMemory(shape).changed_to(round(1e6 * shape.block_share(0.3)), None, None)
    decision = GateDecision(keep={"a->shared": 250_000}, windows={"shared->light": memory})
    gates = {gate: GateReport(100, 0) for gate in ("a->shared", "shared->light", "x")}
    seen = BatchReport("id", "run", 1, 0.0, 1.0, decision, gates)
    assert decided_share(seen, "a->shared") == 0.25
    assert decided_share(seen, "shared->light") == pytest.approx(0.3, abs=1e-5)
    assert decided_share(seen, "x") == decided_share(seen, "no gate") == 1.0


def test_the_capacity_follows_executors_that_come_and_go() -> None:
    monitor, _ = watched(60)
    before, fixed = monitor.capacity(), monitor.groups["split"].length.fixed_seconds
    monitor.follow_cores(2)
    assert monitor.capacity() == before
    monitor.follow_cores(4)
    assert monitor.capacity() == pytest.approx(2.0 * before, rel=0.01)
    assert monitor.groups["split"].length.fixed_seconds == pytest.approx(fixed)
    news = monitor.news(1.0)
    assert news is not None
    assert news.capacities[NODE] == pytest.approx(2.0 * before, rel=0.1)
    monitor.follow_cores(1)
    assert monitor.capacity() <= 0.97


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
    assert ExactPlanner(network).plan({"a": 400.0}).keep_fraction["shared->heavy"] < 1.0


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


def test_the_cores_are_the_capacity_and_what_a_query_delivers_its_selectivity() -> None:
    orders = QuerySettings(("orders",), 3.0)
    some = MeasuredQuery("some", orders, {"orders": 500.0}, 0.001, 0.25)
    none_yet = MeasuredQuery("windows", orders, {"orders": 500.0}, 0.001, 0.0)
    network = network_of_queries("measured", [some, none_yet], 4.0)
    assert network.nodes[0].capacity == 4.0
    assert [(o.cost_seconds, o.selectivity) for o in network.operators] == [
        (0.004, 0.25),
        (0.004, 1.0),
    ]
