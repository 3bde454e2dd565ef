"""The agent holds questions until the turn comes: with fakes in place of Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.coordinator import CoordinatorSettings, Mode, QuerySettings
from headgate.spark.agent import agent as agent_module
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.classes import class_settings
from headgate.spark.agent.clock import Clock
from headgate.spark.agent.decision import UNREACHABLE, GateDecision
from headgate.spark.agent.query_run import QueryHandle, QueryRun
from headgate.spark.agent.server import AgentServer
from headgate.spark.sources.companion import CompanionReader
from tests.spark_parts.test_agent import Array

FRESH = GateDecision().offset()


class Fake:
    """A query of a class that does what the test says."""

    def __init__(self, agent: Agent, name: str, query_class: str) -> None:
        self.agent, self.name = agent, name
        self.batch, self.active, self.triggered = 0, True, True
        self.run = QueryRun(name, name, {"rows": Array()})
        self.run.query_id = self.run.run_id = name
        self.run.handle = QueryHandle(
            lambda: self.batch, lambda: None, list, lambda: self.active, lambda: self.triggered
        )
        agent.add(self.run, QuerySettings(("rows",), 3.0, query_class))

    def ask(self) -> dict[str, Any] | None:
        return self.agent.decide(self.name, FRESH, time.monotonic() + 5.0)

    def finish(self) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 1.0))
        self.agent.observe(
            f'{{"id": "{self.name}", "runId": "{self.name}", "batchId": {self.batch}, '
            f'"timestamp": "{now}", "sources": [], '
            f'"durationMs": {{"triggerExecution": 1000, "addBatch": 900}}}}'
        )
        self.batch += 1


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setattr(agent_module, "_HOLD_STEP_SECONDS", 0.05)
    classes = class_settings({"gold": 6, "iron": 1}, cores=2)
    agent = Agent(Alarms(), lambda *_: None, CoordinatorSettings(classes=classes))
    clock = Clock(agent.tick, 0.01, agent.alarms)
    yield agent
    clock.close()


@pytest.fixture
def full(agent: Agent) -> tuple[Fake, Fake, Fake]:
    """Two queries have a turn, the third one has to wait."""
    one, two, three = (
        Fake(agent, "one", "gold"),
        Fake(agent, "two", "iron"),
        Fake(agent, "three", "iron"),
    )
    for query in (one, two):
        query.run.tasks = 2
        assert query.ask() is not None
    return one, two, three


def test_a_question_is_held_in_steps_and_keeps_its_place(full: tuple[Fake, Fake, Fake]) -> None:
    one, _, three = full
    assert three.ask() is None
    assert three.ask() is None
    one.finish()
    assert three.ask() is not None
    assert three.run.held[0] > 0.05


def test_the_turn_is_pushed_to_the_one_who_waits(
    full: tuple[Fake, Fake, Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_HOLD_STEP_SECONDS", 60.0)
    one, _, three = full
    answers: list[Any] = []
    asker = threading.Thread(
        target=lambda: answers.append(three.agent.decide("three", FRESH, time.monotonic() + 120.0)),
        daemon=True,
    )
    asker.start()
    while three.agent._desk.ticket("three", 0) is None:
        time.sleep(0.01)
    one.finish()
    asker.join(timeout=10.0)  # far below the step
    assert answers == [FRESH]


def test_asked_again_for_the_same_batch_the_turn_goes_to_another(
    full: tuple[Fake, Fake, Fake],
) -> None:
    one, _, three = full
    assert three.ask() is None
    assert one.ask() is not None  # nothing was waiting for it
    assert three.ask() is not None
    assert one.ask() is not None  # it is not made to wait as long as it has nothing to do


@pytest.mark.parametrize("how", ["ended", "stopped", "between triggers"])
def test_a_query_that_goes_silent_frees_its_turn(full: tuple[Fake, Fake, Fake], how: str) -> None:
    one, _, three = full
    assert three.ask() is None
    if how == "ended":
        one.agent.remove(one.run)
    one.active = how != "stopped"
    one.triggered = how != "between triggers"
    time.sleep(0.5)
    assert three.ask() is not None


def test_a_query_that_is_being_stopped_is_not_held(full: tuple[Fake, Fake, Fake]) -> None:
    *_, three = full
    three.active = False
    assert three.ask() == FRESH


def test_the_kill_switch_lets_everybody_run(full: tuple[Fake, Fake, Fake]) -> None:
    *_, three = full
    assert three.ask() is None
    three.agent.set_mode(Mode.OPEN)
    assert three.ask() == FRESH


def test_what_was_held_is_not_part_of_the_batch(full: tuple[Fake, Fake, Fake]) -> None:
    one, _, three = full
    assert three.ask() is None
    one.finish()
    assert three.ask() is not None
    three.run.held[0] = 0.4
    three.finish()
    report = three.run.last_report
    assert report is not None
    assert report.duration_seconds == pytest.approx(0.6)
    assert report.held_seconds == pytest.approx(0.4)


@pytest.fixture
def server(agent: Agent) -> Iterator[AgentServer]:
    server = AgentServer(agent)
    yield server
    server.close()


def test_over_the_socket_the_companion_waits_longer_than_its_time_limit(
    full: tuple[Fake, Fake, Fake], server: AgentServer
) -> None:
    one, *_ = full
    options = {"agent": str(server.address_file), "query": "three", "timeout": "1.0"}
    reader = CompanionReader(options)
    threading.Timer(1.5, one.finish).start()
    began = time.monotonic()
    assert reader.latestOffset(FRESH, None) == FRESH  # type: ignore[arg-type]
    assert time.monotonic() - began > 1.4
    reader.stop()


@pytest.mark.usefixtures("full")
def test_when_the_agent_dies_whoever_waits_keeps_everything(server: AgentServer) -> None:
    shed = GateDecision().changed_to({"rows": 0.5}).offset()
    options = {"agent": str(server.address_file), "query": "three", "timeout": "5.0"}
    reader = CompanionReader(options)
    threading.Timer(0.3, server.close).start()
    opened = reader.latestOffset(shed, None)  # type: ignore[arg-type]
    assert (opened["keep"], opened["note"]) == ({}, UNREACHABLE)
    reader.stop()


def test_an_idle_query_with_open_gates_gives_its_turn_back_once(agent: Agent) -> None:
    """It asks again and again for the same batch; the journal is not filled with that."""
    agent.set_mode(Mode.OPEN)
    idle = Fake(agent, "idle", "gold")
    for _ in range(5):
        assert idle.ask() is not None
    assert not agent.coordinator.has_turn("idle", 0)
    returned = [line for line in agent.journal_lines if "TurnReturned" in line]
    assert len(returned) == 1
