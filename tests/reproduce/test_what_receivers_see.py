"""The worked examples and the quality of answers: a policy against random drop."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from headgate.reduction import PolicyBuilder, load_policy, use
from headgate.reproduce.experiment import Experiment, Outcome, Request
from headgate.reproduce.experiments.alert_quality import ALERT_QUALITY, alerts_kept
from headgate.reproduce.experiments.pulse import PULSE, pulse_policy
from headgate.reproduce.experiments.vehicles import VEHICLES, vehicle_policy
from headgate.reproduce.figures import new_figure
from headgate.reproduce.receivers import deliver

POLICIES = Path(__file__).parents[2] / "examples" / "policies"


@cache
def quick(experiment: Experiment) -> Outcome:
    return experiment.run(Request(quick=True), lambda _done, _total, _what: None)


def finding(experiment: Experiment, what: str) -> float:
    [value] = [finding.ours for finding in quick(experiment).findings if finding.what == what]
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize("experiment", [PULSE, VEHICLES, ALERT_QUALITY], ids=lambda e: e.name)
def test_each_has_rows_findings_and_a_picture(experiment: Experiment) -> None:
    outcome = quick(experiment)
    assert outcome.rows
    assert outcome.findings
    figure = new_figure()
    outcome.draw(figure)
    assert len(figure.axes) >= 2


def test_the_policies_are_those_in_the_examples() -> None:
    assert load_policy(POLICIES / "pulse.yaml") == pulse_policy()
    assert load_policy(POLICIES / "vehicles.yaml") == vehicle_policy()


def test_the_policy_shows_every_episode_of_a_pulse_and_random_drop_does_not() -> None:
    assert finding(PULSE, "policy: episodes seen") == 1.0
    assert finding(PULSE, "random drop: episodes seen, mean of 20 draws") < 0.8
    assert finding(PULSE, "policy: largest error, beats/min") < 5.0
    assert finding(PULSE, "random drop: largest error, beats/min") > 30.0


@pytest.mark.parametrize("experiment", [PULSE, VEHICLES], ids=lambda e: e.name)
def test_the_policy_stays_within_the_budget(experiment: Experiment) -> None:
    what = "readings received" if experiment is PULSE else "reports received"
    assert finding(experiment, f"policy: {what}") <= 0.2
    assert finding(experiment, f"random drop: {what}") == pytest.approx(0.2, abs=0.01)


def test_the_newest_of_each_vehicle_is_as_good_as_everything() -> None:
    mean = {
        name: finding(VEHICLES, f"{name}: mean error, m")
        for name in ("policy", "random drop", "everything")
    }
    assert mean["policy"] == mean["everything"]
    assert mean["random drop"] > 2.0 * mean["policy"]


@pytest.mark.parametrize("keep_fraction", [0.05, 0.2, 0.7])
def test_99_percent_of_the_alerts_stay_where_random_drop_keeps_its_fraction(
    keep_fraction: float,
) -> None:
    policy = alerts_kept(keep_fraction, 0.01, at_random=False, batches=40, seed=7)
    chance = alerts_kept(keep_fraction, 0.01, at_random=True, batches=40, seed=7)
    assert policy["alerts_kept"] >= 0.99
    assert policy["events_kept"] <= chance["events_kept"] == pytest.approx(keep_fraction)
    deviation = (keep_fraction * (1.0 - keep_fraction) / 400) ** 0.5
    assert chance["alerts_kept"] == pytest.approx(keep_fraction, abs=4.0 * deviation)
    assert policy["accounted_for"] == chance["accounted_for"] == 1.0


def test_more_alerts_than_the_budget_holds_are_not_all_kept() -> None:
    crowded = alerts_kept(0.2, 0.4, at_random=False, batches=10, seed=1)
    assert crowded["alerts_kept"] == pytest.approx(0.5, abs=0.05)
    assert crowded["events_kept"] == pytest.approx(0.2)


def test_batches_are_delivered_at_their_end_and_filters_remember_the_one_before() -> None:
    policy = PolicyBuilder("p", attribute="v").level(use("UNIQ", "keep")).build()
    events = [{"time": float(time), "v": 1} for time in range(4)]
    first, second = deliver(events, policy, 0.5, 2.0)
    assert (first.seconds, first.events, first.level) == (2.0, [events[0]], 1)
    assert (second.seconds, second.events, second.digest[""]["dropped"]) == (4.0, [], 2)
    by_chance = list(deliver(events, policy, 0.5, 2.0, at_random=True))
    assert [(len(batch.events), batch.at_random) for batch in by_chance] == [(1, 1), (1, 1)]
