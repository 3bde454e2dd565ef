"""The parts of the simulator, with literal numbers."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.control import ServiceKind
from headgate.network import NetworkBuilder
from headgate.simulation.jobs import jobs_of, loss_gains
from headgate.simulation.latency_histogram import LatencyHistogram, LatencySummary
from headgate.simulation.links import finish_times
from headgate.simulation.passage import PassageState, Rows, pass_through
from headgate.simulation.processor import Processor
from headgate.simulation.tuples import ArcQueue, Tuples
from tests.simulation.networks import split, two_nodes


def test_finish_times_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    ready = np.sort(rng.random(200) * 10.0)
    service = rng.random(200) * 0.1
    expected, free_at = [], 0.7
    for begin, seconds in zip(ready, service, strict=True):
        free_at = max(begin, free_at) + seconds
        expected.append(free_at)
    assert np.allclose(finish_times(ready, service, 0.7), expected)


def test_queue_hands_out_what_has_arrived() -> None:
    queue = ArcQueue()
    for part in ([0.1, 0.2], [0.3, 0.9]):
        times = np.array(part)
        queue.put(Tuples(times, times))
    assert queue.waiting(0.25) == 2
    assert queue.take(0.3).entered.tolist() == [0.1, 0.2, 0.3]
    assert queue.waiting(0.5) == 0
    assert queue.arrived(1.0) == 4
    assert queue.take(1.0).entered.tolist() == [0.9]


def test_processor_is_shared_evenly() -> None:
    processor = Processor(2.0)
    processor.start("a", 2.0, 0.0)
    assert processor.next_end() == (1.0, "a")
    processor.start("b", 1.0, 0.5)  # a has 1.0 left, and half the processor
    end, job = processor.next_end() or (0.0, "")
    assert (end, job) == (pytest.approx(1.5), "a")
    processor.finish("a", 1.5)
    assert processor.busy_seconds == pytest.approx(3.0)


def test_histogram() -> None:
    histogram = LatencyHistogram()
    values = np.random.default_rng(1).exponential(1.0, 20_000)
    for part in np.array_split(values, 7):
        histogram.add(part)
    assert histogram.mean_seconds == pytest.approx(values.mean())
    assert histogram.deviation_seconds == pytest.approx(values.std())
    assert histogram.largest_seconds == values.max()
    for percentile in (5.0, 50.0, 95.0, 99.0):
        exact = np.percentile(values, percentile)
        assert histogram.percentile_seconds(percentile) == pytest.approx(exact, rel=0.02)
    seconds, share = histogram.distribution()
    assert share[-1] == 1.0
    assert np.all(np.diff(seconds) > 0.0)
    assert LatencyHistogram().percentile_seconds(50.0) is None


def test_summary() -> None:
    summary = LatencySummary.of(np.arange(1.0, 101.0))
    assert (summary.count, summary.mean_seconds) == (100, 50.5)
    assert (summary.p95_seconds, summary.largest_seconds) == (95.0, 100.0)
    assert LatencySummary.of(np.empty(0)).percentiles == {}


class TestPassage:
    def passed(self, kind: str, selectivity: float, parts: list[list[float]]) -> list[Rows]:
        b = NetworkBuilder("p")
        stream, node = b.stream("s"), b.node("n")
        make = {"aggregate": b.aggregate, "filter": b.filter, "delay": b.delay}[kind]
        b.query("q", make("o", stream, node, cost_seconds=1.0, selectivity=selectivity))
        [job] = jobs_of(b.build(), ServiceKind.MICRO_BATCH, None)
        state, rng = PassageState(), np.random.default_rng(1)
        found = []
        for part in parts:
            rows = Rows(np.array(part), np.array(part) + 10.0)
            found.append(pass_through(job, {"s->o": rows}, {}, state, rng).outputs["o->q"])
        return found

    def test_an_aggregate_forwards_the_oldest_arrival(self) -> None:
        first, second = self.passed("aggregate", 0.5, [[3.0, 1.0, 2.0], [4.0, 5.0, 6.0]])
        assert first.origin.tolist() == [1.0]
        assert first.done.tolist() == [11.0]
        assert second.origin.tolist() == [2.0, 5.0]  # 2 waited for 4
        assert second.done.tolist() == [14.0, 16.0]

    def test_groups_are_counted_over_batches(self) -> None:
        parts = [[float(i)] * (i % 4) for i in range(40)]
        results = self.passed("aggregate", 0.3, parts)
        assert sum(map(len, results)) == int(0.3 * sum(map(len, parts)) + 1e-9)

    def test_a_filter_passes_its_share(self) -> None:
        [rows] = self.passed("filter", 0.25, [[0.0] * 10_000])
        assert len(rows) == pytest.approx(2500, abs=150)

    def test_more_than_one_result(self) -> None:
        [rows] = self.passed("delay", 2.5, [[0.0] * 10_000])
        assert len(rows) == pytest.approx(25_000, abs=300)


class TestJobs:
    def test_operators_that_feed_each_other_are_one_job(self) -> None:
        [job] = jobs_of(split(), ServiceKind.MICRO_BATCH, 2.0)
        assert job.name == "n"
        assert [arc.name for arc in job.inputs] == ["s->common"]
        assert [arc.name for arc in job.splits] == ["common->top_work", "common->bottom_work"]
        assert job.cost_of_input == {"s->common": pytest.approx(0.008)}
        assert job.target_seconds == 2.0

    def test_a_target_is_divided_along_the_way(self) -> None:
        first, second = jobs_of(two_nodes(0.1, 0.2), ServiceKind.MICRO_BATCH, 3.0)
        assert (first.name, first.node, first.target_seconds) == ("A", "A", 1.5)
        assert (second.name, second.node, second.target_seconds) == ("q", "B", 1.5)

    def test_what_a_dropped_tuple_costs(self) -> None:
        gains = loss_gains(split())
        assert gains["s->common"] == {"top": 1.0, "bottom": 1.0}
        assert gains["common->top_work"] == {"top": 1.0}
