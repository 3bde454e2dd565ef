"""Zeros, refusals and limits: a right answer or a clear error."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from headgate.errors import PlanningError
from headgate.network import Network, NetworkBuilder
from headgate.planning.exact import ExactPlanner
from headgate.planning.plan import Plan
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.reproduce.networks import inputs, table1


def check(network: Network, rates: dict[str, float], error: float = 0.1) -> Plan:
    """The plan, checked against the exact one."""
    planner = FitPlanner(network, settings=FitSettings(max_error=error))
    plan = planner.plan(rates)
    best = ExactPlanner(network).plan(rates).score
    assert planner.model.is_feasible(plan.flow)
    assert plan.score >= (1.0 - error) * best - 1e-12
    assert plan.objective_bound >= best * (1.0 - 1e-9)
    assert plan.gap <= error + 1e-12
    return plan


def two_chains(**second: float) -> Network:
    """Two chains over nodes A and B; `second` overrides numbers of the second one on B."""
    b = NetworkBuilder("two chains")
    a, n = b.node("A"), b.node("B")
    for name, numbers in (("x", {}), ("y", second)):
        values = {"cost_seconds": 1.0, "selectivity": 1.0, **numbers}
        first = b.delay(f"{name}1", b.stream(name, 1.0), a, cost_seconds=0.5, selectivity=1.0)
        b.query(f"{name}q", b.delay(f"{name}2", first, n, **values))
    return b.build()


def test_zero_rate() -> None:
    assert not check(table1(), {"r1": 0.0, "r2": 0.0}).sheds
    plan = check(table1(), {"r1": 0.0, "r2": 3.0})
    assert plan.keep_fraction["r1->r1.A"] == 1.0


def test_zero_selectivity_earns_nothing_and_goes_first() -> None:
    plan = check(two_chains(selectivity=0.0), {"x": 0.9, "y": 1.0})
    assert plan.keep_fraction == {"x->x1": 1.0, "y->y1": 0.0}
    assert plan.gap == pytest.approx(0.0)


def test_zero_cost_further_down_is_free_there() -> None:
    network = two_chains(cost_seconds=0.0)
    planner = FitPlanner(network)
    assert planner.tables["B"].columns == 1  # y costs B nothing and needs no column
    plan = check(network, {"x": 1.5, "y": 1.5})
    assert plan.keep_fraction["y->y1"] > 0.6


def test_zero_cost_everywhere_is_never_dropped() -> None:
    network = two_chains(cost_seconds=0.0)
    operators = tuple(
        replace(o, cost_seconds=0.0) if o.name == "y1" else o for o in network.operators
    )
    network = replace(network, operators=operators)
    plan = check(network, {"x": 5.0, "y": 1e9})
    assert plan.keep_fraction["y->y1"] == 1.0
    assert plan.query_rate_per_second["yq"] == 1e9


def test_zero_capacity() -> None:
    network = two_chains()
    nodes = tuple(replace(n, capacity=0.0) if n.name == "B" else n for n in network.nodes)
    plan = check(replace(network, nodes=nodes), {"x": 1.0, "y": 1.0})
    assert plan.score == 0.0
    assert set(plan.keep_fraction.values()) == {0.0}


def test_extreme_weights() -> None:
    network = two_chains()
    for weight in (0.0, 1e12):
        queries = tuple(replace(q, weight=weight) if q.name == "yq" else q for q in network.queries)
        check(replace(network, queries=queries), {"x": 1.0, "y": 1.0})


def free_branch() -> Network:
    """A costless operator splits into a query and a costly branch."""
    b = NetworkBuilder("free branch")
    node = b.node("A")
    split = b.map("split", b.stream("x", 1.0), node, cost_seconds=0.0)
    b.query("all", split)
    b.query("some", b.map("work", split, node, cost_seconds=1.0))
    return b.build()


@pytest.mark.parametrize("rate", [0.5, 1.5, 1e6])
def test_a_free_branch_takes_everything(rate: float) -> None:
    plan = check(free_branch(), {"x": rate})
    assert plan.query_rate_per_second["all"] == rate
    assert plan.query_rate_per_second["some"] == pytest.approx(min(rate, 1.0), rel=0.1)


def test_an_input_without_load_of_its_own() -> None:
    """Branches of the same ratio behind a costless input: the table still ends somewhere."""
    b = NetworkBuilder("costless input")
    node = b.node("A")
    split = b.map("split", b.stream("x", 1.0), node, cost_seconds=0.0, selectivity=0.7)
    for name, cost in (("one", 0.3), ("two", 0.6)):
        b.query(f"{name}.out", b.map(name, split, node, cost_seconds=cost), weight=cost / 3)
    network = b.build()
    assert np.max(FitPlanner(network).tables["A"].rates) < 10.0
    for rate in (1.0, 2.0, 3.0, 1e6):
        check(network, {"x": rate})


def test_a_stream_into_several_operators() -> None:
    b = NetworkBuilder("several")
    a, n = b.node("A"), b.node("B")
    x = b.stream("x", 1.0)
    b.query("q1", b.map("one", x, a, cost_seconds=1.0))
    b.query("q2", b.map("two", x, a, cost_seconds=0.3))
    b.query("q3", b.map("three", x, n, cost_seconds=0.7))
    b.query("raw", x)
    plan = check(b.build(), {"x": 2.0})
    assert plan.keep_fraction["x->raw"] == 1.0


def test_external_inputs_below_the_root() -> None:
    b = NetworkBuilder("external below")
    a, n = b.node("A"), b.node("B")
    x, y = b.stream("x", 1.0), b.stream("y", 1.0)
    above = b.map("above", x, a, cost_seconds=0.8)
    b.query("q1", b.map("from_above", above, n, cost_seconds=0.9))
    b.query("q2", b.map("direct", y, n, cost_seconds=0.5))
    network = b.build()
    assert FitPlanner(network).tables["A"].columns == 2  # y is carried through
    for x_rate, y_rate in ((2.0, 2.0), (0.3, 9.0), (9.0, 0.3)):
        check(network, {"x": x_rate, "y": y_rate})


def test_limited_link() -> None:
    b = NetworkBuilder("link")
    a, n = b.node("A"), b.node("B")
    for name, size in (("x", 100.0), ("y", 300.0)):
        first = b.map(f"{name}1", b.stream(name, 1.0), a, cost_seconds=0.1, tuple_bytes=size)
        b.query(f"{name}q", b.map(f"{name}2", first, n, cost_seconds=0.2))
    b.link(a, n, bandwidth_bytes_per_second=300.0)
    plan = check(b.build(), {"x": 2.0, "y": 2.0})
    assert plan.link_load["A->B"] <= 300.0
    assert plan.keep_fraction["x->x1"] > plan.keep_fraction["y->y1"]


def test_free_receiver_behind_a_limited_link_is_refused() -> None:
    b = NetworkBuilder("link")
    a, n = b.node("A"), b.node("B")
    first = b.map("first", b.stream("x", 1.0), a, cost_seconds=0.1, tuple_bytes=100.0)
    b.query("q", b.map("second", first, n, cost_seconds=0.0))
    b.link(a, n, bandwidth_bytes_per_second=300.0)
    with pytest.raises(PlanningError, match="use the exact planner"):
        FitPlanner(b.build())


def test_several_parents_are_refused() -> None:
    b = NetworkBuilder("several parents")
    nodes = [b.node(name) for name in "ABC"]
    ends = [b.map(f"m{i}", b.stream(f"s{i}", 1.0), nodes[i], cost_seconds=0.1) for i in range(2)]
    b.query("q", b.union("u", ends, nodes[2], cost_seconds=0.1))
    with pytest.raises(PlanningError, match=r"'C' gets tuples from 'A' and from 'B'.*exact"):
        FitPlanner(b.build())


def test_too_many_rows() -> None:
    settings = FitSettings(join_inputs=False, max_entries=5000)
    with pytest.raises(PlanningError, match=r"over 8 columns would pass 5000 rows.*raise max_err"):
        FitPlanner(inputs(8), settings=settings)


def test_a_thousand_inputs() -> None:
    b = NetworkBuilder("thousand")
    node = b.node("A")
    for i in range(1000):
        stream = b.stream(f"s{i}", 1.0)
        b.query(f"q{i}", b.map(f"m{i}", stream, node, cost_seconds=0.001 * (1 + i % 3)))
    plan = check(b.build(), {})  # three kinds, three columns
    assert plan.score > 0.0
    with pytest.raises(PlanningError, match="1000 columns"):
        FitPlanner(b.build(), settings=FitSettings(join_inputs=False, max_entries=2000))


@pytest.mark.parametrize(
    "values",
    [
        {"max_error": 0.0},
        {"max_error": 1.0},
        {"spread_error": 0.0},
        {"table_size": 1},
        {"similarity": 1.0},
        {"look_up": "index"},
    ],
)
def test_settings_are_checked(values: dict[str, float | str]) -> None:
    with pytest.raises(PlanningError):
        FitSettings(**values)  # type: ignore[arg-type]


def test_picklable_and_deterministic() -> None:
    planner = FitPlanner(inputs(4))
    again = pickle.loads(pickle.dumps(planner))
    for rates in ({}, {"r1": 3.0, "r2": 50.0}):
        one, two = planner.plan(rates), again.plan(rates)
        assert one.keep_fraction == two.keep_fraction
        assert one.objective_bound == two.objective_bound
    fresh = FitPlanner(inputs(4))
    assert all(fresh.tables[n].same_rows(t) for n, t in planner.tables.items())


def test_similar_rows_are_thinned_out_and_the_gap_stays_true() -> None:
    network = inputs(2)
    full, thin = (FitPlanner(network, settings=FitSettings(similarity=s)) for s in (0.0, 0.2))
    assert thin.entries < 0.6 * full.entries
    exact = ExactPlanner(network)
    rng = np.random.default_rng(3)
    for rates in rng.uniform(0.0, 60.0, size=(40, 2)):
        given = {"r1": float(rates[0]), "r2": float(rates[1])}
        plan, best = thin.plan(given), exact.plan(given).score
        assert thin.model.is_feasible(plan.flow)
        assert best <= plan.objective_bound * (1.0 + 1e-9)


def test_quadtree_gives_the_same_plans() -> None:
    scan, tree = (
        FitPlanner(inputs(2), settings=FitSettings(look_up=kind)) for kind in ("scan", "quadtree")
    )
    for r1 in (1.0, 15.0, 40.0):
        given = {"r1": r1, "r2": 30.0}
        assert scan.plan(given).keep_fraction == tree.plan(given).keep_fraction
