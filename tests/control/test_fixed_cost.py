"""Batches that take long whatever is dropped: a starved machine, a slow sink, a large state."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headgate.control import PeriodMeasurement
from headgate.control.model_based import ModelBasedController, ModelBasedSettings

LOOKING, PROCESSING = 20e-6, 0.36e-3
TARGET_SECONDS = 3.0


def kept_and_latency(
    fixed_seconds: Callable[[int], float],
    rate: Callable[[float], float],
    seed: int,
    batches: int = 60,
) -> list[tuple[int, int, float]]:
    """Offered, kept and latency of each batch; times vary by a tenth."""
    chance = random.Random(seed)
    controller = ModelBasedController(ModelBasedSettings(latency_target_seconds=TARGET_SECONDS))
    now, interval, share = 0.0, 1.0, 1.0
    rows = []
    for batch in range(batches):
        offered = round(rate(now) * interval)
        kept = round(offered * share)
        work = fixed_seconds(batch) + LOOKING * offered + PROCESSING * kept
        busy = work * max(0.3, chance.gauss(1.0, 0.1))
        age = interval / 2.0
        now, interval = now + busy, busy
        waiting = round(rate(now) * interval)
        decision = controller.decide(
            PeriodMeasurement(
                now,
                busy,
                offered,
                kept,
                busy,
                waiting,
                None,
                rate(now),
                interval / 2.0,
                latency_mean_seconds=age + busy,
            )
        )
        share = decision.keep_fraction if decision.sheds else 1.0
        rows.append((offered, kept, age + busy))
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_a_fixed_cost_above_the_target_does_not_end_in_dropping_everything(seed: int) -> None:
    """2.5 s for nothing, while the lasting length of a batch is 2 s; the crowd has gone."""
    rows = kept_and_latency(lambda _: 2.5, lambda now: 8400.0 if now < 25.0 else 1100.0, seed)
    calm = rows[30:]
    assert sum(kept for _, kept, _ in calm) > 0.25 * sum(offered for offered, _, _ in calm)
    smallest = 1.5 * 2.5 / (1.0 - 1100.0 * LOOKING)
    assert sum(latency for *_, latency in calm) / len(calm) < 1.6 * smallest


@pytest.mark.parametrize("seed", range(5))
def test_a_fixed_cost_that_grows_is_told_from_dearer_tuples(seed: int) -> None:
    rows = kept_and_latency(lambda batch: 0.2 if batch < 20 else 1.0, lambda _: 8400.0, seed)
    settled = rows[35:]
    best = (2.0 - 1.0 - LOOKING * 8400.0 * 2.0) / PROCESSING
    assert sum(kept for _, kept, _ in settled) / len(settled) == pytest.approx(best, rel=0.15)
    latency = sum(latency for *_, latency in settled) / len(settled)
    assert latency == pytest.approx(TARGET_SECONDS, rel=0.05)


def test_a_start_with_a_few_tuples_sheds_nothing_below_the_capacity() -> None:
    """As the demo starts on Spark: 10 tuples take 1.5 s, then 0.6 s and 0.2 ms a tuple."""
    controller = ModelBasedController(ModelBasedSettings(latency_target_seconds=TARGET_SECONDS))
    offered, busy = 10, 1.5
    for batch in range(10):
        waiting = round(1300 * busy)
        decision = controller.decide(
            PeriodMeasurement(batch, busy, offered, offered, busy, waiting, None, 1300.0, busy / 2)
        )
        assert not decision.sheds, batch
        offered, busy = waiting, 0.6 + 0.0002 * waiting


def test_a_backlog_is_shed_whatever_the_sizes_before_it() -> None:
    """The same ten tuples, then nobody looked for a minute."""
    controller = ModelBasedController(ModelBasedSettings(latency_target_seconds=TARGET_SECONDS))
    decision = controller.decide(
        PeriodMeasurement(60.0, 60.0, 10, 10, 1.5, 78_000, None, 1300.0, 30.0)
    )
    assert decision.keep_tuples < 20
