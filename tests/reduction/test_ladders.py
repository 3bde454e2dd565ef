"""The two ladders, with literal times and counts."""

from __future__ import annotations

import pickle

import pytest

from headgate.errors import UsageError
from headgate.reduction import (
    BudgetLadder,
    BudgetLadderSettings,
    PolicyBuilder,
    TurnaroundLadder,
    TurnaroundSettings,
    reduce_to_budget,
    use,
)

SENSITIVE = TurnaroundSettings(smooth_first=False)


def levels(times: list[float], settings: TurnaroundSettings) -> list[int]:
    ladder = TurnaroundLadder(3, settings)
    return [ladder.choose(time) for time in times]


def test_a_shorter_turnaround_moves_up_and_a_longer_one_down() -> None:
    assert levels([10, 20, 25], SENSITIVE) == [1, 1, 2]
    assert levels([10, 20, 25, 30, 40], SENSITIVE) == [1, 1, 2, 2, 1]
    assert levels([10, 20, 29.5, 39], SENSITIVE) == [1, 1, 1, 1]


def test_as_printed_it_takes_a_halving_to_move_up() -> None:
    """delta = 0.1 (new - old) / (0.9 new + 0.1 old) is below -0.1 from 0.47 old on."""
    assert levels([10, 15], TurnaroundSettings()) == [1, 1]
    assert levels([10, 14.5], TurnaroundSettings()) == [1, 2]


def test_the_smoothing_weighs_the_observation_as_printed() -> None:
    ladder = TurnaroundLadder(3, SENSITIVE)
    for time in (10, 20.5):  # turnaround 10, then 10.5; smoothed 10.45
        ladder.choose(time)
    assert ladder.choose(20.5 + 10.45 * 1.09) == 1
    other = TurnaroundLadder(3, TurnaroundSettings(alpha=0.9, smooth_first=False))
    for time in (10, 20.5):  # smoothed 10.05: the next is more than 10 % above
        other.choose(time)
    assert pickle.loads(pickle.dumps(other)).choose(20.5 + 10.45 * 1.09) == 1
    assert other._turnaround_seconds[0] == pytest.approx(10.05)


@pytest.mark.parametrize("settings", [TurnaroundSettings(), SENSITIVE])
def test_levels_stay_in_range_whatever_the_clock_does(settings: TurnaroundSettings) -> None:
    times = [0, 5, 6, 6.1, 6.1, 3, float("nan"), 7, 7.01, 7.02, 100, 1000, 1e9, float("inf"), 2e9]
    assert all(1 <= level <= 3 for level in levels(times, settings))


def test_the_budget_ladder_learns_and_then_picks_at_once() -> None:
    builder = PolicyBuilder("r", attribute="n")
    for fraction in (0.1, 0.25, 0.5):
        builder.level(use("RANDOM", "drop", fraction=fraction))
    policy, ladder = builder.build(), BudgetLadder(3)
    queue = [{"n": n} for n in range(1000)]
    chosen = []
    for _ in range(5):
        level = ladder.choose(len(queue), 400)
        chosen.append(level)
        ladder.observe(reduce_to_budget(queue, policy, 400, level))
    assert chosen == [1, 2, 3, 3, 3]
    assert ladder.choose(1000, 800) == 2
    assert ladder.choose(1000, 960) == 1
    assert ladder.choose(1000, 1000) == 0
    assert ladder.choose(10**6, 1) == 3
    assert pickle.loads(pickle.dumps(ladder)).choose(1000, 800) == 2


def test_impossible_settings_are_refused() -> None:
    for make in (
        lambda: TurnaroundLadder(0),
        lambda: BudgetLadder(0),
        lambda: TurnaroundSettings(alpha=1.0),
        lambda: TurnaroundSettings(up_below=0.1),
        lambda: BudgetLadderSettings(weight_of_new=0.0),
    ):
        with pytest.raises(UsageError):
            make()
