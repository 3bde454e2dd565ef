from __future__ import annotations

import math

import pytest

from headgate.errors import StatisticsError
from headgate.network import (
    Network,
    NetworkBuilder,
    Operator,
    OperatorKind,
    OperatorStatistics,
    Statistics,
    check_rates,
)


def operator(kind: OperatorKind, *inputs: str, **numbers: object) -> Operator:
    return Operator("o", kind, inputs, "A", **numbers)  # type: ignore[arg-type]


def test_a_measured_value_stands_in_front_of_the_given_one():
    box = operator(OperatorKind.FILTER, "x", cost_seconds=0.2, selectivity=0.5)
    measured = Statistics({"o": OperatorStatistics(cost_seconds=0.3)})
    assert measured.cost_seconds(box) == 0.3
    assert measured.selectivity(box) == 0.5
    assert Statistics().cost_seconds(box) == 0.2


@pytest.mark.parametrize("kind", [OperatorKind.MAP, OperatorKind.UNION])
def test_maps_and_unions_pass_everything_unless_told_otherwise(kind: OperatorKind):
    assert Statistics().selectivity(operator(kind, "x", "y")) == 1.0
    assert Statistics().selectivity(operator(kind, "x", "y", selectivity=0.25)) == 0.25


def test_a_union_treats_its_inputs_alike():
    box = operator(OperatorKind.UNION, "x", "y", "z", selectivity=0.5)
    assert Statistics().gains(box) == (0.5, 0.5, 0.5)


def test_a_join_tuple_meets_the_other_window():
    box = operator(
        OperatorKind.JOIN, "x", "y", cost_seconds=1.0, selectivity=0.01, window_tuples=(200.0, 50.0)
    )
    assert Statistics().gains(box) == (0.5, 2.0)


def test_a_join_of_three_meets_both_other_windows():
    box = operator(
        OperatorKind.JOIN, "x", "y", "z", selectivity=0.001, window_tuples=(2.0, 10.0, 50.0)
    )
    assert Statistics().gains(box) == pytest.approx((0.5, 0.1, 0.02))


def test_measured_windows_stand_in_front():
    box = operator(OperatorKind.JOIN, "x", "y", selectivity=0.5, window_tuples=(1.0, 1.0))
    measured = Statistics({"o": OperatorStatistics(window_tuples=(4.0, 8.0))})
    assert measured.gains(box) == (4.0, 2.0)


def test_what_is_not_known_is_named():
    box = operator(OperatorKind.FILTER, "x")
    with pytest.raises(StatisticsError, match="'o': its cost is not known; give it"):
        Statistics().cost_seconds(box)
    with pytest.raises(StatisticsError, match="'o': its selectivity is not known"):
        Statistics().selectivity(box)
    with pytest.raises(StatisticsError, match="'o': the join's windows are not known"):
        Statistics().gains(operator(OperatorKind.JOIN, "x", "y", selectivity=0.5))


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_an_impossible_measurement_is_refused(value: float):
    measured = Statistics({"o": OperatorStatistics(cost_seconds=value)})
    with pytest.raises(StatisticsError, match="must be a number of at least 0"):
        measured.cost_seconds(operator(OperatorKind.FILTER, "x"))


def two_streams() -> Network:
    b = NetworkBuilder("two streams")
    b.node("A")
    b.query("q", b.stream("x", rate_per_second=3.0))
    b.query("r", b.stream("y"))
    return b.build()


def test_rates_come_from_the_call_then_from_the_description():
    assert check_rates(two_streams(), {"y": 5}) == {"x": 3.0, "y": 5.0}
    assert check_rates(two_streams(), {"y": 5, "x": 0}) == {"x": 0.0, "y": 5.0}


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({}, "no rate for stream 'y'; give one"),
        ({"y": 1.0, "z": 1.0}, "rates for unknown streams z; the streams are x, y"),
        ({"y": -1.0}, "'y' must be a number of at least 0, got -1.0"),
        ({"y": math.nan}, "'y' must be a number of at least 0, got nan"),
        ({"y": math.inf}, "'y' must be a number of at least 0, got inf"),
    ],
)
def test_wrong_rates_say_what_to_do(rates: dict[str, float], message: str):
    with pytest.raises(StatisticsError, match=message):
        check_rates(two_streams(), rates)
