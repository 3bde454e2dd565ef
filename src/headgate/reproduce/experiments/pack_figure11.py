"""PACK's Figure 11: the six-level policy of the MAC/IP locator on a campus syslog.

Simulated in virtual time: a generated log of an hour (`campus_log`), one queue in front
of the locator (`locator`), packed by the paper's policy when it is full, at the level of
the paper's ladder.

Calibrated, since the paper does not give it: the length of the queue (250 events), the
time of an access point's answer (median 0.6 s, at most 60 s), and the rates of the log.
They were chosen by hand so that the number of packings, their turnaround time and the
longest latency come near the paper's. Not calibrated: what each filter drops follows from
what devices do, and how packings spread over the levels from the ladder.

The reading of the ladder. The equations in the order of print, where the smoothed value
already holds the new observation, hardly ever move down: nearly all packings are at the
three highest levels, which is not what the paper's figure shows. Compared with the value before
the observation, and smoothed as printed, every level is used about as often. That is the
reading of this figure. Figure 8 speaks for the order of print; see `pack_figure8`.

The FIRST filter is taken at the paper's word: of all departures in the queue the first
stays. One for each device (`group: client`) is run beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

from headgate.reduction import FilterCount, Policy, PolicyBuilder, TurnaroundSettings, use
from headgate.reproduce.campus_log import ASSOCIATIONS, DEPARTURES, Message, campus_log
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.pack_figure8 import PRINTED, USUAL
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.locator import AccessPoints, Locator
from headgate.simulation.packed_queue import QueueTrace, TurnaroundPacker, run_queue

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PACK_FIGURE_11", "LocatorRun", "run_locator", "syslog_policy"]

QUEUE_EVENTS = 250
SECONDS = 3600.0
QUICK_SECONDS = 900.0
PAPER_PACKINGS = 304
PAPER_FEWEST, PAPER_MOST = 31, 61
PAPER_MEDIAN_SECONDS = 11.0
PAPER_LONGEST_SECONDS = 84.0
LEVELS = range(1, 7)

COMPARED_BEFORE = TurnaroundSettings(smooth_first=False)
READINGS = {
    "compared with the value before": COMPARED_BEFORE,
    "as printed": PRINTED,
    "usual filter": USUAL,
}


def syslog_policy(departures_per: str | None = None) -> Policy:
    """The policy of examples/policies/syslog.yaml; `departures_per` groups FIRST."""
    grouped = {} if departures_per is None else {"group": departures_per}
    texts = dict.fromkeys(("type", "action", "host", "client", "ap"), "text")
    departures = list(DEPARTURES)
    return (
        PolicyBuilder("syslog", attributes=texts)
        .digest("COUNT")
        .digest("FREQUENT", attribute="action")
        .digest("DISTINCT", attribute="client")
        .level(use("EQ", "keep", attribute="type", value="Info"))
        .level(use("INSET", "drop", attribute="action", values=["Authenticated", "Roamed"]))
        .level(use("MATCH", "drop", attribute="host", pattern="^ap-"))
        .level(use("FIRST", "keep", attribute="action", values=departures, **grouped))
        .level(use("GUNIQ", "keep", attribute="ap"))
        .level(use("EVERY", "drop", count=3))
        .build()
    )


@dataclass(frozen=True)
class LocatorRun:
    """One run over a log: the locator with what it knows, and the trace of its queue."""

    name: str
    locator: Locator
    trace: QueueTrace

    def counts(self, level: int) -> list[FilterCount]:
        """What the filter of a level did, packing by packing."""
        counts = (count for packed in self.trace.packings for count in packed.packing.counts)
        return [count for count in counts if count.level == level]

    def packing_ratios(self, level: int) -> list[float]:
        return [count.dropped / count.offered for count in self.counts(level) if count.offered]

    def discarded_share(self, *levels: int) -> float:
        """Of all that the policy discarded, the share that these filters did."""
        gone = {level: sum(count.dropped for count in self.counts(level)) for level in LEVELS}
        return sum(gone[level] for level in levels) / max(1, sum(gone.values()))

    def turnarounds(self) -> list[float]:
        found = (packed.turnaround_seconds for packed in self.trace.packings)
        return [seconds for seconds in found if seconds is not None]


def run_locator(
    name: str,
    log: Sequence[Message],
    policy: Policy | None,
    settings: TurnaroundSettings,
    seed: int,
) -> LocatorRun:
    """The log through the queue to the locator; without a policy drop-tail."""
    locator = Locator(AccessPoints(log, seed=seed))
    packer = None if policy is None else TurnaroundPacker(policy, settings, seed)
    events = ((float(message["time"]), message) for message in log)
    return LocatorRun(name, locator, run_queue(events, QUEUE_EVENTS, locator.serve, packer))


def _beside(what: str, ours: float, paper: float, why: str) -> Finding:
    """Beside the paper's number, with the reason where they differ by more than a fifth."""
    return Finding(what, ours, paper, why if abs(ours - paper) > 0.2 * paper else "")


