from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.coordinator import Mode, QuerySettings
from headgate.errors import UsageError
from headgate.spark.agent.agent import Agent, TooLateError
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.decision import EVERYTHING, UNREACHABLE, GateDecision
from headgate.spark.agent.progress import BatchReport
from headgate.spark.agent.protocol import read_message, write_message
from headgate.spark.agent.query_run import QueryHandle, QueryRun
from headgate.spark.agent.server import AgentServer
from headgate.spark.controls import Controls
from headgate.spark.sources.companion import CompanionReader

FRESH = GateDecision().offset()


class Array:
    def __init__(self) -> None:
        self.values: tuple[int, ...] = (0, EVERYTHING, 0)

    def set(self, values: tuple[int, ...]) -> None:
        self.values = values


class Query:
    """A query as the agent sees it, with an offset log of its own."""

    def __init__(self) -> None:
        self.recorded: list[BatchReport] = []
        self.alarms = Alarms()
        self.agent = Agent(self.alarms, lambda _, report, __: self.recorded.append(report))
        self.array = Array()
        self.run = QueryRun("key", "alerts", {"orders": self.array})
        self.run.query_id, self.run.run_id = "q", "r"
        self.batch = 0
        self.offset: dict[str, Any] = FRESH
        self.progress: str | None = None
        self.history: list[str] = []
        self.run.handle = QueryHandle(
            lambda: self.batch, lambda: self.progress, lambda: self.history
        )
        self.agent.add(self.run, QuerySettings(("orders",), 3.0))

    def ask(self, seconds: float = 5.0) -> GateDecision:
        self.offset = self.agent.decide("key", self.offset, time.monotonic() + seconds)
        return GateDecision.from_offset(self.offset)

    def finish(self, offered: int, seconds: float, older_seconds: float = 0.0) -> None:
        """older_seconds: how long before its begin the newest tuple arrived."""
        kept = offered * GateDecision.from_offset(self.offset).threshold("orders") // EVERYTHING
        now = time.time()
        metrics = {
            "offered": offered,
            "kept": kept,
            "arrival_mean": now - seconds - older_seconds - 1.0 if kept else None,
            "first_arrival": now - seconds - older_seconds - 2.0,
            "last_arrival": now - seconds - older_seconds,
        }
        start = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(now - seconds))
        self.progress = json.dumps(
            {
                "id": "q",
                "runId": "r",
                "batchId": self.batch,
                "timestamp": start,
                "durationMs": {"triggerExecution": seconds * 1000},
                "sources": [{"endOffset": self.offset}],
                "observedMetrics": {"headgate:orders": metrics},
            }
        )
        self.history.append(self.progress)
        self.batch += 1


@pytest.fixture
def query() -> Query:
    return Query()


def overload(query: Query) -> GateDecision:
    """Batches that take three times the target: the next decision sheds."""
    query.ask()
    for _ in range(3):
        query.finish(9000, 9.0)
        decision = query.ask()
    return decision


def test_overload_is_shed_and_the_arrays_say_what_the_log_says(query: Query) -> None:
    decision = overload(query)
    assert decision.sheds
    assert query.array.values == (decision.salt, decision.threshold("orders"), 0)
    assert [report.batch for report in query.recorded] == [0, 1, 2]
    assert query.run.why[3]["orders"] == "feedback"


def test_a_batch_that_is_observed_twice_counts_once(query: Query) -> None:
    overload(query)
    assert query.progress is not None
    query.agent.observe(query.progress)
    query.agent.observe(query.progress)
    assert [report.batch for report in query.recorded] == [0, 1, 2]


def test_batches_that_the_listener_has_not_brought_are_not_left_out(query: Query) -> None:
    query.ask()
    for _ in range(2):
        query.finish(10, 0.1)
    query.ask()
    for _ in range(3):
        query.finish(10, 0.1)
    query.ask()
    assert [report.batch for report in query.recorded] == [0, 1, 2, 3, 4]


def test_asked_again_for_the_same_batch_nothing_waits_so_all_is_kept(query: Query) -> None:
    first = overload(query)
    again = query.ask()
    assert not again.sheds
    assert again.version == first.version + 1
    assert query.ask() == again


def test_a_decision_expires_with_its_batch(query: Query) -> None:
    overload(query)
    assert query.array.values[1] < EVERYTHING
    query.finish(9000, 9.0)
    assert query.progress is not None
    query.agent.observe(query.progress)
    assert query.array.values == (0, EVERYTHING, 0)


def test_late_progress_does_not_open_the_batch_that_runs(query: Query) -> None:
    decision = overload(query)
    assert query.progress is not None
    query.agent.observe(query.progress)
    assert query.array.values[1] == decision.threshold("orders")


