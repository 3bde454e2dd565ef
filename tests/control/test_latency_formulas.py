"""Each formula of the latency controllers against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from headgate.control import (
    Alarm,
    DisspController,
    DisspSettings,
    ModelBasedController,
    ModelBasedSettings,
    PeriodMeasurement,
    Reason,
    ServiceKind,
    SparkPid,
    SparkPidSettings,
    StaticRateCap,
    StaticRateCapSettings,
    TailDrop,
    TailDropSettings,
    TupleCosts,
    largest_stable_gain,
)
from headgate.control.input_buffer import (
    buffer_drain_periods,
    buffer_tuples_for_periods,
    plan_buffer,
)
from headgate.control.micro_batch import (
    BatchOutlook,
    plan_micro_batch,
    smallest_micro_batch_latency_seconds,
)
from headgate.errors import UsageError


def period(waiting: int, latency: float | None, **changes: float) -> PeriodMeasurement:
    values = {"duration_seconds": 0.25, "offered_tuples": 0, "kept_tuples": 0, "busy_seconds": 0.25}
    values |= {"time_seconds": 0.25, "waiting_tuples": waiting, "latency_mean_seconds": latency}
    return PeriodMeasurement(**(values | changes))


class TestDissp:
    def test_equation_7(self) -> None:
        controller = DisspController(DisspSettings(1.0, gain=0.1))
        assert controller.decide(period(1000, 0.9)).keep_tuples == 1000  # n is not set yet
        # n(0) = 1000, then 1000 + 0.1 * 1000 * (1 - 2) / 1 = 900
        assert controller.decide(period(1000, 2.0)).keep_tuples == 900
        # 900 + 0.1 * 900 * (1 - 0.5) = 945
        decision = controller.decide(period(1000, 0.5))
        assert (decision.keep_tuples, decision.reason) == (945, Reason.HELD_BY_FEEDBACK)
        assert decision.keep_fraction == pytest.approx(0.945)

    def test_without_a_result_n_stays(self) -> None:
        controller = DisspController(DisspSettings(1.0))
        controller.decide(period(1000, 2.0))
        assert controller.decide(period(1000, None)).keep_tuples == 900

    def test_n_does_not_grow_while_it_does_not_bind(self) -> None:
        controller = DisspController(DisspSettings(1.0))
        controller.decide(period(1000, 2.0))
        for _ in range(500):
            controller.decide(period(10, 0.1))
        assert controller.decide(period(1000, 1.0)).keep_tuples == 900

    def test_n_never_sticks_at_zero(self) -> None:
        controller = DisspController(DisspSettings(1.0))
        assert controller.decide(period(1000, 1e6)).keep_tuples == 1
        for _ in range(100):
            decision = controller.decide(period(1000, 0.0))
        assert decision.keep_tuples == 1000

    def test_the_stable_range(self) -> None:
        assert largest_stable_gain(0) == 2.0
        assert largest_stable_gain(8) == pytest.approx(2 / 17)

    @pytest.mark.parametrize(
        ("target", "alarms"), [(2.0, ()), (3.0, (Alarm.GAIN_OUTSIDE_STABLE_RANGE,))]
    )
    def test_the_alarm_for_the_delay_seen(self, target: float, alarms: tuple[Alarm, ...]) -> None:
        # the paper's own settings: 2 s are 8 periods, 2/17 > 0.1; 3 s are 12, 2/25 < 0.1
        controller = DisspController(DisspSettings(target, initial_tuples=500))
        controller._tuples = 500.0
        assert controller.decide(period(1000, target)).alarms == alarms

    def test_the_measurement_adds_to_the_delay(self) -> None:
        controller = DisspController(DisspSettings(2.0, measurement_delay_seconds=1.0))
        assert controller.decide(period(1000, 2.01)).alarms == (Alarm.GAIN_OUTSIDE_STABLE_RANGE,)

    def test_settings_are_checked(self) -> None:
        with pytest.raises(UsageError, match="gain must be a number above 0"):
            DisspSettings(gain=0.0)


class TestBaselines:
    def test_tail_drop_keeps_a_full_buffer(self) -> None:
        decision = TailDrop(TailDropSettings(300)).decide(period(1000, 9.0))
        assert (decision.keep_tuples, decision.reason) == (300, Reason.BUFFER_FULL)

    def test_static_rate_cap(self) -> None:
        decision = StaticRateCap(StaticRateCapSettings(2000)).decide(period(1000, 9.0))
        assert (decision.keep_tuples, decision.keep_fraction) == (500, 0.5)

    def test_spark_pid_by_hand(self) -> None:
        controller = SparkPid(SparkPidSettings(batch_interval_seconds=1.0))
        batch = {"offered_tuples": 1000, "kept_tuples": 1000}
        # the first batch only sets the rate to 1000 / 2 s = 500/s
        first = controller.decide(period(5000, None, time_seconds=2.0, busy_seconds=2.0, **batch))
        assert (first.keep_tuples, controller.rate_per_second) == (5000, None)
        # rate 1000/4 = 250; error 250; history 3 s * 250 / 1 s = 750; 500 - 250 - 0.2 * 750 = 100
        controller.decide(
            period(
                5000, None, time_seconds=6.0, busy_seconds=4.0,
                scheduling_delay_seconds=3.0, **batch,
            )
        )  # fmt: skip
        assert controller.rate_per_second == pytest.approx(100.0)
        # rate 1000; error 100 - 1000 = -900; no delay: 100 + 900 = 1000
        decision = controller.decide(
            period(5000, None, time_seconds=7.0, busy_seconds=1.0, **batch)
        )
        assert controller.rate_per_second == pytest.approx(1000.0)
        assert decision.keep_tuples == 1000

    def test_spark_pid_derivative_and_minimum(self) -> None:
        settings = SparkPidSettings(proportional=1.0, integral=0.0, derivative=0.5)
        controller = SparkPid(settings)
        batch = {"offered_tuples": 1000, "kept_tuples": 1000}
        controller.decide(period(0, None, time_seconds=1.0, busy_seconds=1.0, **batch))
        # error 1000 - 500 = 500, change 500 / 2 s = 250: 1000 - 500 - 125 = 375
        controller.decide(period(0, None, time_seconds=3.0, busy_seconds=2.0, **batch))
        assert controller.rate_per_second == pytest.approx(375.0)
        # rate 10: error 365; change (365 - 500) / 1: 375 - 365 + 67.5 = 77.5, but at least 100
        controller.decide(period(0, None, time_seconds=4.0, busy_seconds=100.0, **batch))
        assert controller.rate_per_second == 100.0

    def test_spark_pid_skips_empty_batches_and_a_clock_that_went_back(self) -> None:
        controller = SparkPid(SparkPidSettings())
        batch = {"offered_tuples": 1000, "kept_tuples": 1000}
        for t in (1.0, 2.0):
            controller.decide(period(0, None, time_seconds=t, busy_seconds=1.0, **batch))
        before = controller.rate_per_second
        controller.decide(period(0, None, time_seconds=1.5, busy_seconds=5.0, **batch))
        controller.decide(period(0, None, time_seconds=3.0, busy_seconds=0.0, **batch))
        controller.decide(period(0, None, time_seconds=3.0, busy_seconds=1.0))
        assert controller.rate_per_second == before


class TestMicroBatch:
    COSTS = TupleCosts(0.1, 0.0001, 0.001)

    def test_everything_that_fits_is_kept(self) -> None:
        outlook = BatchOutlook(500, age_seconds=0.35, interval_seconds=0.7)
        # 0.35 + 0.1 + 500 * 0.0011 = 1.0
        assert outlook.latency_seconds(self.COSTS, 500) == pytest.approx(1.0)
        assert plan_micro_batch(outlook, self.COSTS, 1.0 + 1e-9, 0.1) == pytest.approx((500, 1.0))

    def test_the_mean_is_met_in_this_very_batch(self) -> None:
        outlook = BatchOutlook(2000, age_seconds=0.4, interval_seconds=0.8)
        # 1.0 - 0.4 - 0.1 - 0.2 leaves 0.3 s: 300 tuples
        keep, latency = plan_micro_batch(outlook, self.COSTS, 1.0, 0.1)
        assert keep == pytest.approx(300)
        assert latency == pytest.approx(1.0)
        assert outlook.latency_seconds(self.COSTS, keep) == pytest.approx(latency)

    def test_a_high_percentile_grows_by_half_of_the_gap(self) -> None:
        outlook = BatchOutlook(2000, 0.95 * 0.4, 0.4, quantile=0.95)
        # D* = 1.95 / 1.95 = 1 s; D = 1 + 0.5 * 0.6 = 1.3 s, less 0.3 s: 1000 tuples
        assert plan_micro_batch(outlook, self.COSTS, 1.95, 0.1)[0] == pytest.approx(1000)

    def test_younger_tuples_let_the_batch_last_longer(self) -> None:
        outlook = BatchOutlook(2000, age_seconds=0.3, interval_seconds=2 / 3)
        # D* = 2/3 s, and the tuples are 1/30 s younger than half the interval: 0.7 s, less 0.3 s
        keep, latency = plan_micro_batch(outlook, self.COSTS, 1.0, 0.1)
        assert keep == pytest.approx(400)
        assert latency == pytest.approx(1.0)
        assert outlook.latency_seconds(self.COSTS, keep) == pytest.approx(latency)

    def test_an_age_that_cannot_be_stretches_by_an_eighth_of_the_interval(self) -> None:
        outlook = BatchOutlook(2000, age_seconds=0.0, interval_seconds=2 / 3)
        # 2/3 + 1/12 = 0.75 s, less 0.3 s
        assert plan_micro_batch(outlook, self.COSTS, 1.0, 0.1)[0] == pytest.approx(450)

    def test_half_of_the_server(self) -> None:
        outlook = BatchOutlook(2000, 0.2, 0.4, server_share=0.5)
        # D = 0.8 s of wall time are 0.4 s of server time, less 0.3 s: 100 tuples
        assert plan_micro_batch(outlook, self.COSTS, 1.0, 0.01) == pytest.approx((100, 1.0))

    def test_out_of_reach_keeps_the_least_slack(self) -> None:
        outlook = BatchOutlook(2000, 5.0, 10.0)
        assert plan_micro_batch(outlook, self.COSTS, 1.0, 0.1)[0] == pytest.approx(100)

    def test_dropping_that_saves_nothing_is_not_done(self) -> None:
        outlook = BatchOutlook(2000, 5.0, 10.0)
        assert plan_micro_batch(outlook, TupleCosts(1.0, 0.0, 0.0), 1.0, 0.1)[0] == 2000

    def test_the_smallest_latency(self) -> None:
        # looking takes 0.2 of the time: interval 0.1 / 0.8 = 0.125, latency 1.5 * 0.125
        smallest = smallest_micro_batch_latency_seconds(self.COSTS, 2000, 0.0, 0.5, 1.0)
        assert smallest == pytest.approx(0.1875)
        assert smallest_micro_batch_latency_seconds(self.COSTS, 10000, 0, 0.5, 1) == math.inf


class TestInputBuffer:
    def test_the_closed_form_solves_the_recursion(self) -> None:
        arrived, processed, periods = 300.0, 100.0, 5
        kept = buffer_tuples_for_periods(periods, arrived, processed)
        fraction = kept / (kept - processed + arrived)
        position = kept
        for _ in range(periods):
            position = fraction * (position - processed)
        assert position == pytest.approx(0.0, abs=1e-9)

    def test_known_values(self) -> None:
        assert buffer_tuples_for_periods(2, 300, 100) == pytest.approx(200 / (3**0.5 - 1))
        assert buffer_tuples_for_periods(4, 80, 100) == pytest.approx(400)  # no thinning to come
        assert buffer_tuples_for_periods(4, 100, 100) == pytest.approx(400)
        assert buffer_tuples_for_periods(4, 100, 0) == 0.0

    @pytest.mark.parametrize("arrived", [50.0, 100.0, 150.0, 1000.0])
    def test_the_drain_time_is_the_inverse(self, arrived: float) -> None:
        kept = buffer_tuples_for_periods(7.5, arrived, 100.0)
        assert buffer_drain_periods(kept, arrived, 100.0) == pytest.approx(7.5)

    def test_looking_takes_its_part_of_the_server(self) -> None:
        costs = TupleCosts(0.0, 0.00001, 0.001)
        plan = plan_buffer(costs, 2000, 750, 0.25, 1.0, 1.0, 0.1)
        looked_at = plan.keep_tuples - plan.processed_per_period + 750
        used = 0.00001 * looked_at + 0.001 * plan.processed_per_period
        assert used == pytest.approx(0.25, rel=1e-4)
        assert plan.reachable

    def test_looking_that_fills_the_server_is_out_of_reach(self) -> None:
        plan = plan_buffer(TupleCosts(0.0, 0.001, 0.001), 2000, 750, 0.25, 1.0, 1.0, 0.1)
        assert not plan.reachable
        assert plan.processed_per_period == pytest.approx(25)  # a tenth of the period

    def test_a_target_hardly_above_the_cost_of_a_tuple(self) -> None:
        # Nothing can wait, and looking is as dear as processing: the server's time does not
        # change with what is processed, so there is no slope to follow.
        plan = plan_buffer(TupleCosts(0.0, 0.001, 0.001), 1000, 400, 0.5, 0.0011, 1.0, 0.01)
        assert plan.keep_tuples == 1.0
        assert 400 <= plan.processed_per_period <= 500

    def test_when_arrivals_fall_the_old_tuples_have_a_period_less(self) -> None:
        # 100 a period can be done, 0 arrive, 1000 wait: 4 periods of target, 1 is gone
        costs = TupleCosts(0.0, 0.0, 0.0025)
        plan = plan_buffer(costs, 1000, 0, 0.25, 1.0025, 1.0, 0.1)
        assert plan.keep_tuples == pytest.approx(300)


class TestModelBased:
    def test_cold_start_keeps_everything_or_what_it_is_told(self) -> None:
        first = PeriodMeasurement(0.0, 0.0, 0, 0, 0.0, 10**6)
        decision = ModelBasedController(ModelBasedSettings()).decide(first)
        assert (decision.keep_tuples, decision.reason) == (10**6, Reason.COLD_START)
        careful = ModelBasedSettings(cold_start_tuples=5000)
        assert ModelBasedController(careful).decide(first).keep_tuples == 5000

    def test_a_target_out_of_reach_is_an_alarm_and_not_a_stop(self) -> None:
        controller = ModelBasedController(ModelBasedSettings(latency_target_seconds=0.1))
        for _ in range(30):  # looking at 1000 tuples takes 0.5 s
            batch = PeriodMeasurement(1.0, 0.6, 1000, 100, 0.6, 1000, arrival_rate_per_second=1667)
            decision = controller.decide(batch)
            other = PeriodMeasurement(1.0, 0.51, 1000, 10, 0.51, 1000, arrival_rate_per_second=1667)
            decision = controller.decide(other)
        assert decision.alarms == (Alarm.TARGET_UNREACHABLE,)
        assert decision.reason is Reason.BEST_EFFORT
        assert decision.keep_tuples > 0

    def test_the_bias_takes_up_what_the_model_misses(self) -> None:
        controller = ModelBasedController(ModelBasedSettings(latency_target_seconds=3.0))
        for _ in range(300):  # measured is always 0.3 s above the prediction of 3 s - bias
            controller.decide(
                PeriodMeasurement(
                    0.0, 2.0, 600, 200, 2.0, 600,
                    latency_mean_seconds=3.3 - controller.bias_seconds,
                )
            )  # fmt: skip
        assert controller.bias_seconds == pytest.approx(0.3, abs=0.02)

    def test_the_bias_learns_nothing_from_batches_that_kept_something_else(self) -> None:
        controller = ModelBasedController(ModelBasedSettings(latency_target_seconds=3.0))
        for _ in range(50):  # shedding is switched off: 600 are kept where 170 were asked for
            decision = controller.decide(
                PeriodMeasurement(0.0, 6.0, 600, 600, 6.0, 600, latency_mean_seconds=9.0)
            )
            assert decision.keep_fraction < 0.5
        assert controller.bias_seconds == 0.0

    def test_settings_are_checked(self) -> None:
        with pytest.raises(UsageError, match="an input buffer needs its period_seconds"):
            ModelBasedSettings(service=ServiceKind.INPUT_BUFFER)
        with pytest.raises(UsageError, match="percentile"):
            ModelBasedSettings(percentile=100.0)
        with pytest.raises(UsageError, match="latency_target_seconds"):
            ModelBasedSettings(latency_target_seconds=math.nan)
