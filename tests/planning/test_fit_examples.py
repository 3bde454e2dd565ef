"""The papers' worked examples, with literal numbers."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.network import Network, NetworkBuilder
from headgate.planning.exact import ExactPlanner
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.planning.sampled_tables.local_plan import drop_order
from headgate.reproduce.networks import fan_out, inputs, split, spread, table1

FINE = FitSettings(max_error=0.001)


def test_table_1() -> None:
    plan = FitPlanner(table1(), settings=FitSettings(max_error=0.01)).plan({})
    assert plan.score == pytest.approx(0.6, rel=1e-2)
    assert plan.keep_fraction["r1->r1.A"] == pytest.approx(0.2, abs=5e-3)
    assert plan.keep_fraction["r2->r2.A"] == pytest.approx(0.4, abs=5e-3)
    assert plan.gap <= 0.01


def test_leaf_of_table_1_is_bounded_by_its_parent() -> None:
    """B takes 1 tuple/s of r2 alone, but A never sends more than 1/2 (2007, section 6.2.1)."""
    planner = FitPlanner(table1())
    assert planner.trees[0].limits["B"].column_bounds == pytest.approx((1.0, 0.5))
    assert np.max(planner.tables["B"].rates, axis=0) == pytest.approx([1 / 3, 1 / 2])
    assert np.max(planner.tables["A"].rates, axis=0) == pytest.approx([1 / 3, 1 / 2])


def test_spread_example() -> None:
    """Spreads 0.1 and 0.05 and 48 entries; the paper counts 46."""
    settings = FitSettings(spread_error=0.1, exclude_redundant=False)
    table = FitPlanner(spread(), settings=settings).tables["B"]
    assert len(table) == 48
    assert np.unique(table.rates[:, 0]) == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert np.unique(table.rates[:, 1]) == pytest.approx(np.arange(21) * 0.05)
    best = int(np.argmax(table.scores))
    assert table.rates[best] == pytest.approx([0.0, 1.0])
    assert table.scores[best] == pytest.approx(1.0)


def test_spread_example_look_up() -> None:
    """With half the spread the observed (0.5, 0.5) maps to (0.15, 0.5)."""
    planner = FitPlanner(spread(), settings=FitSettings(spread_error=0.05))
    plan = planner.plan({"r1": 0.5, "r2": 0.5})
    assert plan.flow.kept == pytest.approx([0.15, 0.5])
    assert plan.node_load["B"] == pytest.approx(0.95)
    assert plan.score == pytest.approx(0.575)
    assert not planner.plan({"r1": 0.2, "r2": 0.35}).sheds


def test_split_example() -> None:
    """At r = 0.2 drop 60 % of the costlier branch; 1/3 is the largest rate of use."""
    planner = FitPlanner(split(), settings=FINE)
    plan = planner.plan({"r": 0.2})
    assert plan.score == pytest.approx(0.28, rel=1e-3)
    assert plan.keep_fraction["shared->top"] == 1.0
    assert plan.keep_fraction["shared->bottom"] == pytest.approx(0.4, abs=2e-3)
    assert np.max(planner.tables["A"].rates) == pytest.approx(1 / 3)
    assert not planner.plan({"r": 0.125}).sheds
    shed = planner.plan({"r": 0.1251})
    assert shed.keep_fraction["r->shared"] == pytest.approx(1.0, abs=2e-3)


def test_split_example_order_of_drops() -> None:
    """Ratios 1/5, then 1/3 for the input (it was 2/8), then 1/2."""
    order = drop_order(FitPlanner(split()).trees[0].root_table.shape)
    assert order.gates.tolist() == [2, 0, 1]
    assert order.ratio == pytest.approx([1 / 5, 1 / 3, 1 / 2])
    assert order.load_at_last(0) == 3.0


@pytest.mark.parametrize("count", [2, 4, 8])
def test_alike_inputs_share_columns(count: int) -> None:
    """Two kinds of inputs are two columns, however many there are."""
    planner = FitPlanner(inputs(count))
    table = planner.tables["server1"]
    assert table.columns == 2
    assert 150 < len(table) < 200
    assert table.bytes_per_entry == 25
    assert table.paper_bytes_per_entry == {2: 52, 4: 96, 8: 184}[count]
    plan = planner.plan({})
    assert plan.score >= 0.9 * ExactPlanner(inputs(count)).plan({}).score


def test_fewer_entries_for_a_larger_error() -> None:
    sizes = [
        len(FitPlanner(inputs(2), settings=FitSettings(max_error=e)).tables["server1"])
        for e in (0.02, 0.05, 0.1, 0.2)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 5 * sizes[-1]


def test_table_size_bounds_the_grid() -> None:
    for size in (4, 30, 200):
        settings = FitSettings(table_size=size, exclude_redundant=False)
        planner = FitPlanner(spread(), settings=settings)
        assert len(planner.tables["B"]) <= size
    steps = [np.diff(np.unique(planner.tables["B"].rates[:, c]))[0] for c in (0, 1)]
    assert steps[0] * 0.5 == pytest.approx(steps[1] * 1.0, rel=0.2)  # equal errors per column


@pytest.mark.parametrize("k", [1, 3])
def test_fan_out_is_a_table_of_one_column(k: int) -> None:
    planner = FitPlanner(fan_out(k), settings=FitSettings(max_error=0.01))
    exact = ExactPlanner(fan_out(k))
    assert planner.tables["server"].columns == 1
    for rate in (5.0, 20.0, 60.0, 200.0, 1000.0):
        best = exact.plan({"r": rate}).score
        assert planner.plan({"r": rate}).score >= 0.99 * best


def _union_then_split() -> Network:
    b = NetworkBuilder("union then split over two nodes")
    top, left, right = b.node("top"), b.node("left"), b.node("right")
    a, c = b.stream("a", 1.0), b.stream("c", 1.0)
    one = b.filter("one", a, top, cost_seconds=0.2, selectivity=0.5)
    two = b.filter("two", c, top, cost_seconds=0.1, selectivity=0.8)
    both = b.union("both", [one, two], top, cost_seconds=0.05)
    b.query("q1", b.map("l", both, left, cost_seconds=0.6))
    b.query("q2", b.map("r", both, right, cost_seconds=0.9), weight=2.0)
    return b.build()


def test_merge_pairs_and_the_maximum_rule() -> None:
    network = _union_then_split()
    planner = FitPlanner(network, settings=FitSettings(max_error=0.2))
    exact = ExactPlanner(network)
    assert planner.trees[0].root_table.shape.offer.merges == 1
    for rates in ((3.0, 3.0), (0.1, 9.0), (9.0, 0.1), (2.0, 1.2)):
        given = dict(zip(("a", "c"), rates, strict=True))
        plan = planner.plan(given)
        assert planner.model.is_feasible(plan.flow)
        assert plan.score >= 0.8 * exact.plan(given).score
