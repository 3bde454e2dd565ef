"""Closed loops in virtual time: a controller around a plant that it does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headgate.control import (
    DisspController,
    DisspSettings,
    ModelBasedController,
    ModelBasedSettings,
    NoControl,
    NoControlSettings,
    ServiceKind,
    largest_stable_gain,
)
from tests.control.control_plants import (
    BufferPlant,
    Costs,
    MicroBatchPlant,
    Trace,
    constant,
    steps,
)

BATCH_COSTS = Costs(fixed=0.02, looking=1e-5, processing=0.001, noise=0.03)
BUFFER_COSTS = Costs(looking=1e-5, processing=0.001, noise=0.1)


def batch_controller(target: float = 1.0, **settings: object) -> ModelBasedController:
    return ModelBasedController(ModelBasedSettings(target, **settings))


def buffer_controller(target: float = 1.0, **settings: object) -> ModelBasedController:
    return ModelBasedController(
        ModelBasedSettings(
            target, service=ServiceKind.INPUT_BUFFER, period_seconds=0.25, **settings
        )
    )


def run(kind: str, target: float, rate, costs: Costs | None = None, seconds: float = 40, **plant):
    """Our controller around the plant of that kind; the trace and the controller."""
    if kind == "batch":
        controller = batch_controller(target)
        trace = MicroBatchPlant(controller, rate, costs or BATCH_COSTS, **plant).run(seconds)
    else:
        controller = buffer_controller(target)
        trace = BufferPlant(controller, rate, costs or BUFFER_COSTS, **plant).run(seconds)
    return trace, controller


both_plants = pytest.mark.parametrize("kind", ["batch", "buffer"])


@both_plants
@pytest.mark.parametrize("target", [0.5, 1.0, 2.0, 3.0])
def test_three_times_the_capacity_is_held_at_the_target(kind: str, target: float) -> None:
    trace, _ = run(kind, target, steps((0, 300), (5, 3000)), seconds=15 + 15 * target)
    settled = trace.latencies(start=10 + 3 * target)
    assert settled.mean() == pytest.approx(target, rel=0.03)
    assert settled.std() < 0.08 * target
    assert trace.latencies(start=5).max() < 1.25 * target


@pytest.mark.parametrize("kind", ["batch", "buffer"])
def test_the_chosen_percentile_is_held(kind: str) -> None:
    settings = {"percentile": 95.0}
    if kind == "batch":
        plant = MicroBatchPlant(batch_controller(2.0, **settings), constant(3000), BATCH_COSTS)
    else:
        plant = BufferPlant(buffer_controller(2.0, **settings), constant(3000), BUFFER_COSTS)
    trace = plant.run(80)
    seen = [m.latency_percentiles_seconds[95.0] for m in trace.measurements if m.time_seconds > 20]
    assert np.mean(seen) == pytest.approx(2.0, rel=0.03)
    assert np.mean(trace.latencies(20)) < 2.0


@both_plants
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_nothing_is_dropped_while_the_capacity_suffices(kind: str, load: float) -> None:
    trace, _ = run(kind, 1.0, constant(1000 * load), seconds=40)
    assert not any(decision.sheds for decision in trace.decisions)


@both_plants
def test_the_capacity_is_used_while_anything_is_dropped(kind: str) -> None:
    """Busy all the time, and dropping what is left over: no capacity lost to caution."""
    trace, _ = run(kind, 1.0, constant(3000), seconds=40)
    measured = [m for m in trace.measurements if m.time_seconds > 10]
    busy = sum(m.busy_seconds for m in measured)
    assert busy == pytest.approx(sum(m.duration_seconds for m in measured), rel=0.06)


@both_plants
@pytest.mark.parametrize("seed", range(3))
def test_when_the_load_falls_shedding_stops_within_three_decisions(kind: str, seed: int) -> None:
    trace, controller = run(kind, 1.0, steps((0, 3000), (20, 300)), seconds=60, seed=seed)
    after = [d for d, t in zip(trace.decisions, trace.time, strict=True) if t >= 20]
    # a batch that began before the fall may still bring the old load: count from the next one
    assert not any(d.sheds for d in after[4:])
    assert trace.keep_fractions(start=25).min() == 1.0
    assert abs(controller.bias_seconds) < 0.01


@both_plants
def test_an_overload_that_comes_and_goes_leaves_no_lasting_bias(kind: str) -> None:
    pattern = steps(*((10.0 * i, 3000.0 if i % 2 else 300.0) for i in range(12)))
    trace, _ = run(kind, 1.0, pattern, seconds=120)
    for start in range(10, 120, 20):
        assert trace.latencies(start + 4, start + 9).mean() == pytest.approx(1.0, rel=0.06)
        assert trace.keep_fractions(start + 13, start + 19).min(initial=1.0) == 1.0


@both_plants
@pytest.mark.parametrize("seed", range(3))
def test_a_cost_that_triples_is_caught(kind: str, seed: int) -> None:
    costs = replace(BATCH_COSTS if kind == "batch" else BUFFER_COSTS, slow_from=20, slow_by=3.0)
    trace, _ = run(kind, 1.0, constant(3000), costs, seconds=60, seed=seed)
    assert trace.latencies(20).max() < 3.0  # what is inside when it happens takes three times
    assert trace.latencies(27).max() < 1.5
    assert trace.latencies(35).mean() == pytest.approx(1.0, rel=0.05)


@both_plants
def test_a_cost_that_falls_to_a_third_is_used(kind: str) -> None:
    costs = replace(BATCH_COSTS if kind == "batch" else BUFFER_COSTS, slow_from=20, slow_by=1 / 3)
    trace, _ = run(kind, 1.0, constant(6000), costs, seconds=50)
    before = trace.total_processed(10, 20) / 10
    after = trace.total_processed(30, 50) / 20
    assert after > 2.5 * before
    assert trace.latencies(35).mean() == pytest.approx(1.0, rel=0.06)


@both_plants
def test_a_source_that_stops_and_comes_back(kind: str) -> None:
    trace, _ = run(kind, 1.0, steps((0, 3000), (15, 0), (30, 3000)), seconds=60)
    assert trace.keep_fractions(18, 30).min() == 1.0
    assert any(m.offered_tuples == 0 for m in trace.measurements if 20 < m.time_seconds < 30)
    assert trace.latencies(40).mean() == pytest.approx(1.0, rel=0.05)
    assert trace.latencies(30).max() < 1.5


@both_plants
@pytest.mark.parametrize("jump", [-3600.0, -2.0, 2.0, 3600.0])
def test_a_clock_that_jumps_is_survived(kind: str, jump: float) -> None:
    trace, _ = run(kind, 1.0, constant(3000), seconds=60, clock=lambda t: t if t < 20 else t + jump)
    assert trace.latencies(20).max() < 1.6
    assert trace.latencies(35).mean() == pytest.approx(1.0, rel=0.05)


@both_plants
def test_a_trickle_with_many_empty_periods(kind: str) -> None:
    trace, _ = run(kind, 1.0, constant(2), seconds=60)
    assert sum(m.kept_tuples == 0 for m in trace.measurements) > 20
    assert not any(d.sheds for d in trace.decisions)


def test_a_trigger_interval_is_part_of_the_wait() -> None:
    controller = batch_controller(2.0, period_seconds=1.0)
    trace = MicroBatchPlant(controller, constant(3000), BATCH_COSTS, trigger=1.0).run(60)
    assert trace.latencies(15).mean() == pytest.approx(2.0, rel=0.03)
    controller = batch_controller(2.0, period_seconds=1.0)
    trace = MicroBatchPlant(controller, constant(500), BATCH_COSTS, trigger=1.0).run(60)
    assert not any(d.sheds for d in trace.decisions)


def test_a_batch_whose_size_nobody_counts_is_guessed_from_the_rate() -> None:
    controller = batch_controller(1.0)
    plant = MicroBatchPlant(controller, constant(3000), BATCH_COSTS, counts_waiting=False)
    trace = plant.run(40)
    assert trace.latencies(10).mean() == pytest.approx(1.0, rel=0.05)


def test_without_control_the_latency_diverges() -> None:
    costs = replace(BUFFER_COSTS, looking=0.0)
    trace = BufferPlant(NoControl(NoControlSettings()), constant(1500), costs).run(30)
    assert trace.latencies(29).mean() > 4 * trace.latencies(5, 6).mean()


class TestThePapersController:
    """Equation 7 on the plants: it works where its gain is in the stable range."""

    @staticmethod
    def swing(trace: Trace, start: float, end: float) -> float:
        latencies = trace.latencies(start, end)
        return float(latencies.max() - latencies.min())

    @pytest.mark.parametrize("seed", range(8))
    def test_no_oscillation_at_random_gains_inside_the_stable_range(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        target = float(rng.uniform(0.5, 1.5))
        bound = largest_stable_gain(np.ceil(target / 0.25))
        gain = float(rng.uniform(0.15, 0.6) * bound)
        controller = DisspController(DisspSettings(target, gain=gain))
        quiet = replace(BUFFER_COSTS, noise=0.02)
        trace = BufferPlant(controller, constant(2500), quiet, seed).run(120)
        assert trace.latencies(90).mean() == pytest.approx(target, rel=0.03)
        early, late = self.swing(trace, 0, 30), self.swing(trace, 90, 120)
        assert late < 0.2 * target
        assert late < early

    def test_far_outside_the_range_it_swings_and_says_so(self) -> None:
        controller = DisspController(DisspSettings(1.0, gain=1.5))
        trace = BufferPlant(controller, constant(2500), BUFFER_COSTS).run(60)
        assert self.swing(trace, 30, 60) > 0.5
        assert trace.decisions[-1].alarms

    def test_it_recovers_when_the_load_falls(self) -> None:
        controller = DisspController(DisspSettings(1.0))
        trace = BufferPlant(controller, steps((0, 2500), (30, 300)), BUFFER_COSTS).run(60)
        assert trace.keep_fractions(35).min() == 1.0


class TestOurs:
    @pytest.mark.parametrize("seed", range(6))
    @both_plants
    def test_no_oscillation_at_random_integral_gains(self, kind: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        target, gain = float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.0, 0.4))
        if kind == "batch":
            controller = batch_controller(target, integral_gain=gain)
            trace = MicroBatchPlant(controller, constant(2500), BATCH_COSTS, seed).run(60)
        else:
            controller = buffer_controller(target, integral_gain=gain)
            trace = BufferPlant(controller, constant(2500), BUFFER_COSTS, seed).run(60)
        late = trace.latencies(30)
        assert late.std() < 0.06 * target
        assert late.mean() == pytest.approx(target, rel=0.06)
