"""The point quadtree and the scan: the same entry, for any number of columns."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.planning.sampled_tables.entry_scan import EntryScan
from headgate.planning.sampled_tables.point_quadtree import PointQuadtree

ROWS = np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0], [0.0, 0.0]])
SCORES = np.array([4.0, 4.0, 5.0, 0.0])


@pytest.mark.parametrize("finder", [EntryScan, PointQuadtree])
@pytest.mark.parametrize(
    ("point", "row"),
    [
        ((9.0, 9.0), 2),
        ((3.0, 1.5), 0),
        ((1.0, 9.0), 1),
        ((2.0, 2.0), 2),  # on the row itself
        ((1.9, 1.9), 3),
        ((0.0, 0.0), 3),
    ],
)
def test_finds_the_highest_score_at_or_below(
    finder: type[EntryScan] | type[PointQuadtree], point: tuple[float, float], row: int
) -> None:
    assert finder(ROWS, SCORES).find(np.array(point)) == row


@pytest.mark.parametrize("finder", [EntryScan, PointQuadtree])
def test_none_where_no_row_fits(finder: type[EntryScan] | type[PointQuadtree]) -> None:
    assert finder(ROWS[:3], SCORES[:3]).find(np.array([0.5, 0.5])) is None
    assert finder(np.zeros((0, 2)), np.zeros(0)).find(np.array([1.0, 1.0])) is None


@pytest.mark.parametrize("finder", [EntryScan, PointQuadtree])
def test_of_equal_scores_the_first_row(finder: type[EntryScan] | type[PointQuadtree]) -> None:
    assert finder(ROWS, SCORES).find(np.array([3.0, 3.0])) == 2
    assert finder(ROWS[:2], SCORES[:2]).find(np.array([3.0, 3.0])) == 0


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(5))
def test_quadtree_and_scan_agree(columns: int, seed: int) -> None:
    rng = np.random.default_rng((columns, seed))
    rates = rng.choice(np.append(0.0, 0.8 ** np.arange(6)), size=(400, columns))
    scores = np.round(rates @ rng.uniform(0.5, 2.0, columns), 2)  # with ties
    scan, tree = EntryScan(rates, scores), PointQuadtree(rates, scores)
    for point in rng.uniform(0.0, 1.2, size=(200, columns)):
        expected = scan.find(point)
        assert tree.find(point) == expected
        below = np.all(rates <= point, axis=1)
        best = np.max(scores, where=below, initial=-np.inf)
        assert (expected is None) == (best == -np.inf)
        if expected is not None:
            assert below[expected]
            assert scores[expected] == best


def test_depth_counts_nodes_on_the_longest_way_down() -> None:
    line = np.arange(5.0)[:, None]
    assert PointQuadtree(line, np.arange(5.0)).depth == 5
    assert PointQuadtree(line[:0], np.zeros(0)).depth == 0
