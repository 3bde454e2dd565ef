"""The shape of PACK's Figure 8."""

from __future__ import annotations

from functools import cache
from statistics import fmean, pstdev

import pytest

from headgate.reproduce.experiment import Outcome, Request
from headgate.reproduce.experiments.pack_figure8 import (
    BUDGET_EVENTS,
    PACK_FIGURE_8,
    PRINTED,
    loss_when_full,
    over_the_link,
    policy,
)
from headgate.reproduce.figures import new_figure
from headgate.simulation.packed_queue import BudgetPacker, QueueTrace, TurnaroundPacker

SECONDS = 150.0


@cache
def outcome() -> Outcome:
    return PACK_FIGURE_8.run(Request(quick=True), lambda _done, _total, _what: None)


@cache
def tail() -> QueueTrace:
    return over_the_link(SECONDS, None)


def test_it_has_rows_findings_and_a_picture_and_says_that_it_is_simulated() -> None:
    assert PACK_FIGURE_8.simulated
    assert outcome().rows
    assert outcome().findings
    figure = new_figure()
    outcome().draw(figure)
    assert figure.axes


def test_drop_tail_loses_30_percent_at_a_constant_latency() -> None:
    latencies = tail().latencies(30.0)
    assert loss_when_full(tail(), SECONDS) == pytest.approx(0.30, abs=0.01)
    assert pstdev(latencies) < 0.01 * fmean(latencies)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_papers_ladder_as_printed_sits_at_level_2_at_a_lower_latency(seed: int) -> None:
    trace = over_the_link(SECONDS, TurnaroundPacker(policy(), PRINTED, seed))
    assert trace.level_share(2) > 0.9
    dropped = fmean(p.dropped_share for p in trace.packings if p.packing.level == 2)
    assert dropped == pytest.approx(0.325, abs=0.03)
    assert fmean(trace.latencies(30.0)) < 0.8 * fmean(tail().latencies(30.0))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_ladder_by_budget_finds_level_2_in_two_packings(seed: int) -> None:
    trace = over_the_link(SECONDS, BudgetPacker(policy(), BUDGET_EVENTS, seed=seed))
    assert [packed.packing.level for packed in trace.packings[:2]] == [1, 2]
    assert trace.level_share(2) > 0.5
    assert fmean(trace.latencies(30.0)) < 0.8 * fmean(tail().latencies(30.0))


def test_every_event_is_sent_lost_or_waiting() -> None:
    for trace in (tail(), over_the_link(SECONDS, TurnaroundPacker(policy(), PRINTED, 1))):
        assert trace.offered == len(trace.served) + trace.lost + trace.waiting


def test_the_sweep_shows_that_short_queues_leave_level_2() -> None:
    """What the figure's queue of 100 events hides: the result depends on the length."""
    shares = {
        row["queue_events"]: float(row["level_2_share"] or 0.0)
        for row in outcome().rows
        if row["run"] == "sweep, as printed"
    }
    assert shares[25] < 0.5 < shares[100]
