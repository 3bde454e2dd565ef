"""Positions of vehicles under five times too much: the newest of each against random drop.

Worked example. Generated: 100 vehicles on a street grid of 4 by 3 km for two minutes; 30
report five times a second, 60 once, 10 every five seconds. A receiver takes a fifth of
the reports, in batches of 3 s, and draws each vehicle where it was last reported. The
error is the distance between that place and where the vehicle is then.

A batch is delivered when it ends, so even a receiver that got everything would be late:
its error is given too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction import Policy, PolicyBuilder, use
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.receivers import Delivered, deliver

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["VEHICLES", "vehicle_policy"]

Floats: TypeAlias = NDArray[np.float64]

WIDTH_METRES, HEIGHT_METRES, BLOCK_METRES = 4000.0, 3000.0, 250.0
FLEET = ((30, 0.2), (60, 1.0), (10, 5.0))  # vehicles, seconds from report to report
TICK_SECONDS = 0.2
SECONDS = 120.0
WARM_SECONDS = 15.0
BATCH_SECONDS = 3.0
KEEP_FRACTION = 0.2
SHOWN_SECONDS = 61.0  # a third of the way from one delivery to the next
LINES = 8


def vehicle_policy() -> Policy:
    """The policy of examples/policies/vehicles.yaml."""
    return (
        PolicyBuilder(
            "vehicles",
            attribute="speed",
            group="vehicle",
            time="time",
            identity="number",
            digest_group="line",
        )
        .digest("COUNT")
        .digest("MEAN")
        .digest("QUANTILES", at=[0.5, 0.95])
        .level(use("OLDER_THAN", "drop", age="30s"))
        .level(use("LATEST_PER_KEY", "keep", window=3))
        .level(use("LATEST_PER_KEY", "keep"))
        .build()
    )


def drive(seed: int) -> tuple[Floats, Floats]:
    """Positions in metres (tick, vehicle, x and y) and speeds in metres a second."""
    rng = np.random.default_rng(seed)
    count = sum(vehicles for vehicles, _ in FLEET)
    speeds = rng.uniform(6.0, 15.0, count)
    edges = np.array([WIDTH_METRES, HEIGHT_METRES])
    place = np.floor(rng.random((count, 2)) * (edges / BLOCK_METRES - 1.0) + 1.0) * BLOCK_METRES
    heading = _headings(rng, count)
    left = rng.uniform(0.0, BLOCK_METRES, count)  # to the next crossing
    place = place - heading * left[:, None]
    ticks = round(SECONDS / TICK_SECONDS)
    track = np.empty((ticks, count, 2))
    for tick in range(ticks):
        track[tick] = place
        step = np.minimum(speeds * TICK_SECONDS, left)
        place = place + heading * step[:, None]
        left = left - step
        crossing = left <= 1e-9
        turned = np.where(rng.random(count)[:, None] < 0.6, heading, _headings(rng, count))
        ahead = place + turned * BLOCK_METRES
        outside = np.any((ahead < -1.0) | (ahead > edges + 1.0), axis=1)
        turned = np.where(outside[:, None], -heading, turned)
        heading = np.where(crossing[:, None], turned, heading)
        left = np.where(crossing, BLOCK_METRES, left)
    return track, speeds


def _headings(rng: np.random.Generator, count: int) -> Floats:
    ways = np.array([(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)])
    return ways[rng.integers(4, size=count)]


def reports(track: Floats, speeds: Floats) -> list[dict[str, Any]]:
    """What the vehicles send, in the order of time."""
    intervals = [seconds for vehicles, seconds in FLEET for _ in range(vehicles)]
    found: list[dict[str, Any]] = []
    for tick in range(len(track)):
        for vehicle, seconds in enumerate(intervals):
            every = round(seconds / TICK_SECONDS)
            if (tick + vehicle) % every == 0:
                found.append(
                    {
                        "number": len(found),
                        "time": tick * TICK_SECONDS,
                        "vehicle": vehicle,
                        "line": vehicle % LINES,
                        "speed": float(speeds[vehicle]),
                        "tick": tick,
                    }
                )
    return found


def believed(batches: Sequence[Delivered], track: Floats) -> Floats:
    """Where the receiver draws each vehicle at every tick; NaN before its first report."""
    ticks, count, _ = track.shape
    newest = np.full(count, -1)
    view = np.full(track.shape, np.nan)
    waiting = list(batches)
    for tick in range(ticks):
        while waiting and waiting[0].seconds <= tick * TICK_SECONDS:
            for event in waiting.pop(0).events:
                newest[event["vehicle"]] = max(newest[event["vehicle"]], event["tick"])
        known = newest >= 0
        view[tick, known] = track[newest[known], np.flatnonzero(known)]
    return view


def errors(view: Floats, track: Floats) -> Floats:
    """Metres, for every tick after the start and every vehicle."""
    warm = round(WARM_SECONDS / TICK_SECONDS)
    distance: Floats = np.linalg.norm(view - track, axis=2)[warm:]
    return distance


def _findings(track: Floats, views: dict[str, Floats], received: dict[str, float]) -> list[Finding]:
    findings = []
    for name, view in views.items():
        distance = errors(view, track)
        seen = distance[~np.isnan(distance)]
        findings += [
            Finding(f"{name}: reports received", received[name]),
            Finding(f"{name}: mean error, m", float(seen.mean())),
            Finding(f"{name}: error that 95 % stay below, m", float(np.percentile(seen, 95))),
            Finding(f"{name}: time with an error above 100 m", float((seen > 100.0).mean())),
        ]
    return findings


def _rows(track: Floats, views: dict[str, Floats]) -> list[Row]:
    """Once a second, for every vehicle."""
    every = round(1.0 / TICK_SECONDS)
    return [
        {
            "seconds": tick * TICK_SECONDS,
            "vehicle": vehicle,
            "x_metres": float(track[tick, vehicle, 0]),
            "y_metres": float(track[tick, vehicle, 1]),
            **{
                f"error_metres, {name}": float(np.linalg.norm(view[tick, vehicle] - here))
                for name, view in views.items()
            },
        }
        for tick in range(0, len(track), every)
        for vehicle, here in enumerate(track[tick])
    ]


def _draw(track: Floats, views: dict[str, Floats], figure: Figure) -> None:
    figure.set_size_inches(10.0, 7.0)
    grid = figure.add_gridspec(2, 2, height_ratios=(2.2, 1.0))
    tick = round(SHOWN_SECONDS / TICK_SECONDS)
    first = None
    for column, name in enumerate(("policy", "random drop")):
        axes = figure.add_subplot(grid[0, column], sharex=first, sharey=first)
        first = first or axes
        _draw_map(axes, views[name][tick], track[tick])
        mean = np.nanmean(np.linalg.norm(views[name][tick] - track[tick], axis=1))
        axes.set_title(
            f"{name.upper()}, at second {SHOWN_SECONDS:.0f}: {mean:.0f} m off on average"
        )
        axes.set_xlabel("km")
        axes.set_ylabel("km" if column == 0 else "")
        if column == 0:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    _draw_course(figure.add_subplot(grid[1, :]), track, views)


def _draw_course(axes: Axes, track: Floats, views: dict[str, Floats]) -> None:
    seconds = np.arange(len(track)) * TICK_SECONDS
    warm = seconds >= WARM_SECONDS
    looks: dict[str, dict[str, Any]] = {
        "everything": {"color": "#BBBBBB", "linewidth": 5.0, "label": "everything received"},
        "random drop": {"color": COLOURS[1], "label": "random drop"},
        "policy": {"color": COLOURS[0], "label": "policy"},
    }
    for name, look in looks.items():
        mean = np.nanmean(np.linalg.norm(views[name] - track, axis=2)[warm], axis=1)
        axes.plot(seconds[warm], mean, **look)
    axes.set_xlim(WARM_SECONDS, SECONDS)
    axes.set_ylim(0.0, 110.0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("mean error, m")
    axes.legend(loc="upper center", ncols=3, fontsize="small")


def _draw_map(axes: Axes, view: Floats, here: Floats) -> None:
    for x in np.arange(0.0, WIDTH_METRES + 1.0, BLOCK_METRES):
        axes.plot([x / 1e3] * 2, [0.0, HEIGHT_METRES / 1e3], color="#E4E4E4", linewidth=1, zorder=0)
    for y in np.arange(0.0, HEIGHT_METRES + 1.0, BLOCK_METRES):
        axes.plot([0.0, WIDTH_METRES / 1e3], [y / 1e3] * 2, color="#E4E4E4", linewidth=1, zorder=0)
    pairs = np.stack([view, here], axis=1) / 1e3
    for pair in pairs:
        axes.plot(pair[:, 0], pair[:, 1], color=COLOURS[1], linewidth=1.5, zorder=1)
    axes.plot([], [], color=COLOURS[1], linewidth=1.5, label="error")
    truth, drawn = here / 1e3, view / 1e3
    axes.plot(
        truth[:, 0],
        truth[:, 1],
        "o",
        markersize=6,
        markerfacecolor="none",
        markeredgecolor="#555555",
        label="where the vehicle is",
    )
    axes.plot(
        drawn[:, 0], drawn[:, 1], ".", markersize=5, color=COLOURS[0], label="where it is drawn"
    )
    axes.set_aspect("equal")
    axes.set_xlim(-0.1, WIDTH_METRES / 1e3 + 0.1)
    axes.set_ylim(-0.1, HEIGHT_METRES / 1e3 + 0.1)


def _run(request: Request, progress: Progress) -> Outcome:
    track, speeds = drive(request.seed)
    events = reports(track, speeds)
    views, received = {}, {}
    ways = {"policy": (KEEP_FRACTION, False), "random drop": (KEEP_FRACTION, True)}
    ways["everything"] = (1.0, False)
    for done, (name, (keep, at_random)) in enumerate(ways.items()):
        progress(done, len(ways), name)
        batches = list(
            deliver(
                events,
                vehicle_policy(),
                keep,
                BATCH_SECONDS,
                at_random=at_random,
                seed=request.seed,
            )
        )
        views[name] = believed(batches, track)
        received[name] = sum(len(batch.events) for batch in batches) / len(events)
    rows, findings = _rows(track, views), _findings(track, views, received)
    return Outcome(rows, findings, partial(_draw, track, views))


VEHICLES = Experiment(
    "vehicles",
    "Positions of vehicles under five times too much: the newest of each against random drop",
    "worked example, ours",
    _run,
    simulated=True,
)
