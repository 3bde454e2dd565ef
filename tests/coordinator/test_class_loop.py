"""Lending and giving back, cycle by cycle, with literal numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.control import ClassLoad
from headgate.coordinator import ClassSettings
from headgate.coordinator.class_loop import ClassLoop

SETTINGS = ClassSettings(
    {"gold": 6.0, "bronze": 4.0},
    delay_targets_seconds={"gold": 1.0, "bronze": 1.0},
    redistribute_every=4,
    initial_headroom=1.0,
    late_above=0.65,
)
IDLE = {"gold": ClassLoad(0.3), "bronze": ClassLoad(0.8)}


def lent() -> ClassLoop:
    """Gold asks for half of its share for four cycles and lends all but its reserve."""
    loop = ClassLoop(SETTINGS)
    for _ in range(4):
        loop.cycle(IDLE, {"gold": 0.2, "bronze": 0.2})
    assert loop.portions["gold"] == pytest.approx(0.33)
    return loop


def test_what_was_lent_comes_back_in_the_cycle_in_which_the_load_grows() -> None:
    loop = lent()
    moved = loop.cycle({**IDLE, "gold": ClassLoad(0.6)}, {"gold": 0.9, "bronze": 0.2})
    assert moved is not None
    assert moved["gold"] == pytest.approx(0.6)
    assert loop.keep_fraction["gold"] == pytest.approx(1.0)


def test_what_was_lent_comes_back_in_the_cycle_in_which_results_are_late() -> None:
    moved = lent().cycle(IDLE, {"gold": 0.7, "bronze": 0.2})
    assert moved is not None
    assert moved["gold"] == pytest.approx(0.6)


def test_nothing_moves_between_two_turns_of_the_lending_when_nobody_is_in_need() -> None:
    assert lent().cycle(IDLE, {"gold": 0.2, "bronze": 0.2}) is None


def test_nothing_is_recalled_where_lending_is_switched_off() -> None:
    loop = ClassLoop(replace(SETTINGS, redistribute_every=0))
    assert loop.cycle({**IDLE, "gold": ClassLoad(0.9)}, {"gold": 0.9, "bronze": 0.2}) is None
    assert loop.portions["gold"] == pytest.approx(0.6)
