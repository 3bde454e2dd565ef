"""Numbers for people."""

from __future__ import annotations

import doctest

import pytest

from headgate.cli import numbers
from headgate.cli.numbers import bar, percent


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(numbers).failed == 0


@pytest.mark.parametrize("fraction", [0.9999999, 0.99996, 0.9995])
def test_a_small_loss_is_never_rounded_away(fraction: float) -> None:
    assert percent(fraction) == ">99.9 %"


def test_rounding_of_a_solver_is_not_a_loss() -> None:
    assert percent(1.0 - 1e-12) == "100 %"
    assert percent(1e-12) == "0 %"


@pytest.mark.parametrize(("fraction", "length"), [(0.0, 0), (0.5, 6), (1.0, 12), (2.0, 12)])
def test_a_bar_is_as_long_as_its_fraction(fraction: float, length: int) -> None:
    assert len(bar(fraction, width=12)) == length
