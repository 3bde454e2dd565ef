from __future__ import annotations

import numpy as np
import pytest

from headgate.control import ServiceKind
from headgate.coordinator import replay
from headgate.simulation.arrivals import Arrivals, Constant, FlashCrowd, Poisson, Steps
from headgate.simulation.record import SimulationResult
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
    given: dict[str, object] = {
        "seconds": 30.0,
        "latency_target_seconds": 1.0,
        "service": ServiceKind.INPUT_BUFFER,
        "period_seconds": 0.25,
        **settings,
    }
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
    def test_tuples_are_served_one_after_the_other(self) -> None:
        # Every 50 ms a tuple of 100 ms: number k comes at 0.025 + 0.05 k, done at 0.125 + 0.1 k.
        result = run(Constant(20.0), cost=0.1, seconds=1.0, period_seconds=1.0, controller="none")
        [row] = result.rows
        assert row.processed == 10  # begun before 1 s
        assert row.latency_mean_seconds == pytest.approx(0.1 + 0.05 * 4.5)
        assert row.latency_max_seconds == pytest.approx(0.1 + 0.05 * 9)
        assert row.busy_seconds == pytest.approx(0.975)
        assert row.waiting == 10

    def test_the_shedder_keeps_exactly_what_it_is_told(self) -> None:
        result = run(
            Constant(20.0),
            cost=0.1,
            seconds=2.0,
            period_seconds=1.0,
            controller="tail-drop",
            controller_settings={"buffer_tuples": 5},
        )
        second = result.rows[1]
        assert (second.offered, second.kept, second.dropped) == (10, 5, 5)
        assert result.jobs["n"].dropped == 5 + 10  # the second period leaves 15 in front of 5

    def test_looking_takes_server_time(self) -> None:
        costs = WorkCosts(looking_seconds=0.01)
        plain, looking = (
            run(
                Constant(20.0),
                cost=0.1,
                seconds=2.0,
                period_seconds=1.0,
                controller="none",
                costs=c,
            )
            for c in (WorkCosts(), costs)
        )
        # 10 tuples looked at take 0.1 s: one tuple less is begun in the second period.
        assert plain.rows[1].processed - looking.rows[1].processed == 1


class TestBooks:
    def test_no_tuple_is_made_or_lost(self) -> None:
        result = run(Poisson(3000.0))
        job = result.jobs["n"]
        assert job.arrived == job.processed + job.dropped + job.waiting
        assert result.ledger_balances

    def test_the_same_seed_gives_the_same_journal_and_it_replays(self) -> None:
        first, again, other = (
            run(Poisson(3000.0), seconds=10.0, with_journal=True, seed=seed) for seed in (1, 1, 2)
        )
        assert first.journals == again.journals
        assert first.journals != other.journals
        [lines] = first.journals.values()
        assert replay(lines).ledger.balances


@pytest.mark.parametrize("target", [0.5, 3.0])
class TestClosedLoops:
    def test_overload_is_held_at_the_target(self, target: float) -> None:
        result = run(Poisson(3000.0), latency_target_seconds=target)
        settled = latencies(result, 10.0)
        assert settled.mean() == pytest.approx(target, rel=0.03)
        assert np.sqrt(np.mean((settled - target) ** 2)) < 0.05 * target

    def test_after_the_crowd_everything_is_kept_again(self, target: float) -> None:
        load = Poisson(FlashCrowd(300.0, 3000.0, 5.0, 10.0))
        result = run(load, seconds=40.0, latency_target_seconds=target)
        assert any(row.dropped for row in result.rows if row.time_seconds < 16.0)
        assert not any(row.dropped for row in result.rows if row.time_seconds > 25.0)
        assert latencies(result, 25.0).max() < 0.1

    def test_a_cost_that_triples(self, target: float) -> None:
        costs = WorkCosts(slowdowns=(Slowdown(20.0, 3.0),))
        result = run(Poisson(2000.0), seconds=60.0, costs=costs, latency_target_seconds=target)
        assert latencies(result, 40.0).mean() == pytest.approx(target, rel=0.05)

    def test_a_source_that_stops(self, target: float) -> None:
        result = run(Steps((3000.0, 0.0, 3000.0), 10.0), latency_target_seconds=target)
        assert latencies(result, 16.0, 20.0).size == 0
        assert latencies(result, 26.0).mean() == pytest.approx(target, rel=0.1)

    def test_a_clock_that_jumps(self, target: float) -> None:
        jump = (ClockJump(15.0, -600.0), ClockJump(20.0, 1200.0))
        result = run(Poisson(3000.0), seconds=50.0, clock_jumps=jump, latency_target_seconds=target)
        assert latencies(result, 35.0).mean() == pytest.approx(target, rel=0.05)


class TestFailures:
    def test_out_of_memory_says_when(self) -> None:
        # 1500 arrive, 1000 are done: 500 more each second, 5000 after 10 s.
        result = run(Constant(1500.0), controller="none", memory_tuples=5000)
        assert result.nodes["n"].out_of_memory_seconds == pytest.approx(9.75, abs=0.3)
        assert result.jobs["n"].lost > 0
        assert result.jobs["n"].balances

    def test_a_node_that_fails_loses_its_buffer_and_comes_back(self) -> None:
        result = run(Poisson(3000.0), seconds=40.0, failures=(NodeFailure("n", 12.0, 5.0),))
        job = result.jobs["n"]
        assert job.lost == pytest.approx(15_000 + 1_500, rel=0.2)
        assert job.balances
        assert latencies(result, 25.0).mean() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("planning", [Planning.CENTRAL, Planning.DISTRIBUTED])
def test_two_nodes_under_a_plan(planning: Planning) -> None:
    settings = SimulationSettings(
        seconds=30.0,
        service=ServiceKind.INPUT_BUFFER,
        period_seconds=0.25,
        planning=planning,
        link_delay_seconds=0.01,
    )
    result = simulate(two_nodes(0.001, 0.002), {"s": Constant(1000.0)}, settings)
    done = result.queries["q"].results
    assert done == pytest.approx(0.5 * 30_000, rel=0.05)
    assert result.queries["q"].latency.count == done


def test_one_buffer_for_all_queries_of_a_node() -> None:
    settings = SimulationSettings(
        seconds=20.0,
        service=ServiceKind.INPUT_BUFFER,
        period_seconds=0.25,
        latency_target_seconds=1.0,
    )
    result = simulate(split(), {"s": Poisson(250.0)}, settings)
    assert list(result.jobs) == ["n"]
    assert latencies(result, 10.0).mean() == pytest.approx(1.0, rel=0.05)
    top, bottom = result.queries["top"], result.queries["bottom"]
    assert top.results == bottom.results
