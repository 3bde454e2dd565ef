from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from headgate.coordinator import ClassSettings, replay
from headgate.errors import UsageError
from headgate.network import NetworkBuilder
from headgate.simulation.arrivals import Arrivals, Constant, FlashCrowd, Poisson, Steps
from headgate.simulation.record import FailureCause, SimulationResult
from headgate.simulation.settings import (
    ClockJump,
    NodeFailure,
    Planning,
    SimulationSettings,
    Slowdown,
    WorkCosts,
)
from headgate.simulation.simulate import simulate
from tests.simulation.networks import one_operator, split, two_nodes


def run(load: Arrivals, cost: float = 0.001, **settings: object) -> SimulationResult:
    given: dict[str, object] = {"seconds": 30.0, "latency_target_seconds": 1.0, **settings}
    return simulate(one_operator(cost), {"s": load}, SimulationSettings(**given))  # type: ignore[arg-type]


def latencies(result: SimulationResult, start: float, end: float = np.inf) -> np.ndarray:
    return np.array(
        [
            row.latency_mean_seconds
            for row in result.rows
            if start <= row.time_seconds < end and row.latency_mean_seconds is not None
        ]
    )


class TestByHand:
    def test_a_batch_at_each_trigger(self) -> None:
        # Tuples at 0.125, 0.375, 0.625 and 0.875 s of each second, 0.1 s of work each.
        result = run(Constant(4.0), cost=0.1, seconds=3.0, period_seconds=1.0)
        first, second = result.rows[:2]
        assert (first.offered, first.kept, first.dropped) == (4, 4, 0)
        assert first.time_seconds == pytest.approx(1.4)
        assert first.latency_mean_seconds == pytest.approx(1.4 - 0.5)
        assert first.latency_max_seconds == pytest.approx(1.4 - 0.125)
        assert first.busy_seconds == pytest.approx(0.4)
        assert first.waiting == 2  # 1.125 and 1.375
        assert second.time_seconds == pytest.approx(2.4)

    def test_the_next_batch_starts_when_the_last_ends(self) -> None:
        # 20 tuples a second of 0.1 s: a batch lasts twice as long as the one before.
        result = run(Constant(20.0), cost=0.1, seconds=8.0, latency_target_seconds=None,
                     period_seconds=0.5)  # fmt: skip
        ends = [row.time_seconds for row in result.rows[:3]]
        assert ends == pytest.approx([1.5, 3.5, 7.5])
        assert [row.offered for row in result.rows[:3]] == [10, 20, 40]

    def test_the_cost_per_tuple_falls_with_the_batch(self) -> None:
        costs = WorkCosts(operator_fixed_seconds=0.2, batch_fixed_seconds=0.1, looking_seconds=0.01)
        result = run(Constant(4.0), cost=0.1, seconds=3.0, period_seconds=1.0, costs=costs)
        assert result.rows[0].busy_seconds == pytest.approx(0.2 + 0.1 + 4 * 0.01 + 4 * 0.1)

    def test_capacity_divides_the_time(self) -> None:
        network = one_operator(0.1, capacity=4.0)
        settings = SimulationSettings(seconds=2.0, period_seconds=1.0)
        result = simulate(network, {"s": Constant(4.0)}, settings)
        assert result.rows[0].duration_seconds == pytest.approx(0.1)
        assert result.nodes["n"].busy_seconds == pytest.approx(0.4)

    def test_batches_share_the_processor(self) -> None:
        b = NetworkBuilder("two jobs")
        node = b.node("n")
        for name in ("a", "b"):
            stream = b.stream(name)
            b.query(
                f"{name}q", b.delay(f"{name}w", stream, node, cost_seconds=0.1, selectivity=1.0)
            )
        load = {"a": Constant(2.0), "b": Constant(4.0)}
        result = simulate(b.build(), load, SimulationSettings(seconds=1.9, period_seconds=1.0))
        # 0.2 s and 0.4 s of work side by side: the first ends after 0.4 s, the other after 0.6 s.
        ends = {row.job: row.time_seconds for row in result.rows}
        assert ends == {"aq": pytest.approx(1.4), "bq": pytest.approx(1.6)}


