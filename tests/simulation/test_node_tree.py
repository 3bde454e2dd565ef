"""A tree of nodes that decide alone: it settles, nobody is overloaded, classes keep their order."""

from __future__ import annotations

import pytest

from headgate.planning import ExactPlanner
from headgate.reproduce.experiment import Request
from headgate.reproduce.experiments.thousand_nodes import CLASSES, THOUSAND_NODES, tree_network
from headgate.simulation.node_tree import NodeTree


def quiet(done: int, total: int, what: str) -> None:
    del done, total, what


def test_it_settles_on_the_central_plan_after_as_many_steps_as_it_is_deep() -> None:
    network = tree_network((1, 2, 4), 40, seed=3)
    tree = NodeTree(network, CLASSES, replan_margin=False)
    rates = {"a": 300.0, "b": 200.0}
    steps = [tree.step(rates) for _ in range(6)]
    assert [step.messages > 0 for step in steps] == [True, True, False, False, False, False]
    best = ExactPlanner(network).plan(rates).score
    assert steps[-1].score == pytest.approx(best, rel=1e-6)


def test_the_margin_costs_at_most_itself_and_no_node_passes_its_capacity() -> None:
    network = tree_network((1, 2, 4), 40, seed=3)
    tree, exact = NodeTree(network, CLASSES), ExactPlanner(network)
    fullest = []
    for number in range(12):  # each rise is too small for a node to decide anew
        rates = {"a": 300.0 * 1.003**number, "b": 200.0 * 1.003**number}
        step = tree.step(rates)
        fullest.append(step.largest_load_share)
        assert step.overloaded_nodes == 0
        if number > 3:
            assert step.score >= exact.plan(rates).score / 1.01 * (1 - 1e-6)
    assert 0.99 < max(fullest) <= 1.0


def test_no_node_is_overloaded_even_before_the_tables_have_arrived() -> None:
    tree = NodeTree(tree_network((1, 2, 4), 40, seed=4), CLASSES)
    steps = [tree.step({"a": 500.0, "b": 500.0}) for _ in range(4)]
    assert all(step.overloaded_nodes == 0 for step in steps)


def test_a_child_that_has_not_spoken_is_not_starved() -> None:
    network = tree_network((1, 2), 12, seed=5)
    first = NodeTree(network, CLASSES).step({"a": 100.0, "b": 100.0})
    assert first.score > 0.5 * ExactPlanner(network).plan({"a": 100.0, "b": 100.0}).score


def test_the_experiment_has_a_gap_below_one_percent_and_the_margin() -> None:
    outcome = THOUSAND_NODES.run(Request(quick=True), quiet)
    found = {finding.what: finding.ours for finding in outcome.findings}
    assert float(found["largest gap to the central exact plan, settled"] or 0.0) < 0.02
    assert found["most nodes above their capacity"] == 0
    assert float(found["largest load of a node, share of its capacity"] or 0.0) <= 1.0
    last = outcome.rows[-1]
    assert float(last["kept_gold"] or 0) > float(last["kept_bronze"] or 0)
