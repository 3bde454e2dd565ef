"""Forecasts of arrival rates, with literal numbers."""

from __future__ import annotations

import math

import pytest

from headgate.control import RateForecast


def forecasts(rates: list[float], period_seconds: float = 6.0) -> list[float]:
    rate = RateForecast()
    return [rate.observe(observed, period_seconds) for observed in rates]


def test_steady_rates_are_forecast_as_they_are() -> None:
    assert forecasts([200.0] * 5) == [200.0] * 5


@pytest.mark.parametrize("step", [10.0, -10.0])
def test_a_steady_trend_is_followed_without_lag(step: float) -> None:
    rates = [1000.0 + step * batch for batch in range(40)]
    assert forecasts(rates)[-1] == pytest.approx(rates[-1] + step, rel=1e-3)


def test_the_forecast_of_short_batches_is_smoother() -> None:
    rates = [100.0, 100.0, 130.0]
    assert 100.0 < forecasts(rates, period_seconds=0.5)[-1] < forecasts(rates)[-1]


def test_a_fall_to_nothing_is_never_below_nothing_and_soon_there() -> None:
    found = forecasts([900.0, 900.0, 0.0, 0.0, 0.0, 0.0])
    assert min(found) >= 0.0
    assert found[-1] < 5.0


def test_a_jump_is_not_carried_further_than_a_third() -> None:
    assert forecasts([1.0, 1.0, 1000.0])[-1] <= 1000.0 * 4.0 / 3.0


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -1.0])
def test_what_is_no_rate_teaches_nothing(nonsense: float) -> None:
    assert forecasts([100.0, nonsense, 100.0]) == [100.0, 100.0, 100.0]


def test_the_level_is_the_rate_as_it_is() -> None:
    rate = RateForecast()
    assert rate.level == 0.0
    for observed in (100.0, 110.0, 120.0, 130.0):
        ahead = rate.observe(observed, 6.0)
    assert 125.0 < rate.level < 132.0 < ahead
