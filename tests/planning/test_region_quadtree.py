"""The geometry of the region quadtree, with literal numbers and against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.planning.regions.region_quadtree import MAX_DEPTH, RegionQuadtree


def grown(sides: int, seed: int, divisions: int = 30) -> RegionQuadtree:
    rng = np.random.default_rng(seed)
    tree = RegionQuadtree(rng.uniform(1.0, 100.0, sides))
    for _ in range(divisions):
        leaves = np.flatnonzero(tree.is_leaf)
        tree.divide(leaves[rng.integers(len(leaves), size=1)])
    return tree


def test_the_papers_example() -> None:
    tree = RegionQuadtree(np.array([100.0, 100.0]))
    assert tree.divide(np.array([0])).tolist() == [1, 2, 3, 4]
    assert tree.find([60.0, 75.0]) == 4
    assert tree.bottoms(np.array([4])).tolist() == [[50.0, 50.0]]
    assert tree.tops(np.array([4])).tolist() == [[100.0, 100.0]]


def test_on_a_shared_side_the_upper_neighbour_is_found() -> None:
    tree = RegionQuadtree(np.array([8.0]))
    tree.divide(np.array([0]))
    assert [tree.find([rate]) for rate in (0.0, 3.9, 4.0, 8.0)] == [1, 1, 2, 2]


def test_only_the_last_regions_touch_the_top() -> None:
    tree = RegionQuadtree(np.array([1.0, 1.0]))
    tree.divide(np.array([0]))
    assert tree.touches_top(np.array([1, 2, 3, 4])).tolist() == [
        [False, False],
        [True, False],
        [False, True],
        [True, True],
    ]


@pytest.mark.parametrize("sides", [1, 2, 3])
def test_leaves_tile_the_box_and_find_agrees_with_looking_at_all_of_them(sides: int) -> None:
    tree = grown(sides, seed=sides)
    leaves = np.flatnonzero(tree.is_leaf)
    bottoms, tops = tree.bottoms(leaves), tree.tops(leaves)
    assert np.prod(tops - bottoms, axis=1).sum() == pytest.approx(np.prod(tree.top))
    for point in np.random.default_rng(9).uniform(0.0, tree.top, (200, sides)):
        holding = leaves[np.all((bottoms <= point) & (point < tops), axis=1)]
        assert holding.tolist() == [tree.find(point)]


def test_neighbours_share_corners_exactly() -> None:
    tree = RegionQuadtree(np.array([0.3, 0.7]))
    tree.divide(tree.divide(np.array([0])))
    everything = np.arange(tree.count)
    points = np.concatenate([tree.bottoms(everything), tree.tops(everything)])
    assert len(np.unique(points, axis=0)) == tree.distinct_corners() == 23  # 5 x 5 but two


def test_a_side_is_not_cut_for_ever() -> None:
    tree = RegionQuadtree(np.array([1.0]))
    for _ in range(MAX_DEPTH):
        tree.divide(np.array([tree.find([0.0])]))
    assert tree.depth == MAX_DEPTH
    assert not tree.is_divisible[tree.find([0.0])]
    assert tree.is_divisible[tree.find([1.0])]


def test_a_tree_without_sides_is_one_region() -> None:
    tree = RegionQuadtree(np.zeros(0))
    assert tree.find([]) == 0
    assert tree.count == 1