def _findings(runs: Sequence[LocatorRun], log: Sequence[Message], hours: float) -> list[Finding]:
    paper, printed, usual, grouped, tail = runs
    levels = paper.trace.level_counts()
    by_level = [levels[level] / hours for level in LEVELS]
    chance = "the ladder moves by chance from level to level; other seeds give other counts"
    short = "calibrated for an hour; a shorter run has fewer of the long waits"
    associations = {message["number"] for message in log if message["action"] in ASSOCIATIONS}
    return [
        _beside("packings in an hour", len(paper.trace.packings) / hours, PAPER_PACKINGS, chance),
        _beside("packings at the level used least, an hour", min(by_level), PAPER_FEWEST, chance),
        _beside("packings at the level used most, an hour", max(by_level), PAPER_MOST, chance),
        _beside(
            "median time between packings, s",
            median(paper.turnarounds()),
            PAPER_MEDIAN_SECONDS,
            chance,
        ),
        _beside(
            "longest latency, s",
            max(paper.locator.resolved.values()),
            PAPER_LONGEST_SECONDS,
            short,
        ),
        Finding(
            "share of the discarded that filters 2 and 4 took",
            paper.discarded_share(2, 4),
            note="the paper: most",
        ),
        *(
            Finding(
                f"filter {level}: mean packing ratio",
                fmean(paper.packing_ratios(level)),
                note={6: "one in three, by its definition"}.get(
                    level, "the paper: much" if level in (2, 4) else "the paper: not much"
                ),
            )
            for level in LEVELS
        ),
        *_reading_findings((paper, printed, usual)),
        Finding(
            "FIRST for each device: mean packing ratio of filter 4",
            fmean(grouped.packing_ratios(4)),
            note="the paper's 'the first event whose action is any of the four' fits better",
        ),
        Finding(
            "associations that were located",
            len(associations & paper.locator.resolved.keys()) / len(associations),
            note="the policy; not in the paper",
        ),
        Finding(
            "associations that were located, drop-tail",
            len(associations & tail.locator.resolved.keys()) / len(associations),
            note="asking takes the time: to take in a useless message costs 10 ms, so a policy "
            "that spares them gains little here",
        ),
    ]


def _reading_findings(runs: Sequence[LocatorRun]) -> list[Finding]:
    """How each reading of the ladder spreads; 31 to 61 of 304 at a level is 0.3 to 0.6 at three."""
    return [
        Finding(
            f"ladder, {run.name}: packings at levels 1 to 3",
            sum(run.trace.level_share(level) for level in (1, 2, 3)),
            note="the paper: 0.3 to 0.6",
        )
        for run in runs
    ]


