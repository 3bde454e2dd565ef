"""Patients' pulse rates under five times too much: the paper's policy against random drop.

Worked example after PACK's Figure 2. Generated: 24 patients, a reading a second each, for
five minutes; most wander within the normal range (50 to 100), some have a long or a very
short episode outside it. A receiver takes a fifth of the readings, in batches of 5 s, and
holds the last one it got of each patient.

The policy is that of the figure, for each patient on its own, with one change: DELTA
compares with the last reading that was sent, not with the reading before. As printed, a
pulse that rises by one a second would never be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction import Policy, PolicyBuilder, use
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.receivers import Delivered, deliver

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PULSE", "pulse_policy", "readings"]

Floats: TypeAlias = NDArray[np.float64]

LOW, HIGH = 50, 100
PATIENTS = 24
SECONDS = 300
BATCH_SECONDS = 5.0
KEEP_FRACTION = 0.2
WAYS = {"policy": False, "random drop": True}
REPEATS = 20
SHOWN = {0: "a long episode", 2: "four seconds, later two", 6: "nothing the matter"}


@dataclass(frozen=True, slots=True)
class Episode:
    """Seconds outside the normal range: the pulse goes to `rate` within `ramp` seconds."""

    patient: int
    start: int
    length: int
    rate: float
    ramp: int


EPISODES = (
    Episode(0, 100, 90, 140.0, 20),
    Episode(1, 152, 3, 150.0, 0),
    Episode(2, 60, 4, 155.0, 0),
    Episode(2, 211, 2, 160.0, 0),
    Episode(3, 180, 60, 42.0, 15),
    Episode(4, 33, 3, 38.0, 0),
    Episode(5, 247, 2, 165.0, 0),
)


def pulse_policy() -> Policy:
    """The policy of examples/policies/pulse.yaml."""
    kinds = {"PulseRate": "number", "patient": "text", "number": "number", "time": "number"}
    builder = PolicyBuilder(
        "pulse", attribute="PulseRate", group="patient", identity="number", attributes=kinds
    )
    for digest in ("MEAN", "MIN", "MAX", "COUNT"):
        builder.digest(digest)
    return (
        builder.level(use("DELTA", "keep", change=5, since="selected"))
        .level(use("WITHIN", "drop", low=LOW, high=HIGH))
        .level(use("LATEST", "keep", window=10))
        .build()
    )


def true_pulses(seed: int) -> Floats:
    """One row a patient, one column a second; whole beats per minute."""
    rng = np.random.default_rng(seed)
    pulses = np.empty((PATIENTS, SECONDS))
    for patient in range(PATIENTS):
        wander = np.empty(SECONDS)
        wander[0] = 0.0
        for second in range(1, SECONDS):
            wander[second] = 0.97 * wander[second - 1] + rng.normal(0.0, 0.7)
        pulses[patient] = rng.uniform(62.0, 84.0) + wander + rng.normal(0.0, 0.8, SECONDS)
    for episode in EPISODES:
        _add(pulses[episode.patient], episode)
    return np.rint(pulses)


def _add(pulse: Floats, episode: Episode) -> None:
    seconds = np.arange(len(pulse))
    end = episode.start + episode.length
    ramp = max(1, episode.ramp)
    up = np.clip((seconds - episode.start + 1) / ramp, 0.0, 1.0)
    down = np.clip((end - seconds) / ramp, 0.0, 1.0)
    weight = np.minimum(up, down)
    pulse[:] = (1.0 - weight) * pulse + weight * (episode.rate + 0.3 * (pulse - pulse.mean()))


def readings(pulses: Floats) -> list[dict[str, float | int | str]]:
    """Patient after patient within each second."""
    return [
        {
            "number": second * PATIENTS + patient,
            "time": second + patient / PATIENTS,
            "patient": f"patient {patient}",
            "PulseRate": float(pulses[patient, second]),
        }
        for second in range(SECONDS)
        for patient in range(PATIENTS)
    ]


def received(batches: Sequence[Delivered]) -> NDArray[np.bool_]:
    """Which readings arrived: one row a patient, one column a second."""
    arrived = np.zeros((PATIENTS, SECONDS), np.bool_)
    for batch in batches:
        for event in batch.events:
            second, patient = divmod(int(event["number"]), PATIENTS)
            arrived[patient, second] = True
    return arrived


def held(pulses: Floats, arrived: NDArray[np.bool_]) -> Floats:
    """The last reading that arrived, at every second; NaN before the first."""
    places = np.where(arrived, np.arange(SECONDS), -1)
    last = np.maximum.accumulate(places, axis=1)
    values = np.take_along_axis(pulses, np.maximum(last, 0), axis=1)
    return np.where(last >= 0, values, np.nan)


def episodes_seen(pulses: Floats, arrived: NDArray[np.bool_]) -> float:
    """The share of the episodes of which at least one reading outside the range arrived."""
    outside = (pulses < LOW) | (pulses > HIGH)
    seen = [
        bool((outside & arrived)[e.patient, e.start : e.start + e.length].any()) for e in EPISODES
    ]
    return sum(seen) / len(seen)


def _seen_by_chance(pulses: Floats, seed: int) -> float:
    """The share of the episodes that random drop lets through, over many draws."""
    events = readings(pulses)
    drawn = (_delivered(events, True, seed + repeat) for repeat in range(REPEATS))
    return fmean(episodes_seen(pulses, received(batches)) for batches in drawn)


def _findings(
    pulses: Floats, runs: dict[str, list[Delivered]], seen_by_chance: float
) -> list[Finding]:
    findings = [
        Finding(f"random drop: episodes seen, mean of {REPEATS} draws", seen_by_chance),
    ]
    for name, batches in runs.items():
        arrived = received(batches)
        error = np.abs(held(pulses, arrived) - pulses)
        share = float(arrived.mean())
        findings += [
            Finding(f"{name}: readings received", share, note="the budget is 0.2"),
            Finding(f"{name}: episodes seen", episodes_seen(pulses, arrived)),
            Finding(f"{name}: mean error of the pulse held, beats/min", float(np.nanmean(error))),
            Finding(f"{name}: largest error, beats/min", float(np.nanmax(error))),
            Finding(f"{name}: time with an error above 10", float(np.nanmean(error > 10.0))),
        ]
    return findings


def _rows(pulses: Floats, runs: dict[str, list[Delivered]]) -> list[Row]:
    arrived = {name: received(batches) for name, batches in runs.items()}
    return [
        {
            "patient": patient,
            "second": second,
            "pulse": float(pulses[patient, second]),
            **{f"received, {name}": bool(got[patient, second]) for name, got in arrived.items()},
        }
        for patient in range(PATIENTS)
        for second in range(SECONDS)
    ]


def _draw(pulses: Floats, runs: dict[str, list[Delivered]], figure: Figure) -> None:
    figure.set_size_inches(10.0, 6.5)
    grid = figure.subplots(len(SHOWN), len(runs), sharex=True, sharey=True)
    for column, (name, batches) in enumerate(runs.items()):
        arrived = received(batches)
        for row, (patient, what) in enumerate(SHOWN.items()):
            axes = grid[row][column]
            _draw_patient(axes, pulses[patient], arrived[patient])
            axes.set_title(f"{what}: {arrived[patient].sum()} of {SECONDS} readings", fontsize=9)
        grid[0][column].set_title(
            f"{name.upper()}: {arrived.mean():.0%} of all readings received\n"
            + grid[0][column].get_title(),
            fontsize=10,
        )
        grid[-1][column].set_xlabel("seconds")
    for row in range(len(SHOWN)):
        grid[row][0].set_ylabel("pulse, beats/min")
    grid[0][0].set_ylim(30, 172)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)


def _draw_patient(axes: Axes, pulse: Floats, arrived: NDArray[np.bool_]) -> None:
    seconds = np.arange(SECONDS)
    axes.axhspan(LOW, HIGH, color=COLOURS[2], alpha=0.10, label="normal range")
    axes.plot(seconds, pulse, color="#999999", linewidth=2.2, label="measured")
    view = held(pulse[None, :], arrived[None, :])[0]
    axes.step(seconds, view, where="post", color=COLOURS[0], linewidth=0.9, label="receiver's view")
    axes.plot(
        seconds[arrived], pulse[arrived], ".", color=COLOURS[1], markersize=5, label="received"
    )
    axes.set_xlim(0, SECONDS)


def _delivered(
    events: Sequence[dict[str, float | int | str]], at_random: bool, seed: int
) -> list[Delivered]:
    policy = pulse_policy()
    return list(
        deliver(events, policy, KEEP_FRACTION, BATCH_SECONDS, at_random=at_random, seed=seed)
    )


def _run(request: Request, progress: Progress) -> Outcome:
    pulses = true_pulses(request.seed)
    events = readings(pulses)
    runs = {}
    for done, (name, at_random) in enumerate(WAYS.items()):
        progress(done, len(WAYS), name)
        runs[name] = _delivered(events, at_random, request.seed)
    findings = _findings(pulses, runs, _seen_by_chance(pulses, request.seed))
    return Outcome(_rows(pulses, runs), findings, partial(_draw, pulses, runs))


PULSE = Experiment(
    "pulse",
    "Patients' pulse rates under five times too much: a policy against random drop",
    "worked example after PACK (2004), figure 2",
    _run,
    simulated=True,
)
