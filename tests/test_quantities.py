from __future__ import annotations

import math

import pytest

from headgate.quantities import AMOUNT, BANDWIDTH, DURATION, RATE, SIZE, Quantity


@pytest.mark.parametrize(
    ("quantity", "text", "value"),
    [
        (AMOUNT, "0.5", 0.5),
        (AMOUNT, " 1_000 ", 1000.0),
        (AMOUNT, ".5", 0.5),
        (AMOUNT, "1.", 1.0),
        (AMOUNT, "1e-05", 0.00001),
        (AMOUNT, "+2", 2.0),
        (AMOUNT, "010", 10.0),
        (DURATION, "120us", 0.00012),
        (DURATION, "0.4ms", 0.0004),
        (DURATION, "3 s", 3.0),
        (DURATION, "2min", 120.0),
        (DURATION, "-3s", -3.0),
        (DURATION, "0.25", 0.25),
        (DURATION, "10m", 600.0),
        (DURATION, "2h", 7200.0),
        (DURATION, "500 microseconds", 0.0005),
        (DURATION, "500 milliseconds", 0.5),
        (DURATION, "3 seconds", 3.0),
        (DURATION, "1 Minute", 60.0),
        (DURATION, "0.5 HOURS", 1800.0),
        (DURATION, "1 day", 86_400.0),
        (DURATION, "2 weeks", 1_209_600.0),
        (RATE, "2000/s", 2000.0),
        (RATE, "2e3 / s", 2000.0),
        (RATE, "90/min", 1.5),
        (RATE, "100/min", 100 / 60),
        (SIZE, "300", 300.0),
        (SIZE, "300 B", 300.0),
        (SIZE, "2kB", 2000.0),
        (SIZE, "1.5 MB", 1.5e6),
        (SIZE, "1GB", 1e9),
        (SIZE, "1KiB", 1024.0),
        (SIZE, "2MiB", 2097152.0),
        (BANDWIDTH, "10 MB/s", 1e7),
        (BANDWIDTH, "1KiB/s", 1024.0),
        (BANDWIDTH, "5 B/s", 5.0),
        (AMOUNT, ".inf", math.inf),
        (AMOUNT, "-inf", -math.inf),
        (AMOUNT, "1e999", math.inf),
    ],
)
def test_numbers_as_people_write_them(quantity: Quantity, text: str, value: float):
    assert quantity.parse(text) == value


@pytest.mark.parametrize("text", [".nan", "NaN", ".NaN"])
def test_an_undefined_number_is_left_to_the_validation(text: str):
    assert math.isnan(AMOUNT.parse(text))


@pytest.mark.parametrize(
    ("quantity", "text", "message"),
    [
        (AMOUNT, "", "expected a number such as 0.5, got ''"),
        (AMOUNT, "true", "expected a number such as 0.5, got 'true'"),
        (AMOUNT, "0x1F", "expected a plain number such as 0.5, without the unit 'x1F'"),
        (AMOUNT, "1:30", "without the unit ':30'"),
        (AMOUNT, "5kg", "without the unit 'kg'"),
        (AMOUNT, "9" * 65, "got '9999999999999999999999999999999999999...'"),
        (AMOUNT, "1e9999", "without the unit '9'"),
        (AMOUNT, "٣", "expected a number such as 0.5"),
        (DURATION, "fast", "expected a number such as 120us, got 'fast'"),
        (DURATION, "5 sec", "unknown unit 'sec'; did you mean 'second'?"),
        (
            DURATION,
            "5 fortnights",
            "unknown unit 'fortnights'; expected one of 'day', 'days', 'h', ",
        ),
        (RATE, "5 seconds", "unknown unit 'seconds'"),
        (DURATION, "5 MS", "unknown unit 'MS'; did you mean 'ms'?"),
        (RATE, "5/hour", "unknown unit '/hour'; expected one of '/min', '/s'"),
        (BANDWIDTH, "10 mb/s", "unknown unit 'mb/s'; did you mean 'MB/s'?"),
        (BANDWIDTH, "10 MB", "unknown unit 'MB'; did you mean 'MB/s'?"),
    ],
)
def test_what_is_not_a_number_says_what_was_expected(quantity: Quantity, text: str, message: str):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        quantity.parse(text)
    assert message in str(caught.value)
