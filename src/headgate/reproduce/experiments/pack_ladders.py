"""The paper's ladder against ours, on the link of PACK's Figure 8.

Simulated in virtual time. Three rules choose the level at which a full queue is packed:
the paper's turnaround ladder in two readings (equations as printed, usual low-pass
filter), and ours, which is given a budget and picks the lowest level that should fit it.
Its budget is 70 % of the queue unless a sweep says otherwise. Two loads: the figure's
steady one, and one that changes every minute, up to three times what the link can send.

What to look at. Every rule loses what the link cannot send, and little more. They differ
in the latency of what gets through, in which level the lost events went at (the third
level stands for what an application would rather keep), in how steady they are, and in
the work: how many events the filters look at for each event that arrives. Our rule has a
knob, its budget: a smaller one means a lower latency and fewer, harder packings. The
paper's has none. The sweep over budgets shows what the knob buys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.pack_figure8 import (
    EVENT_SECONDS,
    PRINTED,
    QUEUE_EVENTS,
    SEND_SECONDS,
    SWEEP_EVENTS,
    USUAL,
    policy,
)
from headgate.reproduce.figures import COLOURS
from headgate.simulation.packed_queue import (
    BudgetPacker,
    Packer,
    QueueTrace,
    TurnaroundPacker,
    run_queue,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LADDERS", "PACK_LADDERS", "Measured", "measure"]

BUDGET_SHARE = 0.7
BUDGET_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LABELLED_SHARES = (0.3, 0.6, 0.7, 0.8, 0.9)  # those between would overlap
STEP_SECONDS = 60.0
CHANGING = (0.030, 0.015, 0.035, 0.020)  # seconds from event to event, one after the other
STEADY = (EVENT_SECONDS,)
LOADS = {"steady": STEADY, "changing": CHANGING}
SECONDS = 480.0
QUICK_SECONDS = 240.0
SEEDS = 3

LADDERS: dict[str, Callable[[int, int], Packer]] = {
    "turnaround, as printed": lambda seed, _: TurnaroundPacker(policy(), PRINTED, seed),
    "turnaround, usual filter": lambda seed, _: TurnaroundPacker(policy(), USUAL, seed),
    "budget": lambda seed, events: BudgetPacker(policy(), int(BUDGET_SHARE * events), seed=seed),
}


def arrivals(
    gaps_seconds: Sequence[float], seconds: float
) -> Iterator[tuple[float, dict[str, int]]]:
    """An event after each gap; every minute the next gap counts."""
    now, number = 0.0, 0
    while now < seconds:
        yield now, {"number": number}
        now += gaps_seconds[int(now / STEP_SECONDS) % len(gaps_seconds)]
        number += 1


@dataclass(frozen=True, slots=True)
class Measured:
    """One run in a few numbers.

    lost_at_level_3: the share of all events that the third level took, or the rest at random.
    idle_share:      of the link's time; capacity given away.
    looks_per_event: events that filters looked at, for each event that arrived.
    moves_share:     of the packings, how many were at another level than the one before.
    """

    lost_share: float
    lost_at_level_3: float
    idle_share: float
    mean_latency_seconds: float
    high_latency_seconds: float
    packings_per_minute: float
    looks_per_event: float
    moves_share: float

    def as_row(self) -> dict[str, float]:
        return {name: float(getattr(self, name)) for name in self.__slots__}


def measure(trace: QueueTrace, seconds: float) -> Measured:
    latencies = np.array(trace.latencies())
    levels = [packed.packing.level for packed in trace.packings]
    moves = sum(a != b for a, b in pairwise(levels))
    counts = [count for packed in trace.packings for count in packed.packing.counts]
    hard = sum(count.dropped for count in counts if count.level == len(policy().levels))
    hard += sum(packed.packing.at_random for packed in trace.packings)
    return Measured(
        trace.lost / trace.offered,
        hard / trace.offered,
        max(0.0, 1.0 - trace.busy_seconds / seconds),
        float(latencies.mean()),
        float(np.percentile(latencies, 99)),
        60.0 * len(trace.packings) / seconds,
        sum(count.offered for count in counts) / trace.offered,
        moves / max(1, len(levels) - 1),
    )


def _trace(packer: Packer, load: str, queue_events: int, seconds: float) -> QueueTrace:
    events = arrivals(LOADS[load], seconds)
    return run_queue(events, queue_events, lambda _event, _start: SEND_SECONDS, packer)


def _rows(request: Request, seconds: float, progress: Progress) -> list[Row]:
    """Every ladder by load and length of the queue; then ours by budget."""
    seeds = range(request.seed, request.seed + (1 if request.quick else SEEDS))
    cases = [(load, size, ladder) for load in LOADS for size in SWEEP_EVENTS for ladder in LADDERS]
    total = len(cases) + len(BUDGET_SHARES)
    rows: list[Row] = []
    for done, (load, size, ladder) in enumerate(cases):
        progress(done, total, f"{ladder}, {load}, queue of {size}")
        for seed in seeds:
            trace = _trace(LADDERS[ladder](seed, size), load, size, seconds)
            case: Row = {"ladder": ladder, "load": load, "queue_events": size, "seed": seed}
            rows.append({**case, **measure(trace, seconds).as_row()})
    for done, share in enumerate(BUDGET_SHARES):
        progress(len(cases) + done, total, f"budget of {share:.0%}")
        for seed in seeds:
            packer = BudgetPacker(policy(), int(share * QUEUE_EVENTS), seed=seed)
            trace = _trace(packer, "changing", QUEUE_EVENTS, seconds)
            case = {"ladder": "budget sweep", "load": "changing", "queue_events": QUEUE_EVENTS}
            numbers = {"seed": seed, "budget_share": share, **measure(trace, seconds).as_row()}
            rows.append({**case, **numbers})
    return rows


def _mean(rows: Sequence[Row], column: str, **wanted: object) -> float:
    found = [row[column] for row in rows if all(row.get(k) == v for k, v in wanted.items())]
    return fmean(float(value or 0.0) for value in found)


def _findings(rows: Sequence[Row]) -> list[Finding]:
    wanted = {
        "mean_latency_seconds": "mean latency, s",
        "high_latency_seconds": "99 % latency, s",
        "lost_share": "share lost",
        "lost_at_level_3": "share lost at the third level or at random",
        "looks_per_event": "events looked at for each that arrives",
        "moves_share": "packings at another level than before",
    }
    by_ladder = [
        Finding(
            f"{load} load, {ladder}: {title}",
            _mean(rows, column, load=load, ladder=ladder, queue_events=QUEUE_EVENTS),
        )
        for load in LOADS
        for column, title in wanted.items()
        for ladder in LADDERS
    ]
    by_budget = [
        Finding(
            f"changing load, budget of {share:.0%} of the queue: {wanted[column]}",
            _mean(rows, column, ladder="budget sweep", budget_share=share),
        )
        for share in (BUDGET_SHARES[0], BUDGET_SHARES[2], BUDGET_SHARES[-1])
        for column in ("mean_latency_seconds", "looks_per_event", "lost_at_level_3")
    ]
    return [*by_ladder, *by_budget]


def _draw(traces: dict[str, QueueTrace], rows: Sequence[Row], figure: Figure) -> None:
    figure.set_size_inches(9.0, 7.0)
    grid = figure.add_gridspec(3, 2, height_ratios=(1.0, 1.0, 1.1))
    latency = figure.add_subplot(grid[0, :])
    dropped = figure.add_subplot(grid[1, :], sharex=latency)
    for (name, trace), colour in zip(traces.items(), COLOURS, strict=False):
        times, latencies = zip(*trace.served, strict=True)
        latency.plot(times, latencies, color=colour, linewidth=0.9, label=name)
        moments = [packed.seconds for packed in trace.packings]
        shares = [packed.dropped_share for packed in trace.packings]
        dropped.plot(moments, shares, ".", markersize=4, color=colour)
    latency.set_ylabel("latency, s")
    latency.set_ylim(0.0, 4.6)
    latency.legend(loc="lower center", ncols=3, fontsize="small")
    latency.set_title("A load that changes every 60 s, queue of 100 events", fontsize="medium")
    dropped.set_ylabel("dropped at a packing")
    dropped.set_xlabel("seconds")
    dropped.set_ylim(0.0, 0.8)
    _draw_sizes(figure.add_subplot(grid[2, 0]), rows)
    _draw_budgets(figure.add_subplot(grid[2, 1]), rows)


def _draw_sizes(axes: Axes, rows: Sequence[Row]) -> None:
    for name, colour in zip(LADDERS, COLOURS, strict=False):
        values = [
            _mean(rows, "lost_at_level_3", load="changing", ladder=name, queue_events=size)
            for size in SWEEP_EVENTS
        ]
        axes.plot(SWEEP_EVENTS, values, "o-", markersize=4, color=colour)
    axes.set_xscale("log", base=2)
    axes.set_xticks(SWEEP_EVENTS, [str(size) for size in SWEEP_EVENTS])
    axes.set_xlabel("queue, events")
    axes.set_ylabel("lost at the third level\nor at random, share")
    axes.set_ylim(bottom=0.0)


def _draw_budgets(axes: Axes, rows: Sequence[Row]) -> None:
    columns = ("looks_per_event", "mean_latency_seconds")
    points = [
        [_mean(rows, column, ladder="budget sweep", budget_share=share) for column in columns]
        for share in BUDGET_SHARES
    ]
    colours = dict(zip(LADDERS, COLOURS, strict=False))
    axes.plot(*zip(*points, strict=True), "o-", markersize=4, color=colours["budget"])
    for share, (x, y) in zip(BUDGET_SHARES, points, strict=True):
        if share in LABELLED_SHARES:
            axes.annotate(f"{share:.0%}", (x, y), (3, -12), textcoords="offset points", fontsize=7)
    for name in list(LADDERS)[:2]:
        wanted = {"load": "changing", "ladder": name, "queue_events": QUEUE_EVENTS}
        x, y = (_mean(rows, column, **wanted) for column in columns)
        axes.plot([x], [y], "s", color=colours[name])
    axes.set_xlabel("events looked at for each that arrives (labels: budget)")
    axes.set_ylabel("mean latency, s")
    axes.set_xlim(0.0, 1.15 * max(x for x, _ in points))
    axes.set_ylim(0.0, 1.1 * max(y for _, y in points))


def _run(request: Request, progress: Progress) -> Outcome:
    seconds = QUICK_SECONDS if request.quick else SECONDS
    rows = _rows(request, seconds, progress)
    shown = {
        ladder: _trace(packer(request.seed, QUEUE_EVENTS), "changing", QUEUE_EVENTS, QUICK_SECONDS)
        for ladder, packer in LADDERS.items()
    }
    return Outcome(rows, _findings(rows), partial(_draw, shown, rows))


PACK_LADDERS = Experiment(
    "pack-ladders",
    "The level by turnaround time against the level by budget",
    "ours, on the link of PACK (2004), figure 8",
    _run,
    simulated=True,
)
