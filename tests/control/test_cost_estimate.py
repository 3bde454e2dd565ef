"""The cost estimator: what it finds, what it forgets, what it refuses to believe."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headgate.control import CostEstimator, CostSettings
from headgate.errors import UsageError


def feed(
    estimator: CostEstimator,
    costs: tuple[float, float, float],
    periods: int,
    seed: int = 1,
    noise: float = 0.03,
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(periods):
        offered = int(rng.integers(100, 2000))
        kept = int(offered * rng.uniform(0.1, 1.0))
        busy = costs[0] + costs[1] * offered + costs[2] * kept
        estimator.observe(offered, kept, busy * (1 + noise * rng.standard_normal()))


def test_nothing_is_known_before_the_first_period_with_work() -> None:
    estimator = CostEstimator(CostSettings())
    estimator.observe(0, 0, 0.5)
    estimator.observe(100, 100, 0.0)
    estimator.observe(100, 100, math.nan)
    assert estimator.costs is None


def test_the_first_period_is_read_as_mostly_processing() -> None:
    estimator = CostEstimator(CostSettings(looking_share_at_start=0.1))
    estimator.observe(100, 50, 1.0)
    assert estimator.costs is not None
    assert estimator.costs.looking_seconds == pytest.approx(0.001)
    assert estimator.costs.processing_seconds == pytest.approx(0.018)


def test_the_three_costs_are_found() -> None:
    estimator = CostEstimator(CostSettings())
    feed(estimator, (0.1, 0.0002, 0.001), 200)
    assert estimator.costs is not None
    assert estimator.costs.fixed_seconds == pytest.approx(0.1, rel=0.2)
    assert estimator.costs.looking_seconds == pytest.approx(0.0002, rel=0.2)
    assert estimator.costs.processing_seconds == pytest.approx(0.001, rel=0.1)


def test_a_cost_that_triples_is_believed_at_the_second_period() -> None:
    estimator = CostEstimator(CostSettings())
    feed(estimator, (0.1, 0.0002, 0.001), 100)
    feed(estimator, (0.3, 0.0006, 0.003), 1, seed=2)
    assert estimator.costs is not None
    assert estimator.costs.busy_seconds(1000, 500) < 1.0  # truly 0.8: one period is doubted
    feed(estimator, (0.3, 0.0006, 0.003), 1, seed=3)
    assert estimator.costs.busy_seconds(1000, 500) == pytest.approx(2.4, rel=0.15)


def test_one_pause_teaches_nothing() -> None:
    estimator = CostEstimator(CostSettings())
    feed(estimator, (0.1, 0.0002, 0.001), 100)
    before = estimator.costs
    estimator.observe(1000, 500, 3600.0)
    assert estimator.costs == before


def test_only_processing_becomes_dearer() -> None:
    estimator = CostEstimator(CostSettings())
    feed(estimator, (0.1, 0.0002, 0.001), 100)
    feed(estimator, (0.1, 0.0002, 0.003), 60, seed=2)
    assert estimator.costs is not None
    for offered, kept in ((500, 500), (2000, 200), (1000, 1000)):
        truth = 0.1 + 0.0002 * offered + 0.003 * kept
        assert estimator.costs.busy_seconds(offered, kept) == pytest.approx(truth, rel=0.12)


@pytest.mark.parametrize("fixed_cost", [True, False])
def test_a_long_steady_state_does_not_drift(fixed_cost: bool) -> None:
    """A saturated buffer: the same busy time for ever, a little noise in the counts."""
    estimator = CostEstimator(CostSettings(fixed_cost=fixed_cost))
    rng = np.random.default_rng(5)
    for _ in range(20_000):
        offered = int(rng.normal(1500, 20))
        estimator.observe(offered, round((0.25 - 1e-5 * offered) / 0.001 + rng.normal()), 0.25)
    assert estimator.costs is not None
    assert estimator.costs.busy_seconds(1500, 235) == pytest.approx(0.25, rel=0.03)
    assert estimator.costs.processing_seconds == pytest.approx(0.001, rel=0.25)


@pytest.mark.parametrize("seed", range(20))
def test_costs_are_finite_and_never_negative(seed: int) -> None:
    estimator = CostEstimator(CostSettings())
    rng = np.random.default_rng(seed)
    for _ in range(300):
        offered = int(rng.integers(0, 3)) * int(10 ** rng.uniform(0, 9))
        kept = int(offered * rng.random())
        estimator.observe(offered, kept, float(10 ** rng.uniform(-9, 9)))
        if estimator.costs is not None:
            costs = estimator.costs
            for value in (costs.fixed_seconds, costs.looking_seconds, costs.processing_seconds):
                assert 0.0 <= value < math.inf


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="memory"):
        CostSettings(memory=1.0)
    with pytest.raises(UsageError, match="looking_share_at_start"):
        CostSettings(looking_share_at_start=1.0)


def test_a_first_period_of_a_few_tuples_does_not_make_tuples_dear() -> None:
    """Ten tuples on a cold machine took 1.5 s, then two thousand took 0.9."""
    estimator = CostEstimator(CostSettings())
    estimator.observe(10, 10, 1.54)
    estimator.observe(1993, 1787, 0.93)
    assert estimator.costs is not None
    assert estimator.costs.fixed_seconds == pytest.approx(0.465)
    assert estimator.costs.busy_seconds(1993, 1787) == pytest.approx(0.93)
    assert estimator.costs.busy_seconds(4000, 4000) < 1.6


def test_two_periods_of_different_sizes_tell_what_is_fixed() -> None:
    """The smaller first, or the larger first: 0.5 s and 1 ms a tuple."""
    for sizes in ((100, 2000), (2000, 100)):
        estimator = CostEstimator(CostSettings())
        for size in sizes:
            estimator.observe(size, size, 0.5 + 0.001 * size)
        assert estimator.costs is not None
        assert estimator.costs.fixed_seconds == pytest.approx(0.5)
        assert estimator.costs.busy_seconds(1000, 1000) == pytest.approx(1.5)


def test_periods_of_one_size_leave_the_question_open() -> None:
    estimator = CostEstimator(CostSettings())
    for _ in range(50):
        estimator.observe(100, 100, 0.6)
    estimator.observe(2000, 2000, 2.5)
    assert estimator.costs is not None
    assert estimator.costs.busy_seconds(2000, 2000) == pytest.approx(2.5)
    assert estimator.costs.busy_seconds(100, 100) == pytest.approx(0.6)
