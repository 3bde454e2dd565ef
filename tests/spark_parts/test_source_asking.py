"""The agent and a source with a gate: one decision for all askers of a batch. No Spark."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from headgate.spark.agent.agent_client import AgentClient
from headgate.spark.agent.decision import GateDecision, decision_in_offsets, has_companion
from headgate.spark.agent.progress import parse_progress
from headgate.spark.agent.query_run import InputState
from headgate.spark.agent.server import AgentServer
from headgate.spark.sources.replay_gate import ReplayInput
from headgate.spark.sources.replay_source import SCHEMA
from headgate.spark.sources.source_gate import SourceGate
from headgate.spark.sources.source_offset import SourceOffset
from tests.spark_parts.test_agent import FRESH, Query, overload


@pytest.fixture
def query() -> Query:
    return Query()


def ask(query: Query, offset: dict[str, Any], known: InputState) -> dict[str, Any]:
    return query.agent.decide("key", offset, time.monotonic() + 5.0, known)


def test_all_askers_of_a_batch_get_the_same_decision(query: Query) -> None:
    overload(query)
    one = ask(query, FRESH, InputState("one", 500, 1.0))
    two = ask(query, FRESH, InputState("two", 900, 2.0))
    assert one == two == query.offset
    assert GateDecision.from_offset(one).sheds


def test_a_limit_that_comes_between_two_askers_holds_from_the_next_batch_on(query: Query) -> None:
    query.offset = ask(query, FRESH, InputState("one", 10, 0.1))
    query.agent.set_limit(query.run, "orders", 0.01)
    assert ask(query, FRESH, InputState("two", 10, 0.1)) == query.offset == FRESH
    query.finish(10, 0.1)
    for gate in ("two", "one"):
        limited = GateDecision.from_offset(ask(query, FRESH, InputState(gate, 10, 0.1)))
        assert limited.threshold("orders") == 10_000


def test_a_source_that_slept_goes_on_from_the_newest_version(query: Query) -> None:
    newest = overload(query)
    query.finish(9000, 9.0)
    after = GateDecision.from_offset(ask(query, FRESH, InputState("slept", 1000, 1.0)))
    assert after.version >= newest.version > 0


def test_the_waiting_count_of_a_source_is_taken_for_its_gate(query: Query) -> None:
    ask(query, FRESH, InputState("orders", 123_456, 7.5))
    [event] = [
        json.loads(line)["event"]
        for line in query.agent.journal_lines
        if '"waiting":{"orders":123456}' in line.replace(" ", "")
    ]
    assert event["waiting_age_seconds"] == 7.5


def test_the_age_of_several_gates_is_weighted(query: Query) -> None:
    overload(query)
    now = time.time()
    query.run.rates = {"orders": 100.0, "other": 100.0}
    report = query.run.last_report
    assert report is not None
    since = now - report.start_seconds
    known = InputState("orders", 300, 50.0)
    others = round(100.0 * since)
    expected = (others * since / 2 + 300 * 50.0) / (others + 300)
    assert query.run.waiting_age_seconds(now, known) == pytest.approx(expected)
    assert query.run.waiting(now, known) == {"orders": 300, "other": others}


def source(server: AgentServer, **options: str) -> SourceGate:
    own = {"agent": str(server.address_file), "query": "key", "timeout": "5"}
    all_options = {"rate": "1000", "epoch": "1", "headgate.gate": "orders"} | own | options
    return SourceGate(ReplayInput(all_options), all_options, SCHEMA, None)


@pytest.mark.parametrize("later", [{"headgate": 2, "version": 7}, {"headgate": 1}, 5, None])
def test_an_offset_whose_decision_cannot_be_read_is_read_without_it(later: Any) -> None:
    data = SourceOffset("one", {"row": 9}, 3, 500_000, GateDecision(1, 3)).as_dict()
    offset = SourceOffset.from_dict({**data, "decision": later})
    assert (offset.position, offset.salt, offset.threshold) == ({"row": 9}, 3, 500_000)
    assert offset.decision == GateDecision()
    with pytest.raises(ValueError, match="an offset of format 2"):
        SourceOffset.from_dict({**data, "headgate_source": 2})


def test_a_source_asks_and_its_offset_carries_the_answer(query: Query) -> None:
    server = AgentServer(query.agent)
    try:
        decision = overload(query)
        gate = source(server)
        start = gate.initialOffset()
        end = SourceOffset.from_dict(gate.latestOffset(start, None))  # type: ignore[arg-type]
        assert end.decision == decision
        assert (end.salt, end.threshold) == (decision.salt, decision.threshold("orders"))
        same = source(server, **{"headgate.gate": "same", "headgate.sameTuples": "true"})
        again = SourceOffset.from_dict(same.latestOffset(start, None))  # type: ignore[arg-type]
        assert again.decision == decision
        assert again.salt == 0
        client = AgentClient({"agent": str(server.address_file), "query": "key"})
        client.tell("orders: hello")
        client.close()
        assert ("source", "alerts", "orders: hello") in {
            (alarm.kind, alarm.subject, alarm.text) for alarm in query.alarms.all()
        }
        gate.stop()
        same.stop()
    finally:
        server.close()


def test_what_a_source_says_is_checked() -> None:
    assert InputState.read({"do": "decide"}) == InputState()
    for waiting, age in ((-1, 0.0), (3, -1.0), (3, float("nan")), (3, float("inf"))):
        with pytest.raises(ValueError, match="a source cannot have"):
            InputState.read({"gate": "g", "waiting": waiting, "age": age})


def test_the_offset_log_tells_sources_from_companions() -> None:
    old, new = GateDecision(3, 3, {"a": 5}), GateDecision(4, 4, {"a": 6})
    one = json.dumps(SourceOffset("one", {"row": 1}, 3, 5, old).as_dict())
    two = json.dumps(SourceOffset("two", {"row": 1}, 4, 6, new).as_dict())
    companion = json.dumps(old.offset())
    assert decision_in_offsets(["v1", "{}", one, two]) == new
    assert decision_in_offsets(["v1", "{}", two, companion]) == old
    assert decision_in_offsets(["v1", "{}"]) is None
    assert not has_companion(["v1", "{}", one, two])
    assert has_companion(["v1", "{}", one, companion])


def test_progress_gives_each_source_gate_its_own_decision() -> None:
    old, new = GateDecision(3, 3, {"one": 500_000}), GateDecision(4, 4, {}, "agent unreachable")
    start = SourceOffset("one", {"row": 1}).as_dict()
    ends = [SourceOffset(g, {"row": 9}, 3, 5, d).as_dict() for g, d in (("one", old), ("two", new))]
    idle = SourceOffset("idle", {"row": 1}, 0, 1, GateDecision(9)).as_dict()
    sources = [{"startOffset": start, "endOffset": end} for end in ends]
    sources.append({"startOffset": idle, "endOffset": idle})
    nothing = {"offered": None, "kept": 0, "lost": None, "arrival_mean": None}
    report = parse_progress(
        json.dumps(
            {
                "id": "q",
                "runId": "r",
                "batchId": 1,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "durationMs": {"triggerExecution": 5},
                "sources": sources,
                "observedMetrics": {
                    "headgate:one": {"offered": 8, "kept": 4, "lost": 2},
                    "headgate:idle": nothing,
                },
            }
        )
    )
    assert report.decision == new
    assert report.decision_of("one") == old
    assert report.decision_of("idle") == new
    assert (report.gates["one"].dropped, report.gates["one"].lost) == (4, 2)
    assert (report.gates["idle"].offered, report.gates["idle"].dropped) == (0, 0)


def test_a_report_that_nothing_came_is_not_taken_for_the_next_batch(query: Query) -> None:
    """Spark gives it the number of the batch that is still to come."""
    query.ask()
    query.finish(10, 0.1)
    decision = query.ask()
    assert query.progress is not None
    idle = json.loads(query.progress) | {"batchId": 1, "observedMetrics": {}}
    query.agent.observe(json.dumps(idle))
    query.progress = json.dumps(idle)
    query.history.append(query.progress)
    assert query.ask() == decision
    assert [report.batch for report in query.recorded] == [0]
    query.finish(20, 0.1)
    query.ask()
    assert [(r.batch, r.offered) for r in query.recorded] == [(0, 10), (1, 20)]
