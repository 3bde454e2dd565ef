"""PACK's Figure 8: a full queue in front of a slow link, drop-tail against packing.

Simulated in virtual time: an event every 30 ms, a link of 50 kbit/s, one queue. When an
event finds the queue full, drop-tail drops that event; packing reduces the queue by a
policy of three levels (RANDOM 10, 25, 50 %). The level comes from the paper's ladder, or
from ours, which is given a budget and packs once.

The paper does not say how large an event or the queue is. An event of 268 bytes makes
drop-tail lose 30 %, as in the paper; the queue of the figure holds 100 events, which is
our choice. The paper's ladder is run in two readings: its equations as printed, and with
the usual low-pass filter. Where either settles depends on the queue: the shorter it is,
the more a random drop varies from packing to packing, and the variation alone moves the
ladder. The sweep over queue lengths shows how far the paper's "most pack operations at
the second level" carries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from headgate.reduction import (
    BudgetLadder,
    Packing,
    PackingRequest,
    Policy,
    PolicyBuilder,
    TurnaroundLadder,
    TurnaroundSettings,
    make_room,
    reduce_to_budget,
    use,
)
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PACK_FIGURE_8", "Trace", "simulate"]

EVENT_SECONDS = 0.030
EVENT_BYTES = 268
LINK_BITS_PER_SECOND = 50_000.0
SEND_SECONDS = 8 * EVENT_BYTES / LINK_BITS_PER_SECOND
QUEUE_EVENTS = 100
SWEEP_EVENTS = (25, 50, 100, 200, 400)
BUDGET_EVENTS = 70  # 70 % of the queue: what the second level leaves fits
SECONDS = 600.0
QUICK_SECONDS = 150.0
WARM_SECONDS = 30.0  # the queue is full by then

PRINTED = TurnaroundSettings()
USUAL = TurnaroundSettings(alpha=0.9, smooth_first=False)

Pack = Callable[[list[dict[str, Any]], float, int], Packing]


@dataclass
class Trace:
    """What happened: per event sent its latency, per packing its level and ratio."""

    name: str
    sent: list[tuple[float, float]] = field(default_factory=list)  # seconds, latency
    packings: list[tuple[float, int, float]] = field(default_factory=list)  # level, ratio
    offered: int = 0
    lost: int = 0
    waiting: int = 0

    def latencies(self, after_seconds: float) -> list[float]:
        return [latency for time, latency in self.sent if time >= after_seconds]


def policy() -> Policy:
    builder = PolicyBuilder("figure 8", identity="number")
    for fraction in (0.1, 0.25, 0.5):
        builder.level(use("RANDOM", "drop", fraction=fraction))
    return builder.digest("COUNT").build()


def simulate(
    name: str, seconds: float, pack: Pack | None, queue_events: int = QUEUE_EVENTS
) -> Trace:
    """One run; without `pack` the event that finds the queue full is dropped."""
    trace = Trace(name)
    queue: list[dict[str, Any]] = []
    link_free_seconds = 0.0
    for number in range(int(seconds / EVENT_SECONDS)):
        now = number * EVENT_SECONDS
        sent = 0
        while sent < len(queue) and link_free_seconds + SEND_SECONDS <= now:
            link_free_seconds += SEND_SECONDS
            trace.sent.append((link_free_seconds, link_free_seconds - queue[sent]["created"]))
            sent += 1
        del queue[:sent]
        if not queue:
            link_free_seconds = max(link_free_seconds, now)
        trace.offered += 1
        if len(queue) >= queue_events:
            if pack is None:
                trace.lost += 1
                continue
            packing = pack(queue, now, len(trace.packings))
            queue = list(packing.kept)
            trace.lost += packing.digest.dropped
            trace.packings.append((now, packing.level, packing.dropped / packing.offered))
        queue.append({"number": number, "created": now})
    trace.waiting = len(queue)
    return trace


def paper_pack(seed: int, settings: TurnaroundSettings) -> Pack:
    reduction = policy()
    ladder = TurnaroundLadder(len(reduction.levels), settings)

    def pack(queue: list[dict[str, Any]], now: float, number: int) -> Packing:
        salt = seed * 1_000_000 + number
        return make_room(queue, reduction, ladder.choose(now), PackingRequest(salt=salt))

    return pack


def budget_pack(seed: int) -> Pack:
    reduction = policy()
    ladder = BudgetLadder(len(reduction.levels))

    def pack(queue: list[dict[str, Any]], now: float, number: int) -> Packing:
        del now
        level = ladder.choose(len(queue), BUDGET_EVENTS)
        request = PackingRequest(salt=seed * 1_000_000 + number)
        packing = reduce_to_budget(queue, reduction, BUDGET_EVENTS, level, request)
        ladder.observe(packing)
        return packing

    return pack


def _traces(request: Request) -> list[Callable[[float], Trace]]:
    runs: dict[str, Pack | None] = {
        "drop-tail": None,
        "ladder as printed": paper_pack(request.seed, PRINTED),
        "ladder, usual filter": paper_pack(request.seed, USUAL),
        "ladder by budget": budget_pack(request.seed),
    }
    return [partial(_simulated, name, pack) for name, pack in runs.items()]


def _simulated(name: str, pack: Pack | None, seconds: float) -> Trace:
    return simulate(name, seconds, pack)


def _rows(trace: Trace) -> list[Row]:
    """The latency of every event sent, and every packing."""
    sent: list[Row] = [
        {"run": trace.name, "seconds": time, "latency_seconds": latency}
        for time, latency in trace.sent
    ]
    packed: list[Row] = [
        {"run": trace.name, "seconds": time, "level": level, "dropped_share": ratio}
        for time, level, ratio in trace.packings
    ]
    return [*sent, *packed]


def level_share(trace: Trace, level: int) -> float:
    levels = Counter(packing_level for _, packing_level, _ in trace.packings)
    return levels[level] / max(1, len(trace.packings))


def loss_when_full(trace: Trace, seconds: float) -> float:
    """The share lost after the queue had filled: what arrived and was never sent."""
    arrived = (seconds - WARM_SECONDS) / EVENT_SECONDS
    return 1.0 - len(trace.latencies(WARM_SECONDS)) / arrived


def _findings(traces: Sequence[Trace], seconds: float) -> list[Finding]:
    tail, printed, usual, budget = traces
    mean = {t.name: fmean(t.latencies(WARM_SECONDS)) for t in traces}
    return [
        Finding("drop-tail: share lost when full", loss_when_full(tail, seconds), 0.30),
        Finding("drop-tail: mean latency, s", mean[tail.name], note="the paper: high, constant"),
        Finding("drop-tail: spread of the latency, s", pstdev(tail.latencies(WARM_SECONDS))),
        Finding(
            "ladder as printed: packings at level 2",
            level_share(printed, 2),
            note="the paper: most, at 0.325",
        ),
        Finding(
            "ladder as printed: mean share that level 2 dropped",
            fmean(ratio for _, level, ratio in printed.packings if level == 2),
            0.325,
        ),
        Finding("ladder as printed: mean latency, s", mean[printed.name], note="the paper: lower"),
        Finding("ladder as printed: share lost when full", loss_when_full(printed, seconds)),
        Finding(
            "ladder, usual filter: packings at level 2",
            level_share(usual, 2),
            note="random variation moves it; at level 3 a drop varies least",
        ),
        Finding("ladder, usual filter: mean latency, s", mean[usual.name]),
        Finding("ladder by budget: packings at level 2", level_share(budget, 2)),
        Finding("ladder by budget: mean latency, s", mean[budget.name]),
        Finding("ladder by budget: share lost when full", loss_when_full(budget, seconds)),
    ]


def _sweep(seed: int, seconds: float) -> list[Row]:
    """Where the paper's ladder spends its packings, by length of the queue and reading."""
    rows: list[Row] = []
    for queue_events in SWEEP_EVENTS:
        for name, settings in (("as printed", PRINTED), ("usual filter", USUAL)):
            trace = simulate(name, seconds, paper_pack(seed, settings), queue_events)
            shares = {f"level_{level}_share": level_share(trace, level) for level in (1, 2, 3)}
            run = f"sweep, {name}"
            rows.append({"run": run, "queue_events": queue_events, **shares})
    return rows


