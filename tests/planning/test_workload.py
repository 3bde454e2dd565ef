"""Probabilities of boxes: literal numbers, tiling, and counting one by one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from headgate.errors import StatisticsError
from headgate.planning.regions.region_quadtree import RegionQuadtree
from headgate.planning.regions.sample_counter import SampleCounter
from headgate.planning.regions.workload import EmpiricalRates, ExponentialRates, Workload

WORKLOADS: list[Workload] = [
    ExponentialRates((3.0, 40.0)),
    ExponentialRates((0.0, 40.0)),
    EmpiricalRates(np.random.default_rng(1).exponential((3.0, 40.0), (500, 2))),
    EmpiricalRates(np.zeros((1, 2))),
]


def test_exponential_rates_in_closed_form() -> None:
    workload = ExponentialRates((10.0, 20.0))
    boxes = workload.probability(
        np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 20.0]]),
        np.array([[np.inf, np.inf], [np.inf, np.inf], [10.0, np.inf]]),
    )
    e = np.e
    assert boxes == pytest.approx([1.0, 1.0 / e, (1.0 - 1.0 / e) / e])


def test_the_papers_lambda_is_a_mean_in_a_unit() -> None:
    assert ExponentialRates.from_lambda(5.0, 2, 2.4).means_per_second == (12.0, 12.0)


def test_a_silent_stream_is_at_zero() -> None:
    workload = ExponentialRates((0.0,))
    assert workload.probability(np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]])).tolist() == [
        1.0,
        0.0,
    ]


def test_empirical_rates_are_shares() -> None:
    workload = EmpiricalRates(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 5.0], [2.0, 2.0]]))
    shares = workload.probability(
        np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]),
        np.array([[2.0, np.inf], [2.0, 2.0], [np.inf, 5.0]]),
    )
    assert shares.tolist() == [0.5, 0.25, 0.25]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_regions_that_tile_the_space_sum_to_one(workload: Workload) -> None:
    tree = RegionQuadtree(np.array([7.0, 50.0]))
    for _ in range(3):
        tree.divide(np.flatnonzero(tree.is_leaf))
    leaves = np.flatnonzero(tree.is_leaf)
    upper = np.where(tree.touches_top(leaves), np.inf, tree.tops(leaves))
    shares = workload.probability(tree.bottoms(leaves), upper)
    assert np.all(shares >= 0.0)
    assert shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("points", "columns"), [(1, 1), (17, 2), (400, 3), (3000, 2)])
def test_counting_in_the_tree_is_counting_one_by_one(points: int, columns: int) -> None:
    rng = np.random.default_rng(points)
    sample = np.round(rng.exponential(10.0, (points, columns)))  # many ties
    lower = np.round(rng.uniform(0.0, 20.0, (100, columns)))
    upper = lower + np.round(rng.exponential(10.0, (100, columns)))
    upper[::7] = np.inf
    inside = np.all((sample[None] >= lower[:, None]) & (sample[None] < upper[:, None]), axis=2)
    assert SampleCounter(sample).count(lower, upper).tolist() == inside.sum(axis=1).tolist()


def test_a_trace_serves_several_streams() -> None:
    workload = EmpiricalRates.from_trace([1.0, 2.0, 3.0, 4.0], streams=3, seed=1)
    assert np.sort(workload.observed, axis=0).tolist() == [[float(i)] * 3 for i in (1, 2, 3, 4)]
    again = EmpiricalRates.from_trace([1.0, 2.0, 3.0, 4.0], streams=3, seed=1)
    assert workload.observed.tolist() == again.observed.tolist()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_workloads_are_picklable(workload: Workload) -> None:
    box = np.array([[1.0, 1.0]]), np.array([[4.0, np.inf]])
    copy = pickle.loads(pickle.dumps(workload))
    assert copy.probability(*box).tolist() == workload.probability(*box).tolist()


@pytest.mark.parametrize("means", [(-1.0,), (float("nan"),), (1.0, float("inf"))])
def test_impossible_means_are_refused(means: tuple[float, ...]) -> None:
    with pytest.raises(StatisticsError, match="at least 0"):
        ExponentialRates(means)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros((0, 2)), "one row for each observation"),
        (np.zeros(3), "one row for each observation"),
        (np.array([[1.0], [-2.0]]), "row 1"),
        (np.array([[np.nan]]), "row 0"),
    ],
)
def test_impossible_traces_are_refused(table: np.ndarray, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        EmpiricalRates(table)
