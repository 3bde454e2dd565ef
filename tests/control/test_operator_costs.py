"""Costs of parts from totals of batches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headgate.control import OperatorCosts, OperatorCostSettings


def test_one_factor_for_all_is_found_in_one_batch() -> None:
    costs = OperatorCosts({"shared": 1e-4, "heavy": 5e-4})
    costs.observe({"shared": 1000.0, "heavy": 1000.0}, 1.2)  # twice what was believed
    found = costs.cost_seconds
    assert found["shared"] == pytest.approx(2e-4, rel=0.15)
    assert found["heavy"] == pytest.approx(10e-4, rel=0.15)


def test_costs_that_were_believed_equal_are_told_apart_when_tuples_vary() -> None:
    rng = np.random.default_rng(1)
    costs = OperatorCosts({"light": 1e-4, "heavy": 1e-4})
    for step in range(40):
        light, heavy = 1000.0, 1000.0 if step % 4 else 100.0
        total = 0.05 + 2e-4 * light + 5e-4 * heavy
        costs.observe({"light": light, "heavy": heavy}, total * rng.normal(1.0, 0.03))
    assert costs.cost_seconds["heavy"] == pytest.approx(5e-4, rel=0.1)
    predicted = costs.seconds({"light": 1000.0, "heavy": 500.0})
    assert predicted == pytest.approx(0.05 + 0.2 + 0.25, rel=0.05)


def test_what_never_varied_apart_keeps_its_ratio_and_stays_put_for_long() -> None:
    costs = OperatorCosts({"first": 1e-4, "second": 3e-4})
    for _ in range(2000):
        costs.observe({"first": 1000.0, "second": 1000.0}, 0.8)
    found = costs.cost_seconds
    assert found["first"] / found["second"] == pytest.approx(1 / 3, rel=0.2)
    assert costs.seconds({"first": 1000.0, "second": 1000.0}) == pytest.approx(0.8, rel=0.01)


def test_a_cost_that_changes_is_followed() -> None:
    costs = OperatorCosts({"parse": 1e-4})
    for _ in range(50):
        costs.observe({"parse": 1000.0}, 0.1)
    for _ in range(50):
        costs.observe({"parse": 1000.0}, 0.3)
    assert costs.seconds({"parse": 1000.0}) == pytest.approx(0.3, rel=0.05)


def test_never_below_zero_and_nonsense_teaches_nothing() -> None:
    costs = OperatorCosts({"a": 1e-3, "b": 1e-3}, OperatorCostSettings(fixed_seconds=0.0))
    for seconds in (math.nan, math.inf, -1.0):
        costs.observe({"a": 10.0}, seconds)
    assert costs.observations == 0
    for _ in range(20):
        costs.observe({"a": 1000.0, "b": 1000.0}, 0.1)
        costs.observe({"a": 1000.0}, 0.2)
    assert min(costs.cost_seconds.values()) >= 0.0
    assert costs.fixed_seconds >= 0.0


def test_on_a_noisy_machine_costs_stay_near_what_was_known() -> None:
    rng = np.random.default_rng(3)
    costs = OperatorCosts({"light": 2e-3, "heavy": 5e-3})
    for _ in range(100):
        few = {"light": float(rng.integers(5, 15)), "heavy": float(rng.integers(5, 15))}
        total = 2e-3 * few["light"] + 5e-3 * few["heavy"] + rng.exponential(0.3)
        costs.observe(few, total)
    found = costs.cost_seconds
    assert found["heavy"] > found["light"] > 0.0


def test_a_first_batch_of_a_few_tuples_does_not_make_parts_dear() -> None:
    """Ten tuples on a cold machine take 1.5 s; two thousand take 0.6 s, and so on."""
    costs = OperatorCosts({"parse": 1e-4, "join": 1e-4})
    costs.observe({"parse": 10, "join": 10}, 1.5)
    for parse, join in ((2000, 2000), (1500, 200), (2000, 1000), (900, 900)):
        costs.observe({"parse": parse, "join": join}, 0.1 + 1e-4 * parse + 1.5e-4 * join)
    assert costs.seconds({"parse": 2000, "join": 2000}) == pytest.approx(0.6, rel=0.1)
