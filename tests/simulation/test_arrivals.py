from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

from headgate.errors import UsageError
from headgate.simulation.arrivals import (
    Arrivals,
    Constant,
    FlashCrowd,
    OnOff,
    Poisson,
    Repeated,
    Steps,
    Trace,
)

EVEN = [
    Constant(40.0),
    Steps((50.0, 100.0, 150.0, 100.0), 10.0),
    Steps((10.0, 30.0), 2.0, repeat=False),
    FlashCrowd(10.0, 90.0, 3.0, 2.0),
    Trace((5.0, 0.0, 20.0), 60.0, 60.0),
    Repeated(FlashCrowd(10.0, 90.0, 1.0, 1.0), 4.0),
    Constant(40.0) * 0.25,
]
RANDOM = [
    Poisson(100.0),
    Poisson(Steps((20.0, 200.0), 5.0)),
    OnOff(200.0, 10.0, 1.0, 2.0),
    Poisson(50.0) + Constant(10.0),
    Poisson(50.0) * 2.0,
]


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


def test_constant_spacing() -> None:
    assert Constant(2.0).times(0.0, 2.0, generator()).tolist() == [0.25, 0.75, 1.25, 1.75]


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        (Constant(40.0), 2400),
        (Steps((50.0, 100.0, 150.0, 100.0), 10.0), 10 * (50 + 100 + 150 + 100 + 50 + 100)),
        (FlashCrowd(10.0, 90.0, 3.0, 2.0), 60 * 10 + 2 * 80),
        (Trace((5.0, 0.0, 20.0), 60.0, 60.0), 20 * 25),
        (Repeated(FlashCrowd(10.0, 90.0, 1.0, 1.0), 4.0), 15 * (40 + 80)),
        (Constant(40.0) + Constant(1.0), 2460),
        ((Constant(40.0) + Constant(1.0)) * 2.0, 4920),
    ],
)
def test_even_processes_give_exact_counts(process: Arrivals, expected: int) -> None:
    assert len(process.times(0.0, 60.0, generator())) == expected
    assert process.expected(0.0, 60.0) == pytest.approx(expected)


@pytest.mark.parametrize("process", EVEN, ids=repr)
def test_even_processes_do_not_depend_on_the_cut(process: Arrivals) -> None:
    whole = process.times(0.0, 20.0, generator())
    cuts = [0.0, 0.1, 0.35, 3.0, 4.0, 10.0, 10.01, 20.0]
    parts = [process.times(a, b, generator()) for a, b in pairwise(cuts)]
    assert np.allclose(np.concatenate(parts), whole)


@pytest.mark.parametrize("process", EVEN + RANDOM, ids=repr)
def test_times_are_sorted_inside_and_seeded(process: Arrivals) -> None:
    times = process.times(2.0, 9.0, generator())
    assert np.all(np.diff(times) >= 0.0)
    assert times[0] >= 2.0
    assert times[-1] < 9.0
    assert np.array_equal(times, process.times(2.0, 9.0, generator()))
    again = pickle.loads(pickle.dumps(process))
    assert np.array_equal(times, again.times(2.0, 9.0, generator()))


@pytest.mark.parametrize("process", RANDOM, ids=repr)
def test_random_processes_have_the_expected_number(process: Arrivals) -> None:
    expected = process.expected(0.0, 200.0)
    count = len(process.times(0.0, 200.0, generator()))
    assert abs(count - expected) < 5.0 * np.sqrt(expected)


def test_rates_over_time() -> None:
    steps = Steps((50.0, 100.0, 150.0, 100.0), 10.0)
    assert [steps.rate_at(t) for t in (0, 9.9, 10, 25, 39, 40)] == [50, 50, 100, 150, 100, 50]
    assert Steps((1.0, 2.0), 1.0, repeat=False).rate_at(99.0) == 2.0
    assert Trace((1.0, 2.0), 60.0, 60.0).rate_at(1.5) == 2.0
    assert FlashCrowd(1.0, 9.0, 0.0, 2.0).rate_at(0.0) == 9.0
    assert Constant(1.0).rate_at(-1.0) == 0.0
    bursts = OnOff(10.0, 1.0, 1.0, 1.0)
    assert {bursts.rate_at(t) for t in np.arange(0.0, 30.0, 0.1)} == {10.0, 1.0}
    assert bursts.rate_at(0.0) == 10.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(-1.0),
        lambda: Constant(float("nan")),
        lambda: Steps((), 1.0),
        lambda: Steps((1.0,), 0.0),
        lambda: FlashCrowd(1.0, 2.0, 1.0, 0.0),
        lambda: Trace((1.0,), 1.0, 0.0),
        lambda: OnOff(1.0, 0.0, 0.0, 1.0),
        lambda: Constant(1.0) * -1.0,
        lambda: Repeated(Steps((1.0, 2.0), 1.0), 5.0),
    ],
)
def test_impossible_processes_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError):
        make().profile_until(1.0)
