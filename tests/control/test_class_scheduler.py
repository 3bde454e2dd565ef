"""Weighted round robin over classes: turns, debts, starvation."""

from __future__ import annotations

import pickle
import random

import pytest

from headgate.control import ClassScheduler, TurnState, time_by_quota
from headgate.errors import UsageError

PRIORITIES = {"gold": 6, "silver": 3, "iron": 1}


def shares(scheduler: ClassScheduler, ready: set[str], slice_seconds, turns: int) -> dict:
    used = dict.fromkeys(PRIORITIES, 0.0)
    for _ in range(turns):
        name = scheduler.next_class(ready)
        seconds = slice_seconds(name)
        scheduler.used(name, seconds)
        used[name] += seconds
    total = sum(used.values())
    return {name: seconds / total for name, seconds in used.items()}


def test_quotas_follow_the_priorities() -> None:
    scheduler = ClassScheduler.from_priorities(PRIORITIES, round_seconds=0.1)
    assert scheduler.quota_seconds == pytest.approx({"gold": 0.06, "silver": 0.03, "iron": 0.01})


def test_a_class_keeps_its_turn_while_it_has_credit() -> None:
    scheduler = ClassScheduler.from_priorities(PRIORITIES, 0.1)
    order = []
    for _ in range(10):
        name = scheduler.next_class(PRIORITIES)
        scheduler.used(name, 0.01)
        order.append(name)
    assert order == ["gold"] * 6 + ["silver"] * 3 + ["iron"]


def test_excess_is_a_debt() -> None:
    scheduler = ClassScheduler({"a": 0.03, "b": 0.02})
    assert scheduler.next_class({"a", "b"}) == "a"
    scheduler.used("a", 0.08)
    assert scheduler.credit_seconds["a"] == pytest.approx(-0.05)
    turns = []
    for _ in range(3):
        name = scheduler.next_class({"a", "b"})
        scheduler.used(name, 0.02)
        turns.append(name)
    # a earns 0.03 a round: -0.02 after one (sits out), 0.01 after two
    assert turns == ["b", "b", "a"]


def test_unused_quota_is_passed_on_and_not_saved_up() -> None:
    scheduler = ClassScheduler.from_priorities(PRIORITIES, 0.1)
    split = shares(scheduler, {"silver", "iron"}, lambda _: 0.001, 4000)
    assert split["silver"] == pytest.approx(0.75, abs=0.01)
    split = shares(scheduler, set(PRIORITIES), lambda _: 0.001, 10_000)
    assert split["gold"] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_shares_hold_and_nobody_starves_whatever_the_slices_are(seed: int) -> None:
    rng = random.Random(seed)
    scheduler = ClassScheduler.from_priorities(PRIORITIES, 0.1)
    worst = {"gold": 0.5, "silver": 0.05, "iron": 0.3}
    split = shares(scheduler, set(PRIORITIES), lambda c: rng.uniform(0.0001, worst[c]), 20_000)
    assert split == pytest.approx({"gold": 0.6, "silver": 0.3, "iron": 0.1}, abs=0.02)


def test_the_machine_is_never_idle_while_any_class_has_work() -> None:
    scheduler = ClassScheduler.from_priorities(PRIORITIES, 0.1)
    assert scheduler.next_class({"iron"}) == "iron"
    scheduler.used("iron", 1e6)  # a debt of 100 million rounds
    assert scheduler.next_class({"iron"}) == "iron"
    assert scheduler.next_class(set()) is None
    assert scheduler.state is TurnState.IDLE


def test_new_quotas_keep_the_debts() -> None:
    scheduler = ClassScheduler({"a": 0.05, "b": 0.05})
    scheduler.next_class({"a", "b"})
    scheduler.used("a", 0.09)
    scheduler.set_quotas({"a": 0.08, "b": 0.02})
    assert scheduler.credit_seconds["a"] == pytest.approx(-0.04)
    with pytest.raises(UsageError, match="expected quotas for a, b"):
        scheduler.set_quotas({"a": 0.1})


def test_an_illegal_move_says_what_was_expected() -> None:
    scheduler = ClassScheduler({"a": 0.05, "b": 0.05})
    with pytest.raises(UsageError, match="the turn belongs to nobody, but 'a' reports"):
        scheduler.used("a", 0.1)
    scheduler.next_class({"a", "b"})
    with pytest.raises(UsageError, match="the turn belongs to a, but 'b' reports"):
        scheduler.used("b", 0.1)
    with pytest.raises(UsageError, match="would never run"):
        ClassScheduler({"a": 0.0})
    with pytest.raises(UsageError, match="at least one class"):
        ClassScheduler({})


def test_pickled_in_the_middle() -> None:
    scheduler = ClassScheduler.from_priorities(PRIORITIES, 0.1)
    scheduler.next_class(PRIORITIES)
    scheduler.used("gold", 0.2)
    copy = pickle.loads(pickle.dumps(scheduler))
    assert copy.next_class(PRIORITIES) == scheduler.next_class(PRIORITIES)
    assert copy.credit_seconds == scheduler.credit_seconds


@pytest.mark.parametrize("seed", range(5))
def test_the_time_by_quota_is_what_the_scheduler_gives(seed: int) -> None:
    """Work comes at random rates, together more than there is time; slices of 1 ms."""
    rng = random.Random(seed)
    wanted = {name: rng.uniform(0.1, 0.9) for name in PRIORITIES}
    scheduler = ClassScheduler.from_priorities(PRIORITIES, 0.1)
    queue, used = dict.fromkeys(PRIORITIES, 0.0), dict.fromkeys(PRIORITIES, 0.0)
    for _ in range(60_000):
        for name, load in wanted.items():
            queue[name] += load * 0.001
        ready = {name for name, seconds in queue.items() if seconds >= 0.001}
        chosen = scheduler.next_class(ready)
        if chosen is not None:
            scheduler.used(chosen, 0.001)
            queue[chosen] -= 0.001
            used[chosen] += 0.001
    expected = time_by_quota(wanted, PRIORITIES)
    assert {name: seconds / 60.0 for name, seconds in used.items()} == pytest.approx(
        expected, abs=0.005
    )


def test_time_by_quota_gives_nothing_away_that_is_not_there() -> None:
    assert time_by_quota({"gold": 0.0, "iron": 0.0}, PRIORITIES) == {"gold": 0.0, "iron": 0.0}
    assert time_by_quota({}, PRIORITIES) == {}
    full = time_by_quota(dict.fromkeys(PRIORITIES, 9.0), PRIORITIES, 2.0)
    assert full == pytest.approx({"gold": 1.2, "silver": 0.6, "iron": 0.2})
