"""The age of what waits, from its number: steps, noise, odd numbers."""

from __future__ import annotations

import math
import random

import pytest

from headgate.control.waiting_age import WaitingAge


def shares(*waiting: int, interval: float = 1.0) -> list[float]:
    ages = WaitingAge()
    return [ages.share(tuples, interval) for tuples in waiting]


def test_even_arrivals_are_half_an_interval_old() -> None:
    assert shares(1000, 1000, 1010, 990, 1000) == [0.5] * 5


def test_what_came_after_a_step_upwards_is_younger() -> None:
    assert shares(1000, 1500) == [0.5, 0.4375]  # 5/8 of the interval had the new rate


def test_what_came_before_a_step_downwards_is_older() -> None:
    assert shares(1000, 500) == [0.5, 0.5625]


def test_the_rest_of_a_step_is_no_second_one() -> None:
    assert shares(1000, 1500, 2000, 2000)[2:] == [0.5, 0.5]


def test_a_step_back_is_a_step() -> None:
    assert shares(2000, 3000, 2000)[2] > 0.5


def test_beyond_the_largest_step_the_change_came_with_the_interval() -> None:
    assert shares(1000, 4000) == [0.5, 0.5]


def test_lengths_of_intervals_do_not_matter() -> None:
    ages = WaitingAge()
    assert [ages.share(1000, 0.5), ages.share(2000, 1.0), ages.share(400, 0.2)] == [0.5] * 3


def test_few_tuples_say_nothing() -> None:
    assert shares(9, 14) == [0.5, 0.5]


def test_usual_bursts_are_left_alone_after_a_while() -> None:
    rng, ages = random.Random(1), WaitingAge()
    found = [ages.share(round(1000 * math.exp(rng.gauss(0.0, 0.3))), 1.0) for _ in range(300)]
    assert sum(share != 0.5 for share in found[50:]) < 10


@pytest.mark.parametrize("seed", range(5))
def test_any_number_gives_a_share_near_a_half(seed: int) -> None:
    rng, ages = random.Random(seed), WaitingAge()
    for _ in range(500):
        tuples = rng.choice([0, 1, 10**12, rng.randrange(10**6)])
        seconds = rng.choice([0.0, 1e-300, 1e-6, 1e12, rng.random()])
        assert 0.4 <= ages.share(tuples, seconds) <= 0.6
