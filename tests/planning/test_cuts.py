"""Exact tables: rows against the linear program, and what is written on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.errors import PlanningError
from headgate.planning import CutTable, ExactPlanner, compile_flow
from headgate.planning.cut_tables.corners import Corners
from headgate.planning.cut_tables.cuts import chain_table, single_price_table
from headgate.planning.cut_tables.node_program import NodeProgram
from headgate.planning.cut_tables.value_table import TableSettings, value_table
from headgate.planning.flow_model import FlowModel, compile_part
from tests.planning.networks import TABLE_1, chains, split
from tests.random_networks import random_network


def worst_difference(table: CutTable, planner: ExactPlanner, points: np.ndarray) -> float:
    scores = np.array([planner.plan_rates(point).score for point in points])
    return float(np.max(np.abs(table.values(points) - scores) / np.maximum(scores, 1e-9)))


def test_the_split_example_has_three_rows() -> None:
    # Price 0: keep all (2 r). Price 1/5: the dear branch goes (0.2 + ... ). Price 1/3: all goes.
    table = single_price_table(compile_flow(split()))
    rows = {
        (round(i, 9), round(s, 9))
        for i, (s,) in zip(table.intercepts, table.slopes.tolist(), strict=True)
    }
    assert rows == {(0.0, 2.0), (0.2, 0.4), (round(1 / 3, 9), 0.0)}


def test_table_1_has_four_rows_and_the_score_of_the_paper() -> None:
    table = chain_table(compile_flow(TABLE_1))
    assert table.rows == 4
    assert table.value(np.array([1.0, 1.0])) == pytest.approx(0.6)


def test_the_papers_eight_inputs_need_a_handful_of_rows() -> None:
    costs = [(0.016, 0.008) if j % 2 == 0 else (0.008, 0.016) for j in range(8)]
    network = chains(costs)
    table = chain_table(compile_flow(network))
    assert table.rows <= 6
    assert len(table.encoded()) <= 440
    points = np.random.default_rng(0).exponential(30.0, (50, 8))
    assert worst_difference(table, ExactPlanner(network), points) < 1e-9


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_random_chains_equal_the_linear_program(nodes: int) -> None:
    rng = np.random.default_rng(nodes)
    network = chains(rng.random((8, nodes)).tolist(), weights=rng.random(8).tolist())
    table = chain_table(compile_flow(network))
    points = rng.exponential(1.0, (100, 8)) * rng.choice([0.1, 1.0, 10.0], (100, 1))
    assert worst_difference(table, ExactPlanner(network), points) < 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_one_node_with_splits_and_merges_equals_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, max_nodes=1, links=False)
    table = single_price_table(compile_flow(network))
    usual = np.array([s.rate_per_second or 1.0 for s in network.streams])
    points = usual * rng.uniform(0.0, 4.0, (20, len(usual)))
    assert worst_difference(table, ExactPlanner(network), points) < 1e-7


@pytest.mark.parametrize("seed", range(25))
def test_several_nodes_with_splits_equal_the_linear_program_inside_the_box(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    network = random_network(rng)
    model = compile_flow(network)
    box = np.array([2.0 * (s.rate_per_second or 1.0) for s in network.streams])
    table = value_table(NodeProgram(model), box)
    assert table.error_bound == 0.0
    points = box * rng.uniform(0.0, 1.0, (20, len(box)))
    assert worst_difference(table, ExactPlanner(network), points) < 1e-6


def test_a_table_cut_short_bounds_its_own_error() -> None:
    rng = np.random.default_rng(7)
    network = chains(rng.random((3, 3)).tolist(), weights=rng.random(3).tolist())
    program = NodeProgram(compile_flow(network))
    box = np.full(3, 3.0)
    short = value_table(program, box, TableSettings(max_rows=3, max_systems=0))
    planner = ExactPlanner(network)
    points = rng.uniform(0.0, 3.0, (200, 3))
    scores = np.array([planner.plan_rates(point).score for point in points])
    over = short.values(points) - scores
    assert short.rows <= 3
    assert np.all(over >= -1e-9)
    assert 0.0 < float(np.max(over)) <= short.error_bound + 1e-9


def test_every_row_is_a_bound_even_where_the_search_did_not_look() -> None:
    rng = np.random.default_rng(8)
    network = chains(rng.random((12, 2)).tolist())
    table = value_table(
        NodeProgram(compile_flow(network)), np.full(12, 0.1), TableSettings(max_systems=0)
    )
    planner = ExactPlanner(network)
    for point in rng.exponential(2.0, (50, 12)):
        assert table.value(point) >= planner.plan_rates(point).score - 1e-9


def test_pruning_keeps_the_function() -> None:
    table = CutTable(
        ("a", "b"),
        np.array([1.0, 1.0, 2.0, 0.0]),
        np.array([[1.0, 0.0], [1.0, 0.0], [1.5, 1.0], [3.0, 3.0]]),
    )
    assert table.pruned().rows == 2
    points = np.random.default_rng(0).random((20, 2))
    assert table.pruned().values(points) == pytest.approx(table.values(points))


def test_what_is_written_can_be_read_and_nothing_else() -> None:
    table = chain_table(compile_flow(TABLE_1))
    again = CutTable.decoded(table.encoded(), table.inputs)
    assert np.array_equal(again.intercepts, table.intercepts)
    assert np.array_equal(again.slopes, table.slopes)
    for wrong in (b"", table.encoded()[:-1], b"\xff" * 64):
        with pytest.raises(PlanningError):
            CutTable.decoded(wrong, table.inputs)


def test_a_part_has_the_arcs_that_enter_as_inputs() -> None:
    part: FlowModel = compile_part(TABLE_1, "N1")
    assert part.inputs == ("o0_0->o0_1", "o1_0->o1_1")
    assert part.outputs == ("q0", "q1")
    assert part.load.dense.tolist() == [[3.0, 1.0]]


def test_corners_of_a_roof() -> None:
    # v <= x + y and v <= 1 over the unit square: the roof meets v = 1 on the line x + y = 1.
    corners = Corners(2)
    corners.add(0.0, np.array([1.0, 1.0]))
    upper = {tuple(np.round(p, 9)) for p in corners.points if p[-1] > 0.0}
    assert upper == {(0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 1.0)}
