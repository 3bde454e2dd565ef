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

from collections.abc import Sequence
from functools import partial
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from headgate.reduction import Policy, PolicyBuilder, TurnaroundSettings, use
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.simulation.packed_queue import (
    BudgetPacker,
    Packer,
    QueueTrace,
    TurnaroundPacker,
    run_queue,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PACK_FIGURE_8", "loss_when_full", "over_the_link", "policy"]

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


def policy() -> Policy:
    builder = PolicyBuilder("figure 8", identity="number")
    for fraction in (0.1, 0.25, 0.5):
        builder.level(use("RANDOM", "drop", fraction=fraction))
    return builder.digest("COUNT").build()


def over_the_link(
    seconds: float, packer: Packer | None, queue_events: int = QUEUE_EVENTS
) -> QueueTrace:
    """One run; without a packer the event that finds the queue full is dropped."""
    times = (number * EVENT_SECONDS for number in range(int(seconds / EVENT_SECONDS)))
    events = ((time, {"number": number}) for number, time in enumerate(times))
    return run_queue(events, queue_events, lambda _event, _start: SEND_SECONDS, packer)


def _packers(seed: int) -> dict[str, Packer | None]:
    return {
        "drop-tail": None,
        "ladder as printed": TurnaroundPacker(policy(), PRINTED, seed),
        "ladder, usual filter": TurnaroundPacker(policy(), USUAL, seed),
        "ladder by budget": BudgetPacker(policy(), BUDGET_EVENTS, seed=seed),
    }


def _rows(name: str, trace: QueueTrace) -> list[Row]:
    """The latency of every event sent, and every packing."""
    sent: list[Row] = [
        {"run": name, "seconds": time, "latency_seconds": latency} for time, latency in trace.served
    ]
    packed: list[Row] = [
        {
            "run": name,
            "seconds": packed.seconds,
            "level": packed.packing.level,
            "dropped_share": packed.dropped_share,
        }
        for packed in trace.packings
    ]
    return [*sent, *packed]


def loss_when_full(trace: QueueTrace, seconds: float) -> float:
    """The share lost after the queue had filled: what arrived and was never sent."""
    arrived = (seconds - WARM_SECONDS) / EVENT_SECONDS
    return 1.0 - len(trace.latencies(WARM_SECONDS)) / arrived


def _findings(traces: Sequence[QueueTrace], seconds: float) -> list[Finding]:
    tail, printed, usual, budget = traces
    tail_mean, printed_mean, usual_mean, budget_mean = (
        fmean(trace.latencies(WARM_SECONDS)) for trace in traces
    )
    return [
        Finding("drop-tail: share lost when full", loss_when_full(tail, seconds), 0.30),
        Finding("drop-tail: mean latency, s", tail_mean, note="the paper: high, constant"),
        Finding("drop-tail: spread of the latency, s", pstdev(tail.latencies(WARM_SECONDS))),
        Finding(
            "ladder as printed: packings at level 2",
            printed.level_share(2),
            note="the paper: most, at 0.325",
        ),
        Finding(
            "ladder as printed: mean share that level 2 dropped",
            fmean(p.dropped_share for p in printed.packings if p.packing.level == 2),
            0.325,
        ),
        Finding("ladder as printed: mean latency, s", printed_mean, note="the paper: lower"),
        Finding("ladder as printed: share lost when full", loss_when_full(printed, seconds)),
        Finding(
            "ladder, usual filter: packings at level 2",
            usual.level_share(2),
            note="random variation moves it; at level 3 a drop varies least",
        ),
        Finding("ladder, usual filter: mean latency, s", usual_mean),
        Finding("ladder by budget: packings at level 2", budget.level_share(2)),
        Finding("ladder by budget: mean latency, s", budget_mean),
        Finding("ladder by budget: share lost when full", loss_when_full(budget, seconds)),
    ]


def _sweep(seed: int, seconds: float) -> list[Row]:
    """Where the paper's ladder spends its packings, by length of the queue and reading."""
    rows: list[Row] = []
    for queue_events in SWEEP_EVENTS:
        for name, settings in (("as printed", PRINTED), ("usual filter", USUAL)):
            packer = TurnaroundPacker(policy(), settings, seed)
            trace = over_the_link(seconds, packer, queue_events)
            shares = {f"level_{level}_share": trace.level_share(level) for level in (1, 2, 3)}
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


def _draw(traces: dict[str, QueueTrace], figure: Figure) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    for (name, trace), colour in zip(traces.items(), COLOURS, strict=False):
        times, latencies = zip(*trace.served, strict=True)
        above.plot(times, latencies, color=colour, linewidth=0.8, label=name)
        if trace.packings:
            moments = [packed.seconds for packed in trace.packings]
            shares = [packed.dropped_share for packed in trace.packings]
            below.plot(moments, shares, ".", color=colour, label=name)
    above.set_ylabel("latency, s")
    above.legend(loc="lower right")
    below.axhline(0.325, color=COLOURS[-1], linewidth=0.8)
    below.set_ylabel("dropped share")
    below.set_xlabel("seconds")
    above.set_xlim(0.0, 150.0)


def _run(request: Request, progress: Progress) -> Outcome:
    seconds = QUICK_SECONDS if request.quick else SECONDS
    packers = _packers(request.seed)
    traces = {}
    for done, (name, packer) in enumerate(packers.items()):
        progress(done, len(packers), name)
        traces[name] = over_the_link(seconds, packer)
    sweep = _sweep(request.seed, seconds)
    rows = [*(row for name, trace in traces.items() for row in _rows(name, trace)), *sweep]
    findings = [*_findings(list(traces.values()), seconds), *_sweep_findings(sweep)]
    return Outcome(rows, findings, partial(_draw, traces))


PACK_FIGURE_8 = Experiment(
    "pack-figure-8",
    "A full queue in front of a slow link: drop-tail against packing",
    "PACK (2004), figure 8",
    _run,
    simulated=True,
)
