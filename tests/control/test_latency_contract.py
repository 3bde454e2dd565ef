"""Every latency controller in the package is found and put through the same checks."""

from __future__ import annotations

import importlib
import inspect
import math
import pickle
import pkgutil
import random
import typing
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

import headgate.control
from headgate.control import (
    LATENCY_CONTROLLERS,
    KeepDecision,
    LatencyController,
    ModelBasedSettings,
    PeriodMeasurement,
    ServiceKind,
    build_controller,
)
from headgate.errors import UsageError

NAN, INF = math.nan, math.inf


def discovered() -> list[type]:
    """Classes with a `decide` that takes a PeriodMeasurement, the protocol left out."""
    found = []
    for info in pkgutil.iter_modules(headgate.control.__path__):
        module = importlib.import_module(f"headgate.control.{info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ != module.__name__ or cls is LatencyController:
                continue
            if "decide" in vars(cls):
                hints = typing.get_type_hints(cls.decide)
                assert hints["return"] is KeepDecision
                found.append(cls)
    return found


def settings_type(cls: type) -> type:
    return typing.get_type_hints(cls.__init__)["settings"]


def builders() -> list:
    """Each controller with its default settings; those with several services once for each."""
    cases = []
    for cls in discovered():
        cases.append(pytest.param(lambda c=cls: c(settings_type(c)()), id=cls.__name__))
        if settings_type(cls) is ModelBasedSettings:
            buffer = ModelBasedSettings(service=ServiceKind.INPUT_BUFFER, period_seconds=0.25)
            cases.append(
                pytest.param(lambda c=cls, s=buffer: c(s), id=f"{cls.__name__}-input-buffer")
            )
    return cases


every_controller = pytest.mark.parametrize("build", builders())


def idle(index: int) -> PeriodMeasurement:
    """A quiet system: 20 tuples a quarter second, 1 ms each."""
    return PeriodMeasurement(
        time_seconds=0.25 * (index + 1),
        duration_seconds=0.25,
        offered_tuples=20,
        kept_tuples=20,
        busy_seconds=0.02,
        waiting_tuples=20,
        arrival_rate_per_second=80.0,
        latency_mean_seconds=0.1,
    )


def overload(index: int, rng: random.Random) -> PeriodMeasurement:
    """A busy and noisy one."""
    offered = rng.randint(500, 2000)
    kept = rng.randint(100, 500)
    return PeriodMeasurement(
        time_seconds=0.25 * (index + 1),
        duration_seconds=0.25,
        offered_tuples=offered,
        kept_tuples=kept,
        busy_seconds=0.0001 * offered + 0.001 * kept,
        waiting_tuples=rng.randint(500, 4000),
        arrival_rate_per_second=rng.uniform(2000, 6000),
        scheduling_delay_seconds=rng.uniform(0, 1),
        latency_mean_seconds=rng.uniform(0.5, 3.0),
        latency_percentiles_seconds={95.0: 3.5},
    )


def garbage(index: int, rng: random.Random) -> PeriodMeasurement:
    """Numbers that no healthy system measures."""
    values = [0.0, -1.0, NAN, INF, -INF, 1e308, 1e-308, 0.25, 7.0]
    counts = [0, -5, 1, 1000, 10**12]
    return PeriodMeasurement(
        time_seconds=rng.choice(values) if index % 3 else 0.25 * index,
        duration_seconds=rng.choice(values),
        offered_tuples=rng.choice(counts),
        kept_tuples=rng.choice(counts),
        busy_seconds=rng.choice(values),
        waiting_tuples=rng.choice([*counts, None]),
        processed_tuples=rng.choice([*counts, None]),
        arrival_rate_per_second=rng.choice([*values, None]),
        waiting_age_seconds=rng.choice([*values, None]),
        scheduling_delay_seconds=rng.choice(values),
        latency_mean_seconds=rng.choice([*values, None]),
        server_share=rng.choice([1.0, 0.5, 0.0, NAN]),
    )


def check(decision: KeepDecision) -> None:
    assert 0 <= decision.keep_tuples <= decision.expected_tuples
    assert 0.0 <= decision.keep_fraction <= 1.0
    assert isinstance(decision.keep_tuples, int)
    predicted = decision.predicted_latency_seconds
    assert predicted is None or not math.isnan(predicted)


def test_the_catalogue_names_every_controller_that_exists() -> None:
    assert {kind.controller for kind in LATENCY_CONTROLLERS.values()} == set(discovered())
    assert len(discovered()) >= 6
    for name, kind in LATENCY_CONTROLLERS.items():
        assert isinstance(build_controller(name), LatencyController)
        assert kind.settings is settings_type(kind.controller)


def test_unknown_names_and_settings_say_what_exists() -> None:
    with pytest.raises(UsageError, match="expected one of model, none, paper"):
        build_controller("pid")
    with pytest.raises(UsageError, match=r"no setting target; its settings are .*latency_target"):
        build_controller("paper", {"target": 1.0})


@every_controller
def test_settings_are_frozen_and_picklable(build) -> None:
    settings = build().settings
    assert is_dataclass(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings
    for field in fields(settings):
        with pytest.raises(FrozenInstanceError):
            setattr(settings, field.name, 1)


@every_controller
def test_the_same_measurements_give_the_same_decisions(build) -> None:
    first, second = build(), build()
    for index in range(200):
        measurement = overload(index, random.Random(index))
        assert first.decide(measurement) == second.decide(measurement)


@every_controller
def test_a_controller_pickled_in_the_middle_goes_on_as_if_nothing_had_happened(build) -> None:
    original = build()
    for index in range(50):
        original.decide(overload(index, random.Random(index)))
    copy = pickle.loads(pickle.dumps(original))
    for index in range(50, 100):
        measurement = overload(index, random.Random(index))
        assert copy.decide(measurement) == original.decide(measurement)


@every_controller
def test_idle_means_no_drop(build) -> None:
    controller = build()
    for index in range(200):
        decision = controller.decide(idle(index))
        assert not decision.sheds
        assert decision.keep_fraction == 1.0


@every_controller
def test_nothing_waits_means_nothing_is_dropped(build) -> None:
    controller = build()
    for index in range(20):
        controller.decide(overload(index, random.Random(index)))
    empty = PeriodMeasurement(10.0, 0.25, 0, 0, 0.0, 0, arrival_rate_per_second=0.0)
    for _ in range(20):
        decision = controller.decide(empty)
        assert (decision.keep_tuples, decision.keep_fraction) == (0, 1.0)


@every_controller
def test_memory_does_not_grow(build) -> None:
    controller = build()
    sizes = []
    for index in range(2000):
        controller.decide(overload(index, random.Random(index)))
        if index in (99, 1999):
            sizes.append(len(pickle.dumps(controller)))
    assert sizes[1] <= sizes[0] + 64


@every_controller
@pytest.mark.parametrize("seed", range(5))
def test_garbage_gives_a_number_in_range(build, seed: int) -> None:
    controller, rng = build(), random.Random(seed)
    for index in range(300):
        check(controller.decide(garbage(index, rng)))
    for index in range(300):
        check(controller.decide(overload(index, rng)))


@every_controller
def test_a_longer_latency_never_keeps_more(build) -> None:
    controller, rng = build(), random.Random(7)
    for index in range(60):
        measurement = overload(index, rng)
        kept = []
        for latency in (0.2, 0.9, 1.0, 1.1, 1.5, 3.0, 30.0):
            twin = pickle.loads(pickle.dumps(controller))
            kept.append(twin.decide(measurement._replace(latency_mean_seconds=latency)).keep_tuples)
        assert kept == sorted(kept, reverse=True)
        check(controller.decide(measurement))


@every_controller
def test_an_unknown_backlog_is_guessed_from_the_rate(build) -> None:
    controller = build()
    decision = controller.decide(idle(0)._replace(waiting_tuples=None))
    assert decision.expected_tuples == 20
    decision = controller.decide(
        idle(1)._replace(waiting_tuples=None, arrival_rate_per_second=None)
    )
    assert decision.expected_tuples == 20