def test_an_asker_that_has_gone_changes_nothing_but_opens(query: Query) -> None:
    overload(query)
    query.finish(9000, 9.0)
    with pytest.raises(TooLateError):
        query.ask(seconds=-1.0)
    assert query.array.values == (0, EVERYTHING, 0)
    assert any(alarm.kind == "agent" for alarm in query.alarms.all())


def test_a_query_that_ends_while_it_asks_keeps_everything(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    overload(query)
    query.finish(9000, 9.0)
    monkeypatch.setattr(query.agent, "_pace", query.agent.remove)
    assert not query.ask().sheds
    assert query.array.values == (0, EVERYTHING, 0)
    assert not any(alarm.kind == "unknown query" for alarm in query.alarms.all())


def test_an_error_in_a_decision_keeps_everything(query: Query) -> None:
    overload(query)

    def fail() -> int:
        raise RuntimeError("no JVM")

    query.run.handle = QueryHandle(fail, lambda: None, list)
    assert not query.ask().sheds
    assert query.array.values[1] == EVERYTHING
    assert query.alarms.all()[-1].kind == "decision"


def test_off_drops_nothing_and_remembers_what_would_stay(query: Query) -> None:
    query.agent.set_mode(Mode.OFF)
    assert not overload(query).sheds
    assert query.run.why[3]["orders"] == "mode"
    assert query.run.would_keep[3]["orders"] < 1.0
    query.ask()  # for the same batch again: nothing waits
    assert 3 not in query.run.would_keep


def test_the_kill_switch_works_on_the_next_question(query: Query) -> None:
    overload(query)
    query.agent.set_mode(Mode.OPEN)
    assert not query.ask().sheds
    query.finish(9000, 9.0)
    assert not query.ask().sheds
    query.agent.set_mode(Mode.ON)
    query.finish(9000, 9.0)
    assert query.ask().sheds


def test_the_first_batch_teaches_nothing_and_bounds_the_second(query: Query) -> None:
    query.ask()
    query.finish(900, 9.0)
    decision = query.ask()
    assert query.run.why[1]["orders"] == "warm-up"
    assert decision.threshold("orders") == pytest.approx(EVERYTHING * 6.0 / 9.0, rel=0.1)


def test_the_second_batch_may_be_as_large_as_the_first(query: Query) -> None:
    query.ask()
    query.finish(900, 9.0)
    query.ask()
    query.run.rates = {"orders": 10.0}
    assert query.run.warm_up_share({"orders": 1800}) == pytest.approx(0.5)


def test_the_second_batch_keeps_what_is_guaranteed(query: Query) -> None:
    query.run.keep_at_least = 0.8
    query.ask()
    query.finish(900, 9.0)
    assert query.ask().threshold("orders") == pytest.approx(0.8 * EVERYTHING)


def test_after_a_replay_all_waits_that_arrived_since_it_was_logged(query: Query) -> None:
    """The driver was down for a minute; the batch that runs again kept a tenth of 1,000 tuples."""
    logged = GateDecision().changed_to({"orders": 0.1})
    query.offset = query.agent.replay("key", logged.offset())
    query.finish(1000, 9.0, older_seconds=60.0)
    decision = query.ask()
    assert query.run.why[1]["orders"] == "warm-up"
    assert decision.threshold("orders") == pytest.approx(EVERYTHING * 6.0 / 69.0, rel=0.1)


def test_explain_speaks_of_the_last_batch_that_had_tuples(query: Query) -> None:
    controls = Controls()
    controls._agent = query.agent
    assert controls.explain("alerts") == "alerts has not run a batch yet."
    query.ask()
    query.finish(900, 1.0)
    query.agent.set_limit(query.run, "orders", 0.25)
    query.ask()
    query.finish(1000, 1.0)
    query.ask()
    query.ask()  # nothing waits
    told = controls.explain("alerts")
    assert told == "orders: batch 1 dropped 75 % of 1000: a limit was set by hand."


def test_a_first_batch_within_the_target_bounds_nothing(query: Query) -> None:
    query.ask()
    query.finish(900, 1.0)
    assert not query.ask().sheds


def test_a_limit_by_hand_holds_and_is_lifted(query: Query) -> None:
    query.agent.set_limit(query.run, "orders", 0.25)
    assert query.ask().threshold("orders") == 250_000
    assert query.ask().threshold("orders") == 250_000
    assert query.run.why[0]["orders"] == "limit"
    query.agent.set_limit(query.run, "orders", 1.0)
    assert not query.ask().sheds


def test_a_replayed_batch_gets_the_logged_decision(query: Query) -> None:
    logged = GateDecision().changed_to({"orders": 0.125})
    query.agent.replay("key", logged.offset())
    assert query.array.values == (logged.salt, 125_000, 0)


def test_before_spark_hands_over_the_query_everything_is_kept(query: Query) -> None:
    query.run.handle = None
    query.offset = GateDecision().changed_to({"orders": 0.5}).offset()
    assert not query.ask().sheds


def test_foreign_and_broken_progress_is_passed_over(query: Query) -> None:
    query.agent.observe("{}")
    query.finish(10, 1.0)
    assert query.progress is not None
    query.agent.observe(query.progress.replace('"r"', '"other"'))
    assert query.recorded == []
    assert [alarm.kind for alarm in query.alarms.all()] == ["progress"]


# --- over the socket ----------------------------------------------------------------------------


@pytest.fixture
def server(query: Query) -> Iterator[AgentServer]:
    server = AgentServer(query.agent)
    yield server
    server.close()


def reader_of(server: AgentServer, timeout: float = 5.0) -> CompanionReader:
    options = {"agent": str(server.address_file), "query": "key", "timeout": str(timeout)}
    return CompanionReader(options)


def test_the_companion_asks_over_the_socket(query: Query, server: AgentServer) -> None:
    query.agent.set_limit(query.run, "orders", 0.5)
    reader = reader_of(server)
    offset = reader.latestOffset(reader.initialOffset(), None)  # type: ignore[arg-type]
    assert offset["keep"] == {"orders": 500_000}
    assert reader.latestOffset(offset, None) == offset  # type: ignore[arg-type]
    assert list(reader.partitions(FRESH, offset)) == []
    reader.stop()


def test_without_an_agent_the_companion_keeps_everything(query: Query, server: AgentServer) -> None:
    query.agent.set_limit(query.run, "orders", 0.5)
    reader = reader_of(server)
    shed = reader.latestOffset(FRESH, None)  # type: ignore[arg-type]
    address = server.address_file.read_text()
    server.close()
    server.address_file.write_text(address)
    assert query.array.values == (0, EVERYTHING, 0)
    opened = reader.latestOffset(shed, None)  # type: ignore[arg-type]
    assert (opened["keep"], opened["note"]) == ({}, UNREACHABLE)
    assert reader.latestOffset(opened, None) == opened  # type: ignore[arg-type]
    assert reader.latestOffset(FRESH, None) == FRESH  # type: ignore[arg-type]
    reader.stop()
    server.address_file.unlink()


def test_a_replay_is_told_before_the_first_question(query: Query, server: AgentServer) -> None:
    logged = GateDecision().changed_to({"orders": 0.125})
    reader = reader_of(server)
    reader.partitions(FRESH, logged.offset())
    assert query.array.values == (logged.salt, 125_000, 0)
    reader.stop()


@pytest.mark.parametrize(
    "message",
    [
        {"token": "wrong", "do": "decide", "query": "key", "offset": FRESH, "deadline": 1e18},
        {"do": "decide"},
        {"token": None, "do": "pickle", "query": "key", "offset": {}},
    ],
)
def test_strangers_are_shown_out(
    query: Query, server: AgentServer, message: dict[str, Any]
) -> None:
    address = json.loads(server.address_file.read_text())
    if message.get("token", 0) is None:
        message = {**message, "token": address["token"]}
    with socket.create_connection((address["host"], address["port"]), 2.0) as connection:
        write_message(connection, message)
        assert read_message(connection) is None
    assert query.array.values == (0, EVERYTHING, 0)


def test_a_query_whose_settings_are_refused_leaves_nothing() -> None:
    agent = Agent(Alarms(), lambda *_: None)
    refused = QueryRun("key", "alerts", {"orders": Array()})
    settings = QuerySettings(("orders",), 3.0, controller_settings={"percentile": 100})
    with pytest.raises(UsageError, match="percentile"):
        agent.add(refused, settings)
    assert agent.runs == []
    assert agent.coordinator.queries == {}


def test_by_name_the_newest_run_is_found_that_has_started() -> None:
    agent = Agent(Alarms(), lambda *_: None)
    runs = [QueryRun(key, "alerts", {"orders": Array()}) for key in "abc"]
    for run in runs:
        agent.add(run, QuerySettings(("orders",), 3.0))
    for run in runs[:2]:
        run.handle = QueryHandle(lambda: 0, lambda: None, list)
    assert agent.started("alerts") == [runs[1], runs[0]]
    assert agent.started("another") == []
