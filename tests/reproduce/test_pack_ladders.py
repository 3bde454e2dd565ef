"""The two ladders on one link: what each is better at."""

from __future__ import annotations

from functools import cache

import pytest

from headgate.reproduce.experiment import Outcome, Request
from headgate.reproduce.experiments import pack_ladders
from headgate.reproduce.experiments.pack_ladders import LADDERS, PACK_LADDERS
from headgate.reproduce.figures import new_figure


@cache
def outcome() -> Outcome:
    return PACK_LADDERS.run(Request(quick=True), lambda _done, _total, _what: None)


@cache
def finding(what: str) -> float:
    [value] = [finding.ours for finding in outcome().findings if finding.what == what]
    assert isinstance(value, float)
    return value


@pytest.fixture(autouse=True, scope="module")
def _one_length() -> object:
    """The lengths of the queue are a sweep for the figure; one is enough for the claims."""
    patch = pytest.MonkeyPatch()
    patch.setattr(pack_ladders, "SWEEP_EVENTS", (100,))
    yield
    patch.undo()


def test_it_is_simulated_and_can_be_drawn() -> None:
    assert PACK_LADDERS.simulated
    figure = new_figure()
    outcome().draw(figure)
    assert len(figure.axes) == 4


@pytest.mark.parametrize("ladder", LADDERS)
def test_no_rule_loses_more_than_the_link_cannot_send(ladder: str) -> None:
    """One event in 30 ms, one sent in 42.88: 30 % must go, less the queue at the end."""
    assert finding(f"steady load, {ladder}: share lost") == pytest.approx(0.29, abs=0.01)


@pytest.mark.parametrize("reading", ["as printed", "usual filter"])
def test_the_budget_spares_what_the_hardest_level_takes(reading: str) -> None:
    title = "share lost at the third level or at random"
    ours = finding(f"changing load, budget: {title}")
    assert ours < 0.5 * finding(f"changing load, turnaround, {reading}: {title}")


def test_the_price_is_latency_and_work_at_the_usual_budget() -> None:
    for title in ("mean latency, s", "events looked at for each that arrives"):
        ours = finding(f"changing load, budget: {title}")
        assert ours > finding(f"changing load, turnaround, as printed: {title}")


def test_a_smaller_budget_buys_latency_and_saves_work() -> None:
    for title in ("mean latency, s", "events looked at for each that arrives"):
        small = finding(f"changing load, budget of 30% of the queue: {title}")
        large = finding(f"changing load, budget of 90% of the queue: {title}")
        assert small < 0.8 * large
