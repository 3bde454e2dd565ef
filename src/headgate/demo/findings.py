"""The recording in a few numbers and sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.demo.recording import WITH, WITHOUT, Batch, Recording, Run
from headgate.demo.scenario import Scenario

__all__ = ["Findings", "Side", "find", "headline", "ledger_sentence"]

_FASTER = 1.5  # times the measured capacity: then that was another machine
_DIVERGED = 1.5  # times the target
_SETTLED_SHARE = 0.4  # the first part of the crowd is left out: the controller has to notice it


@dataclass(frozen=True, slots=True)
class Side:
    """One run in numbers. None where no batch says anything.

    settled_latency_seconds: mean over the rows of the crowd, its first 40 % left out.
    last_latency_seconds:    mean of the last batch.
    waiting_at_end:          rows that had arrived and were in no finished batch.
    crowd_rows_per_second:   rows that were processed to the end, per second of the crowd's batches.
    """

    settled_latency_seconds: float | None
    worst_latency_seconds: float | None
    last_latency_seconds: float | None
    offered: int
    kept: int
    dropped: int
    waiting_at_end: int
    crowd_rows_per_second: float | None

    @property
    def kept_share(self) -> float:
        return self.kept / self.offered if self.offered else 1.0


@dataclass(frozen=True, slots=True)
class Findings:
    """Both sides, as far as they ran.

    ledger_balances: every row of the ledger is offered = kept + dropped, and offered is what
                     Spark's own source counted; None without a ledger.
    doubts:          why the run does not show what it is meant to show; empty if it does.
    """

    with_headgate: Side | None
    without: Side | None
    ledger_balances: bool | None
    doubts: tuple[str, ...] = ()


def find(recording: Recording) -> Findings:
    """The numbers of a recording whose scenario is known."""
    scenario = recording.scenario
    if scenario is None:
        return Findings(None, None, None)
    runs = recording.runs
    with_run, without = runs.get(WITH), runs.get(WITHOUT)
    theirs = _side(without, scenario) if without and without.batches else None
    return Findings(
        _side(with_run, scenario) if with_run and with_run.batches else None,
        theirs,
        None
        if with_run is None or with_run.ledger is None
        else with_run.ledger.balances(with_run.batches),
        tuple(_doubts(recording, scenario, theirs)),
    )


def _doubts(recording: Recording, scenario: Scenario, theirs: Side | None) -> Iterator[str]:
    """The crowd is three times the measured capacity, and no more than that is known of it."""
    capacity = scenario.capacity_per_second
    if recording.capacity is not None and not recording.capacity.steady:
        yield "the speed was still growing when the capacity was measured"
    if theirs is None:
        return
    did = theirs.crowd_rows_per_second
    if did is not None and did > _FASTER * capacity:
        yield f"in the crowd without Headgate the query did {did / capacity:.1f} times as much"
    ended = recording.runs[WITHOUT].batches[-1].end_seconds >= scenario.crowd_ends
    worst = theirs.worst_latency_seconds
    if ended and worst is not None and worst <= _DIVERGED * scenario.target_seconds:
        yield f"without Headgate results got no older than {_seconds(worst)}"


def _side(run: Run, scenario: Scenario) -> Side:
    length = scenario.crowd_ends - scenario.crowd_begins
    settled_from = scenario.crowd_begins + _SETTLED_SHARE * length
    crowd = [b for b in run.batches if scenario.crowd_begins < b.end_seconds <= scenario.crowd_ends]
    settled = [b for b in crowd if b.end_seconds >= settled_from]
    known = [b.latency_mean_seconds for b in run.batches if b.latency_mean_seconds is not None]
    offered = sum(b.offered for b in run.batches)
    busy = sum(b.duration_seconds for b in crowd)
    arrived = round(scenario.arrived_before(scenario.run_seconds))
    return Side(
        settled_latency_seconds=_mean_latency(settled),
        worst_latency_seconds=max(known, default=None),
        last_latency_seconds=known[-1] if known else None,
        offered=offered,
        kept=sum(b.kept for b in run.batches),
        dropped=sum(b.dropped for b in run.batches),
        waiting_at_end=max(0, arrived - offered),
        crowd_rows_per_second=sum(b.kept for b in crowd) / busy if busy else None,
    )


def _mean_latency(batches: list[Batch]) -> float | None:
    """Over kept rows, not over batches."""
    known = [b for b in batches if b.latency_mean_seconds is not None and b.kept]
    rows = sum(b.kept for b in known)
    total = sum(b.kept * (b.latency_mean_seconds or 0.0) for b in known)
    return total / rows if rows else None


def headline(recording: Recording, findings: Findings) -> str:
    """One sentence that a hurried reader takes along."""
    target = recording.settings.target_seconds
    ours, theirs = findings.with_headgate, findings.without
    if ours is None or ours.settled_latency_seconds is None:
        if recording.stopped_early:
            return "The demo was stopped before there was something to tell."
        return "This machine is too busy for the demo: no batch ended late in the crowd."
    if findings.doubts:
        return _doubtful(findings, ours.settled_latency_seconds, target)
    said = (
        f"With Headgate results stayed {_seconds(ours.settled_latency_seconds)} old at three "
        f"times the capacity (target {target:g} s)"
    )
    if theirs is None or theirs.worst_latency_seconds is None:
        return f"{said}."
    return f"{said}; without it they got {_seconds(theirs.worst_latency_seconds)} old."


def _doubtful(findings: Findings, ours_seconds: float, target_seconds: float) -> str:
    """Both numbers, and no claim."""
    ages = f"with Headgate {_seconds(ours_seconds)} (target {target_seconds:g} s)"
    theirs = findings.without
    if theirs is not None and theirs.worst_latency_seconds is not None:
        ages += f", without it up to {_seconds(theirs.worst_latency_seconds)}"
    return (
        f"The capacity was taken for too low: {'; '.join(findings.doubts)}. So this was not three "
        f"times what the machine can do, and shows little. Results were {ages} old. Try again when "
        "the machine has less else to do."
    )


def ledger_sentence(recording: Recording, findings: Findings) -> str:
    """Where every row went."""
    run = recording.runs.get(WITH)
    if run is None or run.ledger is None:
        return "There is no ledger: the run with Headgate did not end."
    ledger = run.ledger
    sums = f"{ledger.offered:,} offered = {ledger.kept:,} kept + {ledger.dropped:,} dropped"
    verdict = "It balances" if findings.ledger_balances else "IT DOES NOT BALANCE"
    return f"{verdict}: {sums}, in {len(ledger.rows)} batches."


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 9.95 else f"{value:.0f} s"
