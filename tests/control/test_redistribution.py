"""Lending and giving back between classes: the four criteria and what goes beyond."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import ClassReport, demand_portion, redistribute, supply_portion
from headgate.errors import UsageError


def report(name: str, priority: float, usage: float, portion: float, original: float, **more):
    return ClassReport(name, priority, usage, portion, original, **more)


def test_demand_and_supply_by_hand() -> None:
    assert demand_portion(report("c", 1, 1.5, 0.2, 0.1)) == pytest.approx(0.1)
    assert demand_portion(report("c", 1, 0.9, 0.2, 0.1)) == 0.0
    # (1 - 0.5) * 0.6 - 0.05 * 0.6
    assert supply_portion(report("c", 6, 0.5, 0.6, 0.6)) == pytest.approx(0.27)
    assert supply_portion(report("c", 6, 0.96, 0.6, 0.6)) == 0.0


def test_the_highest_priority_is_served_first() -> None:
    result = redistribute(
        [
            report("one", 6, 0.5, 0.6, 0.6),  # lends 0.27
            report("two", 3, 1.6, 0.3, 0.3),  # lacks 0.18
            report("three", 1, 4.0, 0.1, 0.1),  # lacks 0.30, gets the other 0.09
        ]
    )
    assert result.portions == pytest.approx({"one": 0.33, "two": 0.48, "three": 0.19})
    assert result.headroom_factors == pytest.approx({"one": 0.55, "two": 1.6, "three": 1.9})


def test_a_lender_in_need_gets_its_original_back_from_the_lowest_borrower() -> None:
    result = redistribute(
        [
            report("one", 6, 3.0, 0.33, 0.6),  # lacks 0.66, is owed 0.27
            report("two", 3, 1.5, 0.48, 0.3),
            report("three", 1, 2.0, 0.19, 0.1),
        ]
    )
    assert result.portions == pytest.approx({"one": 0.6, "two": 0.3, "three": 0.1})


def test_borrowed_capacity_is_called_back_for_a_higher_priority() -> None:
    result = redistribute(
        [
            report("one", 6, 1.0, 0.47, 0.6),  # lent 0.13 and needs no more
            report("two", 3, 1.2, 0.30, 0.3),  # lacks 0.06 at its original portion
            report("three", 1, 1.0, 0.23, 0.1),  # borrowed 0.13 and uses it
        ]
    )
    assert result.portions == pytest.approx({"one": 0.47, "two": 0.36, "three": 0.17})


def test_a_lower_priority_is_not_paid_with_what_a_higher_one_borrowed() -> None:
    result = redistribute(
        [
            report("one", 6, 1.0, 0.47, 0.6),
            report("two", 3, 1.0, 0.43, 0.3),
            report("three", 1, 2.0, 0.10, 0.1),  # has its original portion
        ]
    )
    assert not result.moved()


def test_what_nobody_needs_goes_back() -> None:
    result = redistribute(
        [
            report("one", 6, 0.9, 0.33, 0.6),
            report("two", 3, 0.5, 0.48, 0.3),  # lends 0.225
            report("three", 1, 0.5, 0.19, 0.1),  # lends 0.09
        ]
    )
    assert result.portions["one"] == pytest.approx(0.6)
    assert result.portions["two"] + result.portions["three"] == pytest.approx(0.4)
    assert not redistribute([report("one", 6, 0.5, 0.6, 0.6)]).moved()


def test_a_guaranteed_minimum_comes_before_priority() -> None:
    reports = [
        report("one", 6, 2.0, 0.6, 0.6),
        report("two", 3, 2.0, 0.3, 0.3),
        report("three", 1, 6.0, 0.1, 0.1, keep_at_least=0.5),  # asks for 0.6, is sure of 0.3
    ]
    result = redistribute(reports)
    assert result.portions["three"] == pytest.approx(0.3)
    assert result.portions["one"] == pytest.approx(0.6)  # two, the lower of the others, gave
    assert not result.guarantees_collide


def test_guarantees_that_collide_share_what_there_is() -> None:
    result = redistribute(
        [
            report("one", 6, 2.0, 0.6, 0.6, keep_at_least=1.0),
            report("two", 1, 4.0, 0.4, 0.4, keep_at_least=1.0),
        ]
    )
    assert result.guarantees_collide
    assert sum(result.portions.values()) == pytest.approx(1.0)
    # above the reserves of 0.03 and 0.02 they want 1.17 and 1.58
    assert result.portions["one"] == pytest.approx(0.03 + 0.95 * 1.17 / 2.75)


def test_impossible_reports_are_refused() -> None:
    with pytest.raises(UsageError, match="portions must be above 0"):
        report("c", 1, 1.0, 0.0, 0.1)
    with pytest.raises(UsageError, match="usage"):
        report("c", 1, float("nan"), 0.1, 0.1)
    with pytest.raises(UsageError, match="once"):
        redistribute([report("c", 1, 1.0, 0.5, 0.5), report("c", 1, 1.0, 0.5, 0.5)])


@st.composite
def systems(draw) -> list[ClassReport]:
    size = draw(st.integers(1, 5))
    weights = [draw(st.floats(0.5, 10)) for _ in range(size)]
    moved = [draw(st.floats(0.1, 10)) for _ in range(size)]
    return [
        ClassReport(
            f"c{i}",
            weights[i],
            draw(st.floats(0, 5)),
            moved[i] / sum(moved),
            weights[i] / sum(weights),
            keep_at_least=draw(st.sampled_from([0.0, 0.0, 0.2, 0.5])),
        )
        for i in range(size)
    ]


@settings(max_examples=400, deadline=None)
@given(systems())
def test_the_criteria_hold_for_any_system(reports: list[ClassReport]) -> None:
    result = redistribute(reports)
    new, tiny = result.portions, 1e-9
    assert sum(new.values()) == pytest.approx(sum(r.portion for r in reports))  # criterion 4
    for r in reports:
        assert new[r.query_class] > 0.0
        assert new[r.query_class] >= min(0.05 * r.original_portion, r.portion) - tiny
        if not result.guarantees_collide:
            promised = r.keep_at_least * r.usage * r.portion
            assert new[r.query_class] >= promised - tiny
    if any(r.keep_at_least for r in reports):
        return
    needs = {r.query_class: r.usage * r.portion for r in reports}
    unmet = {r.query_class: needs[r.query_class] - new[r.query_class] > 1e-7 for r in reports}
    for r in reports:  # criterion 1
        assert not unmet[r.query_class] or new[r.query_class] >= r.original_portion - 1e-7
    for high in reports:  # criterion 2: nobody of lower priority gains while a higher one lacks
        for low in reports:
            if high.priority > low.priority and unmet[high.query_class]:
                restored = min(needs[low.query_class], low.original_portion)
                assert new[low.query_class] <= max(low.portion, restored) + 1e-7
