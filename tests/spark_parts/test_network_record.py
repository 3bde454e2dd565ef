"""Scores over time, with literal numbers. No Spark."""

from __future__ import annotations

import pytest

from headgate.network import OperatorStatistics, parse_network
from headgate.spark.networks.network_monitor import BatchSeen
from headgate.spark.networks.network_record import NetworkRecord

TWO = """\
network: two
nodes: {spark: {capacity: 1}}
streams: {a: {rate: 1/s}, b: {rate: 1/s}}
operators:
  left: {kind: delay, input: a, node: spark, cost: 10ms, selectivity: 1}
  right: {kind: delay, input: b, node: spark, cost: 10ms, selectivity: 1}
queries:
  gold: {input: left, weight: 10}
  bronze: {input: right, weight: 1}
"""


def batch(
    group: str,
    end: float,
    offered: int,
    delivered: int,
    tuple_seconds: float,
    capacity: float = 1.0,
) -> BatchSeen:
    stream, operator, query = {"g": ("a", "left", "gold"), "b": ("b", "right", "bronze")}[group]
    cost = tuple_seconds / delivered if delivered else 0.01
    return BatchSeen(
        group,
        end,
        1.0,
        {stream: offered},
        {query: delivered},
        tuple_seconds,
        1.1 * tuple_seconds,
        2.0,
        True,
        tuple_seconds,
        {operator: OperatorStatistics(cost, 1.0)},
        capacity,
    )


def record() -> NetworkRecord:
    """Warm at 10.0; gold's batches end at 9 and bronze's at 10."""
    made = NetworkRecord(parse_network(TWO), {"a": "g", "b": "b"}, ("g", "b"))
    made.add(batch("g", 9.0, 0, 0, 0.0))
    made.add(batch("b", 10.0, 0, 0, 0.0))
    return made


def test_nothing_counts_before_every_group_has_reported() -> None:
    made = record()
    assert made.seconds == 0.0
    assert made.score() is None
    made.add(batch("g", 15.0, 600, 300, 3.0))
    assert made.seconds == 0.0  # nobody knows what bronze did meanwhile
    made.add(batch("b", 13.0, 300, 60, 0.6))
    assert made.seconds == 3.0


def test_batches_that_end_at_different_times_share_the_capacity_of_the_same_time() -> None:
    """Gold gets 50 of 100 a second, bronze 20: 520. With all of the machine gold could have 100.

    Taken at the moments when the batches end, six seconds of gold would meet the capacity of one.
    """
    made = record()
    for end in (15.0, 21.0, 27.0):
        made.add(batch("g", end, 600, 300, 3.0))
    for end in (13.0, 16.0, 19.0, 22.0, 25.0):
        made.add(batch("b", end, 300, 60, 0.6))
    assert made.seconds == 15.0
    assert made.score() == pytest.approx(520.0)
    assert made.best_score() == pytest.approx(1000.0)
    assert made.delivered_per_second() == pytest.approx({"gold": 50.0, "bronze": 20.0})
    assert made.measured_load() == pytest.approx(0.7)
    assert made.predicted_load() == pytest.approx(0.77)
    assert made.latency_seconds("g") == 2.0
    assert made.delivered == {"gold": 900, "bronze": 300}


def test_costs_and_capacity_are_those_of_the_time() -> None:
    """Three seconds in which a tuple costs 10 ms, then three in which it costs 20."""
    made = record()
    made.add(batch("b", 13.0, 0, 0, 0.0))
    made.add(batch("g", 13.0, 600, 400, 4.0))  # 9 to 13, a quarter of it before all were warm
    made.add(batch("b", 16.0, 0, 0, 0.0, capacity=0.5))
    made.add(batch("g", 16.0, 600, 75, 1.5, capacity=0.5))
    assert made.score() == pytest.approx(10.0 * (3 * 100 + 75) / 6)
    assert made.best_score() == pytest.approx(10.0 * (3 * 100 + 75) / 6)


def test_what_was_done_could_be_done() -> None:
    """The estimate of the capacity was too low; the best is not below the score for that."""
    made = record()
    made.add(batch("b", 13.0, 0, 0, 0.0, capacity=0.5))
    made.add(batch("g", 13.0, 400, 400, 4.0, capacity=0.5))
    assert made.best_score() == pytest.approx(made.score())