def _sweep_findings(rows: Sequence[Row]) -> list[Finding]:
    return [
        Finding(
            f"{row['run']}: packings at level 2, queue of {row['queue_events']}",
            row["level_2_share"],
            note="the paper: most; it does not give the length of its queue",
        )
        for row in rows
    ]


def _draw(traces: Sequence[Trace], figure: Figure) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    for trace, colour in zip(traces, COLOURS, strict=False):
        times, latencies = zip(*trace.sent, strict=True)
        above.plot(times, latencies, color=colour, linewidth=0.8, label=trace.name)
        if trace.packings:
            moments, _, ratios = zip(*trace.packings, strict=True)
            below.plot(moments, ratios, ".", color=colour, label=trace.name)
    above.set_ylabel("latency, s")
    above.legend(loc="lower right")
    below.axhline(0.325, color=COLOURS[-1], linewidth=0.8)
    below.set_ylabel("dropped share")
    below.set_xlabel("seconds")
    above.set_xlim(0.0, 150.0)


def _run(request: Request, progress: Progress) -> Outcome:
    seconds = QUICK_SECONDS if request.quick else SECONDS
    runs = _traces(request)
    traces = []
    for done, run in enumerate(runs):
        progress(done, len(runs), f"run {done + 1}")
        traces.append(run(seconds))
    sweep = _sweep(request.seed, seconds)
    rows = [*(row for trace in traces for row in _rows(trace)), *sweep]
    findings = [*_findings(traces, seconds), *_sweep_findings(sweep)]
    return Outcome(rows, findings, partial(_draw, traces))


PACK_FIGURE_8 = Experiment(
    "pack-figure-8",
    "A full queue in front of a slow link: drop-tail against packing",
    "PACK (2004), figure 8",
    _run,
    simulated=True,
)