def _rows(run: LocatorRun) -> list[Row]:
    rows: list[Row] = []
    for packed in run.trace.packings:
        row: dict[str, float | int | str | None] = {
            "run": run.name,
            "seconds": packed.seconds,
            "turnaround_seconds": packed.turnaround_seconds,
            "level": packed.packing.level,
        }
        for count in packed.packing.counts:
            row[f"filter_{count.level}_offered"] = count.offered
            row[f"filter_{count.level}_dropped"] = count.dropped
        rows.append(row)
    located: list[Row] = [
        {"run": run.name, "message": number, "latency_seconds": latency}
        for number, latency in run.locator.resolved.items()
    ]
    return [*rows, *located]


def _draw(run: LocatorRun, hours: float, figure: Figure) -> None:
    figure.set_size_inches(9.0, 6.5)
    (levels, ratios), (turnaround, latency) = figure.subplots(2, 2)
    counts = run.trace.level_counts()
    levels.axhspan(PAPER_FEWEST, PAPER_MOST, color=COLOURS[-1], alpha=0.15, label="the paper")
    heights = [counts[level] / hours for level in LEVELS]
    levels.bar(list(LEVELS), heights, color=COLOURS[0], width=0.6, label="ours")
    levels.set_xlabel("level")
    levels.set_ylabel("packings in an hour")
    levels.set_ylim(0.0, 1.3 * max(*heights, PAPER_MOST))
    levels.legend(loc="upper right", ncols=2)
    ratios.boxplot([run.packing_ratios(level) for level in LEVELS], widths=0.6, sym=".")
    ratios.set_xlabel("filter")
    ratios.set_ylabel("packing ratio")
    ratios.set_ylim(0.0, 1.0)
    _draw_distribution(turnaround, run.turnarounds(), "time between packings, s")
    turnaround.axvline(PAPER_MEDIAN_SECONDS, color=COLOURS[1], linestyle="--")
    turnaround.annotate("the paper's median", (PAPER_MEDIAN_SECONDS, 0.1), (4, 0), **_BESIDE)
    _draw_distribution(latency, list(run.locator.resolved.values()), "latency of a location, s")
    latency.set_xlim(right=1.1 * PAPER_LONGEST_SECONDS)
    latency.axvline(PAPER_LONGEST_SECONDS, color=COLOURS[1], linestyle="--")
    latency.annotate(
        "the paper's\nlongest", (PAPER_LONGEST_SECONDS, 0.1), (-4, 0), ha="right", **_BESIDE
    )


_BESIDE = {"textcoords": "offset points", "fontsize": "small", "color": COLOURS[1]}


def _draw_distribution(axes: Axes, values: Sequence[float], title: str) -> None:
    ordered = np.sort(np.array(values))
    axes.plot(ordered, np.arange(1, len(ordered) + 1) / len(ordered), color=COLOURS[0])
    axes.set_xlabel(title)
    axes.set_ylabel("share at or below")
    axes.set_xlim(0.0, 1.1 * float(np.percentile(ordered, 99.5)))
    axes.set_ylim(0.0, 1.02)


def _run(request: Request, progress: Progress) -> Outcome:
    seconds = QUICK_SECONDS if request.quick else SECONDS
    progress(0, 6, "the log")
    log = campus_log(seconds, seed=request.seed)
    runs = []
    for done, (name, settings) in enumerate(READINGS.items(), start=1):
        progress(done, 6, name)
        runs.append(run_locator(name, log, syslog_policy(), settings, request.seed))
    progress(4, 6, "first of each device")
    per_device = syslog_policy(departures_per="client")
    first = "first of each device"
    runs.append(run_locator(first, log, per_device, COMPARED_BEFORE, request.seed))
    progress(5, 6, "drop-tail")
    runs.append(run_locator("drop-tail", log, None, COMPARED_BEFORE, request.seed))
    hours = seconds / 3600.0
    rows = [row for run in runs for row in _rows(run)]
    return Outcome(rows, _findings(runs, log, hours), partial(_draw, runs[0], hours))


PACK_FIGURE_11 = Experiment(
    "pack-figure-11",
    "The six-level policy of the MAC/IP locator on a campus syslog",
    "PACK (2004), figure 11",
    _run,
    simulated=True,
)