class TestBooks:
    def test_no_tuple_is_made_or_lost(self) -> None:
        result = run(Poisson(3000.0), seconds=20.0)
        job = result.jobs["q"]
        assert job.arrived == job.processed + job.dropped + job.waiting
        offered, kept, dropped = result.ledger_totals["q"]
        assert offered == kept + dropped
        assert (kept, dropped) == (job.processed, job.dropped)
        assert result.queries["q"].kept_share == pytest.approx(kept / offered)

    def test_the_same_seed_gives_the_same_journal(self) -> None:
        first, again, other = (
            run(Poisson(3000.0), seconds=10.0, with_journal=True, seed=seed) for seed in (1, 1, 2)
        )
        assert first.journals == again.journals
        assert first.rows == again.rows
        assert first.journals != other.journals
        [lines] = first.journals.values()
        assert replay(lines).ledger.balances

    def test_every_controller_meets_the_same_tuples(self) -> None:
        arrived = {
            name: run(Poisson(2000.0), seconds=10.0, controller=name).jobs["q"].arrived
            for name in ("model", "paper", "none", "tail-drop", "rate-cap", "spark-pid")
        }
        assert len(set(arrived.values())) == 1


class TestClosedLoops:
    def test_nothing_is_dropped_while_it_fits(self) -> None:
        result = run(Poisson(500.0), period_seconds=0.1)
        assert result.jobs["q"].dropped == 0

    def test_overload_is_held_at_the_target(self) -> None:
        result = run(Poisson(3000.0), costs=WorkCosts(noise=0.05))
        settled = latencies(result, 10.0)
        assert settled.mean() == pytest.approx(1.0, rel=0.03)
        assert np.sqrt(np.mean((settled - 1.0) ** 2)) < 0.1
        assert result.nodes["n"].busy_seconds > 0.97 * 30.0

    def test_after_the_crowd_everything_is_kept_again(self) -> None:
        load = Poisson(FlashCrowd(300.0, 3000.0, 5.0, 10.0))
        result = run(load, seconds=40.0, period_seconds=0.1)
        assert any(row.dropped for row in result.rows if 5.0 < row.time_seconds < 16.0)
        assert not any(row.dropped for row in result.rows if row.time_seconds > 18.0)
        assert latencies(result, 20.0).max() < 0.2

    def test_a_source_that_stops(self) -> None:
        result = run(Steps((3000.0, 0.0, 3000.0), 10.0))
        assert result.rows[-1].time_seconds > 29.0
        assert latencies(result, 25.0).mean() == pytest.approx(1.0, rel=0.1)

    def test_a_cost_that_triples(self) -> None:
        costs = WorkCosts(slowdowns=(Slowdown(15.0, 3.0),))
        result = run(Poisson(2000.0), seconds=40.0, costs=costs)
        assert latencies(result, 8.0, 15.0).mean() == pytest.approx(1.0, rel=0.05)
        assert latencies(result, 22.0).mean() == pytest.approx(1.0, rel=0.05)

    @pytest.mark.parametrize("by_seconds", [3600.0, -3600.0])
    def test_a_clock_that_jumps(self, by_seconds: float) -> None:
        jump = (ClockJump(15.0, by_seconds),)
        result = run(Poisson(3000.0), seconds=40.0, clock_jumps=jump)
        assert latencies(result, 22.0).mean() == pytest.approx(1.0, rel=0.05)
        assert latencies(result, 15.0).max() < 3.0

    def test_batches_of_which_nothing_is_left(self) -> None:
        # One tuple takes five times the target: nearly everything goes, and nothing breaks.
        costs = WorkCosts(looking_seconds=0.0001)
        result = run(Poisson(300.0), cost=0.5, latency_target_seconds=0.1, costs=costs)
        assert any(row.kept == 0 for row in result.rows)
        assert result.jobs["q"].balances

    def test_without_control_latency_grows(self) -> None:
        result = run(Constant(1500.0), controller="none")
        assert result.jobs["q"].dropped == 0
        assert latencies(result, 20.0).min() > 5.0


class TestFailures:
    def test_a_batch_that_was_cut_off_runs_again_with_the_same_fate(self) -> None:
        plain = run(Poisson(3000.0), seconds=20.0)
        hit = next(row for row in plain.rows if row.time_seconds > 10.0 and row.dropped)
        at = hit.time_seconds - 0.5 * hit.duration_seconds
        broken = run(Poisson(3000.0), seconds=20.0, failures=(NodeFailure("n", at, 2.0),))
        again = next(row for row in broken.rows if row.batch == hit.batch)
        assert (again.offered, again.kept) == (hit.offered, hit.kept)
        assert again.time_seconds == pytest.approx(at + 2.0 + hit.duration_seconds)
        assert broken.jobs["q"].lost == 0
        assert broken.nodes["n"].failures == [(at, FailureCause.GIVEN)]

    def test_after_recovery_the_target_is_held_again(self) -> None:
        result = run(Poisson(3000.0), seconds=40.0, failures=(NodeFailure("n", 12.0, 5.0),))
        assert latencies(result, 25.0).mean() == pytest.approx(1.0, rel=0.05)
        assert not any(12.0 < row.time_seconds < 17.0 for row in result.rows)

    def test_out_of_memory_says_when(self) -> None:
        result = run(Constant(1500.0), controller="none", memory_tuples=2000)
        at = result.nodes["n"].out_of_memory_seconds
        assert at is not None
        assert max(row.time_seconds for row in result.rows) <= at + 3.0
        assert result.jobs["q"].balances

    def test_a_node_that_does_not_exist(self) -> None:
        with pytest.raises(UsageError, match="no node 'x'"):
            run(Constant(1.0), failures=(NodeFailure("x", 1.0, 1.0),))


