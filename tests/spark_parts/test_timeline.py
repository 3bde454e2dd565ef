"""Amounts spread over stretches of time. No Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.spark.networks.timeline import Timeline


def test_an_amount_is_spread_evenly_over_its_time() -> None:
    line = Timeline(10.0)
    line.spread("clicks", 10.5, 13.0, 25.0)
    assert line.amounts("clicks", 4).tolist() == pytest.approx([5.0, 10.0, 10.0, 0.0])


def test_what_lies_before_the_begin_is_left_out() -> None:
    line = Timeline(10.0)
    line.spread("clicks", 8.0, 12.0, 40.0)
    line.spread("clicks", 3.0, 9.0, 99.0)
    assert line.amounts("clicks", 3).tolist() == pytest.approx([10.0, 10.0, 0.0])


def test_no_time_is_no_amount() -> None:
    line = Timeline(10.0)
    line.spread("clicks", 12.0, 12.0, 40.0)
    assert line.amounts("clicks", 3).tolist() == [0.0, 0.0, 0.0]


def test_only_whole_stretches_lie_before_a_time() -> None:
    line = Timeline(10.0)
    assert [line.stretches_until(t) for t in (3.0, 10.9, 11.0, 12.5)] == [0, 0, 1, 2]


def test_stretches_become_longer_when_they_become_too_many() -> None:
    line = Timeline(0.0, width_seconds=1.0, most=4)
    line.spread("clicks", 0.0, 4.0, 8.0)
    line.spread("clicks", 4.0, 7.0, 3.0)
    assert line.width_seconds == 2.0
    assert line.amounts("clicks", 4).tolist() == pytest.approx([4.0, 4.0, 2.0, 1.0])


@given(
    st.lists(
        st.tuples(st.floats(0.0, 500.0), st.floats(0.01, 50.0), st.floats(0.0, 1e6)), max_size=20
    )
)
def test_nothing_behind_the_begin_is_lost(amounts: list[tuple[float, float, float]]) -> None:
    line = Timeline(0.0, most=16)
    for since, length, amount in amounts:
        line.spread("clicks", since, since + length, amount)
    total = sum(amount for *_, amount in amounts)
    assert line.amounts("clicks", 16).sum() == pytest.approx(total, rel=1e-6, abs=1e-6)
