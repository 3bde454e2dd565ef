"""The shapes of the latency paper's figures, and the claim of ours against theirs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from headgate.control import ServiceKind
from headgate.reproduce.experiment import Experiment, Outcome, Request, Row
from headgate.reproduce.experiments.latency_figure5 import LATENCY_FIGURE_5
from headgate.reproduce.experiments.latency_figure6 import (
    LATENCY_FIGURE_6A,
    LATENCY_FIGURE_6B,
    LATENCY_FIGURE_6C,
)
from headgate.reproduce.experiments.latency_figure7 import LATENCY_FIGURE_7
from headgate.reproduce.experiments.latency_workload import (
    LOOKING_SECONDS,
    TARGETS_SECONDS,
    TUPLE_SECONDS,
    paper_load,
    run_node,
    scale_for,
)
from headgate.reproduce.experiments.ours_against_theirs import LOADS, OURS_AGAINST_THEIRS, TOLD
from headgate.reproduce.figures import new_figure

ALL = [
    LATENCY_FIGURE_5,
    LATENCY_FIGURE_6A,
    LATENCY_FIGURE_6B,
    LATENCY_FIGURE_6C,
    LATENCY_FIGURE_7,
    OURS_AGAINST_THEIRS,
]


@cache
def quick(experiment: Experiment) -> Outcome:
    return experiment.run(Request(seed=1, quick=True), _silent)


def _silent(done: int, total: int, what: str) -> None:
    del done, total, what


def of(outcome: Outcome, **wanted: object) -> list[Row]:
    return [row for row in outcome.rows if all(row[k] == v for k, v in wanted.items())]


@pytest.mark.parametrize("experiment", ALL, ids=lambda e: e.name)
def test_every_figure_is_simulated_and_can_be_drawn(experiment: Experiment) -> None:
    assert experiment.simulated
    outcome = quick(experiment)
    assert outcome.rows
    assert outcome.findings
    figure = new_figure()
    outcome.draw(figure)
    assert figure.axes


def test_figure_5_diverges_from_100_queries_on() -> None:
    outcome = quick(LATENCY_FIGURE_5)

    def course(queries: int) -> list[float]:
        rows = of(outcome, queries=queries)
        return [r["latency_mean_seconds"] for r in rows if r["latency_mean_seconds"] is not None]

    assert max(course(80)) < 1.0
    assert course(100)[-1] > 20.0
    assert course(200)[-1] > 100.0
    assert all(a < b + 1.0 for a, b in zip(course(200), course(200)[1:], strict=False))
    failed = next(f.ours for f in outcome.findings if f.what.startswith("200 queries: out of"))
    assert failed == pytest.approx(450.0, rel=0.05)


def test_figure_6a_holds_all_four_targets() -> None:
    outcome = quick(LATENCY_FIGURE_6A)
    for target in TARGETS_SECONDS:
        for queries in (120, 200):
            [row] = of(outcome, target_seconds=target, queries=queries)
            assert row["latency_mean_seconds"] == pytest.approx(target, rel=0.05)
        [row] = of(outcome, target_seconds=target, queries=80)
        assert row["latency_mean_seconds"] < 0.5 * target


def test_figure_6b_uses_the_whole_cpu_above_120_queries() -> None:
    for row in quick(LATENCY_FIGURE_6B).rows:
        if row["queries"] >= 120:
            assert row["cpu_percent"] == pytest.approx(200.0, rel=0.02)
        else:
            assert row["cpu_percent"] < 190.0


def test_figure_6c_keeps_more_for_a_larger_target() -> None:
    outcome = quick(LATENCY_FIGURE_6C)
    for queries in (120, 200):
        kept = [
            of(outcome, target_seconds=t, queries=queries)[0]["tuples_in_buffer"]
            for t in TARGETS_SECONDS
        ]
        assert kept == sorted(kept)
        assert kept[-1] > 4.0 * kept[0]


def test_figure_7_spreads_with_the_target() -> None:
    outcome = quick(LATENCY_FIGURE_7)
    widths = []
    for target in TARGETS_SECONDS:
        rows = of(outcome, target_seconds=target)
        latency = np.array([row["latency_seconds"] for row in rows])
        share = np.array([row["share"] for row in rows])
        low, high = np.interp([0.1, 0.9], share, latency)
        assert low < 1.02 * target
        assert high > 0.98 * target
        widths.append(high - low)
    assert widths == sorted(widths)


@pytest.mark.parametrize("load", LOADS)
def test_ours_against_theirs_on_the_papers_buffer(load: str) -> None:
    outcome = quick(OURS_AGAINST_THEIRS)
    ours, theirs = (
        of(outcome, load=load, service="input-buffer", controller=name)[0]
        for name in ("model", "paper")
    )
    assert ours["deviation"] <= 0.5 * theirs["deviation"]
    assert abs(ours["mean_error"]) <= abs(theirs["mean_error"]) + 0.001
    assert ours["kept_tuples"] >= theirs["kept_tuples"]
    assert ours["overshoot"] <= 0.1
    assert ours["longest_outside_seconds"] <= theirs["longest_outside_seconds"]


@pytest.mark.parametrize("load", LOADS)
def test_ours_against_theirs_under_micro_batches(load: str) -> None:
    outcome = quick(OURS_AGAINST_THEIRS)
    ours, theirs = (
        of(outcome, load=load, service="micro-batch", controller=name)[0]
        for name in ("model", "paper")
    )
    [told] = of(outcome, load=load, service="micro-batch", controller=TOLD)
    assert ours["deviation"] <= 0.6 * theirs["deviation"]  # a quick run has few tuples
    assert told["deviation"] <= 1.05 * ours["deviation"]
    assert abs(ours["mean_error"]) <= abs(theirs["mean_error"]) + 0.001
    assert ours["kept_tuples"] >= 0.99999 * theirs["kept_tuples"]
    assert _work(ours) == pytest.approx(_work(theirs), rel=1e-6)


def _work(row: Row) -> float:
    """CPU seconds for what was processed and for what was looked at."""
    return TUPLE_SECONDS * row["kept_tuples"] + LOOKING_SECONDS * row["looked_at"]


def test_half_the_deviation_of_theirs_under_micro_batches_with_all_tuples() -> None:
    scale = replace(scale_for(Request()), seconds=120.0)
    load = paper_load(200, scale.copies, 1, in_step=True)
    deviations = []
    for controller in ("model", "paper"):
        result = run_node(
            load,
            scale,
            seed=1,
            controller=controller,
            target_seconds=1.0,
            service=ServiceKind.MICRO_BATCH,
        )
        latencies = [r.latency_mean_seconds for r in result.rows if r.time_seconds > 5.0]
        deviations.append(np.sqrt(np.mean((np.array(latencies) - 1.0) ** 2)))
    assert deviations[0] <= 0.5 * deviations[1]