class TestSeveralNodes:
    def test_latency_is_end_to_end(self) -> None:
        settings = SimulationSettings(seconds=4.0, period_seconds=1.0, link_delay_seconds=0.25)
        result = simulate(two_nodes(0.1, 0.1), {"s": Constant(4.0)}, settings)
        # Into A at 0.125 ... 0.875, out at 1.4, at B at 1.65, batch at 2, out at 2.4.
        on_b = next(row for row in result.rows if row.job == "q")
        assert on_b.time_seconds == pytest.approx(2.4)
        assert on_b.latency_mean_seconds == pytest.approx(2.4 - 1.65)
        assert result.queries["q"].latency.mean_seconds == pytest.approx(2.4 - 0.5)

    @pytest.mark.parametrize("planning", [Planning.CENTRAL, Planning.DISTRIBUTED])
    def test_the_plan_drops_before_work_is_wasted(self, planning: Planning) -> None:
        # B can take 500 tuples/s, A could take 1000: the plan drops half in front of A.
        settings = SimulationSettings(
            seconds=30.0, period_seconds=0.1, planning=planning, link_delay_seconds=0.01
        )
        result = simulate(two_nodes(0.001, 0.002), {"s": Constant(1000.0)}, settings)
        assert result.jobs["A"].dropped == pytest.approx(0.5 * 30_000, rel=0.1)
        # Until A has heard of it, B drops what it cannot take.
        assert result.jobs["q"].dropped <= 0.02 * 30_000
        assert result.nodes["B"].busy_seconds == pytest.approx(30.0, rel=0.05)
        assert (result.messages > 0) == (planning is Planning.DISTRIBUTED)

    def test_gates_behind_a_split_follow_the_plan(self) -> None:
        settings = SimulationSettings(seconds=30.0, period_seconds=0.1, planning=Planning.CENTRAL)
        result = simulate(split(), {"s": Constant(200.0)}, settings)
        assert result.queries["top"].kept_share == 1.0
        assert result.queries["bottom"].kept_share == pytest.approx(0.4, abs=0.05)
        assert result.ledger_balances

    def test_bandwidth_spreads_tuples(self) -> None:
        b = NetworkBuilder("link")
        one, two = b.node("A"), b.node("B")
        first = b.delay("f", b.stream("s"), one, cost_seconds=0.0, selectivity=1.0, tuple_bytes=100)
        b.query("q", b.delay("g", first, two, cost_seconds=0.0, selectivity=1.0))
        b.link(one, two, bandwidth_bytes_per_second=1000.0)
        result = simulate(
            b.build(), {"s": Constant(10.0)}, SimulationSettings(seconds=2.2, period_seconds=1.0)
        )
        # Ten tuples leave A at 1 s and take 0.1 s each.
        on_b = next(row for row in result.rows if row.job == "q")
        assert on_b.time_seconds == pytest.approx(2.0)
        assert on_b.offered == 10
        assert on_b.latency_max_seconds == pytest.approx(0.9)


def test_turns_by_class() -> None:
    b = NetworkBuilder("classes")
    node = b.node("n")
    for name in ("gold", "bronze"):
        work = b.delay(f"{name}_work", b.stream(name), node, cost_seconds=0.001, selectivity=1.0)
        b.query(f"{name}_query", work, query_class=name)
    classes = ClassSettings(
        {"gold": 3.0, "bronze": 1.0}, redistribute_every=0, round_seconds=2.0, grace_seconds=0.06
    )
    settings = SimulationSettings(
        seconds=40.0, period_seconds=0.05, classes=classes, latency_target_seconds=1.0
    )
    load = {"gold": Poisson(900.0), "bronze": Poisson(900.0)}
    result = simulate(b.build(), load, settings)
    gold, bronze = result.jobs["gold_query"], result.jobs["bronze_query"]
    assert gold.processed == pytest.approx(3.0 * bronze.processed, rel=0.15)
    # One batch at a time: the node's turns never overlap.
    spans = sorted(
        (row.time_seconds - row.duration_seconds, row.time_seconds) for row in result.rows
    )
    assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(spans))
