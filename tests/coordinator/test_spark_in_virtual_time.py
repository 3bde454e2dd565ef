"""Three classes on a Spark application that is full, with batches that have a fixed cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from headgate.coordinator import ClassSettings, Mode
from headgate.spark.agent.classes import class_settings
from tests.coordinator.spark_node import SparkNode, SparkQuery

PRIORITIES = {"gold": 6.0, "silver": 3.0, "bronze": 1.0}
TARGETS = {"gold": 6.0, "silver": 8.0, "bronze": 10.0}
COUNTS = {"gold": 3, "silver": 3, "bronze": 4}
LENDING = class_settings(PRIORITIES, 2)
PER_CLASS = replace(LENDING, redistribute_every=0)
COMMON = replace(PER_CLASS, one_shedder=True)
AS_IN_THE_PAPER = replace(PER_CLASS, due_above=0.0, by_quota=False, ease=1.0)
"""Whoever has rows is due, and a class finds its capacity by equation 1 alone."""
SETTLED = 60.0


def queries() -> list[SparkQuery]:
    """The second query of each class is a join, with one and a half times the fixed cost."""
    found = []
    for name, count in COUNTS.items():
        for number in range(count):
            dearer = 1.5 if number == 1 else 1.0
            found.append(
                SparkQuery(
                    f"{name}{number}",
                    name,
                    TARGETS[name],
                    0.0,
                    planning_seconds=0.25 * dearer,
                    committing_seconds=0.15 * dearer,
                    slot_seconds=0.3 * dearer,
                )
            )
    return found


@pytest.fixture(scope="module")
def capacity() -> float:
    """Rows a second when everybody runs at once and all have a backlog."""
    node = SparkNode(queries(), LENDING, Mode.OPEN)
    node.load(dict.fromkeys(PRIORITIES, 500.0))
    node.run(60.0)
    return node.kept_per_second(20.0)


def measured(classes: ClassSettings, load: float) -> SparkNode:
    """First everybody runs with a backlog, as where somebody had opened the gates; then turns."""
    node = SparkNode(queries(), LENDING, Mode.OPEN)
    node.load(dict.fromkeys(PRIORITIES, 400.0))
    node.run(15.0)
    node.use(classes)
    node.load(dict.fromkeys(PRIORITIES, load / len(PRIORITIES)))
    node.run(105.0)
    return node


@pytest.mark.parametrize("classes", [COMMON, PER_CLASS, LENDING], ids=["common", "own", "lending"])
def test_nobody_loses_anything_within_the_capacity(capacity: float, classes: ClassSettings) -> None:
    node = measured(classes, 0.85 * capacity)
    for name in PRIORITIES:
        assert node.loss(name, SETTLED) == 0.0
        assert node.response(name, SETTLED) < 0.8 * TARGETS[name]
    assert node.kept_per_second(SETTLED) == pytest.approx(0.85 * capacity, rel=0.05)


def test_the_common_shedder_takes_from_everybody(capacity: float) -> None:
    node = measured(COMMON, 1.5 * capacity)
    losses = [node.loss(name, SETTLED) for name in PRIORITIES]
    assert min(losses) > 0.1
    assert max(losses) - min(losses) < 0.15


@pytest.mark.parametrize("classes", [PER_CLASS, LENDING], ids=["own", "lending"])
@pytest.mark.parametrize("load", [1.25, 1.5])
def test_overload_takes_from_the_lowest_class_first(
    capacity: float, classes: ClassSettings, load: float
) -> None:
    node = measured(classes, load * capacity)
    gold, silver, bronze = (node.loss(name, SETTLED) for name in PRIORITIES)
    assert gold < 0.05
    assert gold <= silver < 0.4
    assert 0.5 < bronze < 0.951  # one in twenty is kept whatever happens
    for name, target in TARGETS.items():
        assert node.response(name, SETTLED) < 1.3 * target
    assert node.kept_per_second(SETTLED) > 0.85 * capacity


def test_lending_halves_what_the_lowest_class_loses(capacity: float) -> None:
    """Higher classes leave the time that they do not need, instead of filling it with small
    batches: the gain of lending is that of batching, as in the paper."""
    without, lending = (measured(s, 0.9 * capacity) for s in (AS_IN_THE_PAPER, LENDING))
    for node in (without, lending):
        assert node.loss("gold", SETTLED) == 0.0
        assert node.loss("silver", SETTLED) < 0.01
    assert without.loss("bronze", SETTLED) > 0.3
    assert lending.loss("bronze", SETTLED) < 0.5 * without.loss("bronze", SETTLED)
    assert lending.kept_per_second(SETTLED) > 1.2 * without.kept_per_second(SETTLED)


@pytest.mark.parametrize("classes", [PER_CLASS, LENDING], ids=["own", "lending"])
def test_who_stays_within_its_share_loses_nothing_when_the_machine_stalls(
    capacity: float, classes: ClassSettings
) -> None:
    """Everybody is late then, and the lowest class has to give."""
    node = SparkNode(queries(), classes, stalls=lambda now: now % 23.0 < 3.0)
    node.load(dict.fromkeys(PRIORITIES, 0.4 * capacity))
    node.run(150.0)
    assert node.loss("gold", SETTLED) < 0.01
    assert node.loss("silver", SETTLED) < 0.3
    assert node.loss("bronze", SETTLED) > 0.5
    assert node.response("gold", SETTLED) < 1.1 * TARGETS["gold"]


def test_longer_targets_cost_less_throughput(capacity: float) -> None:
    """Each batch has a fixed cost, and a longer target needs fewer of them."""
    kept = []
    for longer in (1.0, 2.0):
        own = queries()
        for query in own:
            query.target_seconds *= longer
        node = SparkNode(own, LENDING)
        node.load(dict.fromkeys(PRIORITIES, 0.5 * capacity))
        node.run(180.0)
        kept.append(node.kept_per_second(80.0))
    assert 0.85 * capacity < kept[0] < 0.95 * capacity
    assert kept[1] > 0.95 * capacity


def test_no_query_starves_inside_its_class(capacity: float) -> None:
    node = measured(LENDING, 1.5 * capacity)
    for query in node.queries.values():
        batches = [d.time for d in node.done if d.query is query]
        gaps = [b - a for a, b in pairwise(batches)]
        assert max(gaps) < 5.0 * query.target_seconds  # four queries share a tenth of the time
