"""What agent and decisions do with gates that drop by key or by window. No Spark."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from headgate.coordinator import Mode, QuerySettings
from headgate.errors import UsageError
from headgate.spark.agent.agent import Agent, TooLateError
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.decision import EVERYTHING, GateDecision
from headgate.spark.agent.query_run import QueryHandle, QueryRun
from headgate.spark.gates.row_choice import AT_RANDOM, RowChoice, check_keys, lowest_of_groups
from headgate.spark.gates.window_drop import WindowMemory, WindowShape
from headgate.spark.gates.window_watch import WindowWatch

SHAPE = WindowShape(60, 60, 60)
BY_KEY = RowChoice(("customer",), ("bigint",))
BY_WINDOW = RowChoice(window=SHAPE)


class Array:
    values: tuple[int, ...] = ()

    def set(self, values: tuple[int, ...]) -> None:
        self.values = values


class Query:
    """A query with two key gates, a random one and a window gate, and its offset log."""

    def __init__(self) -> None:
        self.alarms = Alarms()
        self.agent = Agent(self.alarms, lambda *_: None)
        choices = {"left": BY_KEY, "right": BY_KEY, "any": AT_RANDOM, "whole": BY_WINDOW}
        self.arrays = {gate: Array() for gate in choices}
        told: list[str] = []
        self.watch = WindowWatch({"whole": SHAPE}, lambda: 10**9, told.append)
        self.run = QueryRun("key", "q", self.arrays, choices=choices, windows=self.watch)
        self.run.query_id, self.run.run_id = "q", "r"
        self.batch = 0
        self.offset: dict[str, Any] = GateDecision().offset()
        self.run.handle = QueryHandle(lambda: self.batch, lambda: None, list)
        self.agent.add(self.run, QuerySettings(tuple(choices), None))

    def ask(self, seconds: float = 5.0) -> GateDecision:
        self.offset = self.agent.decide("key", self.offset, time.monotonic() + seconds)
        return GateDecision.from_offset(json.loads(json.dumps(self.offset)))

    def finish(self, event_time: int) -> None:
        progress = {
            "id": "q",
            "runId": "r",
            "batchId": self.batch,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "durationMs": {"triggerExecution": 100},
            "numInputRows": 1,
            "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
            "sources": [{"endOffset": self.offset}],
            "observedMetrics": {
                f"headgate:{gate}": {"offered": 1, "kept": 1, "event_time_max": event_time}
                for gate in self.arrays
            },
        }
        self.batch += 1
        self.agent.observe(json.dumps(progress))

    def threshold(self, block: int) -> int:
        """Of the window gate, as the tasks compute it without cells."""
        _, closed, second, last, first_limit, last_limit = self.arrays["whole"].values[:6]
        assert closed < block
        return last_limit if block >= last else first_limit if block < second else -1


def test_gates_of_one_key_follow_the_lowest_with_a_constant_salt() -> None:
    query = Query()
    query.agent.set_limit(query.run, "left", 0.5)
    query.agent.set_limit(query.run, "right", 0.25)
    query.agent.set_limit(query.run, "any", 0.75)
    decision = query.ask()
    assert (decision.threshold("left"), decision.threshold("right")) == (250_000, 250_000)
    assert query.arrays["left"].values == query.arrays["right"].values == (0, 250_000, 0)
    assert query.arrays["any"].values == (decision.salt, 750_000, 0)
    assert decision.salt != 0
    assert query.run.why[0]["left"] == "limit"


def test_a_window_gate_changes_only_windows_to_come() -> None:
    query = Query()
    query.agent.set_limit(query.run, "whole", 0.5)
    query.ask()
    query.finish(100)
    query.agent.set_limit(query.run, "whole", 0.0)
    decision = query.ask()
    assert decision.threshold("whole") == 0
    assert [query.threshold(block) for block in (0, 60, 120)] == [500_000, 500_000, 0]
    query.agent.set_mode(Mode.OPEN)
    query.finish(130)
    query.ask()
    assert query.arrays["whole"].values[5] == EVERYTHING
    assert GateDecision.from_offset(query.offset).windows["whole"].threshold(120) == 0


def test_an_unchanged_decision_stays_the_same_offset_while_time_goes_on() -> None:
    query = Query()
    query.agent.set_limit(query.run, "whole", 0.5)
    first = query.ask()
    for event_time in (100, 5000, 90_000):
        query.finish(event_time)
        assert query.ask() == first


def test_failures_do_not_cut_windows_in_two() -> None:
    query = Query()
    query.agent.set_limit(query.run, "whole", 0.5)
    query.agent.set_limit(query.run, "any", 0.5)
    query.ask()
    query.finish(100)
    assert query.arrays["any"].values == (0, EVERYTHING, 0)  # expired
    assert query.threshold(60) == 500_000
    logged = query.arrays["whole"].values
    query.agent.set_limit(query.run, "whole", 0.0)
    with pytest.raises(TooLateError):
        query.ask(seconds=-1.0)
    assert query.arrays["whole"].values == logged
    offset = query.offset
    query.ask()
    assert query.arrays["whole"].values != logged
    query.agent.withdraw("key")  # the answer was not delivered: the log has the old decision
    query.offset = offset
    assert query.arrays["whole"].values == logged

    def fail() -> int:
        raise RuntimeError("no JVM")

    query.run.handle = QueryHandle(fail, lambda: None, list)
    decision = query.ask()
    assert query.arrays["whole"].values == logged
    assert decision.windows == GateDecision.from_offset(offset).windows
    query.agent.open_all("the agent was closed")
    assert query.arrays["whole"].values == logged


def test_a_replayed_batch_gets_its_windows_back() -> None:
    query = Query()
    memory = WindowMemory(SHAPE).changed_to(1, 100, None).changed_to(2, 200, None)
    decision = GateDecision().changed_to({"any": 0.5}, windows={"whole": memory})
    query.agent.replay("key", decision.offset())
    assert query.arrays["whole"].values == memory.array()
    assert query.run.logged == decision


def test_the_choice_of_rows_travels_as_metadata() -> None:
    for choice in (AT_RANDOM, BY_KEY, BY_WINDOW):
        assert RowChoice.from_json(json.dumps(choice.as_dict())) == choice
    assert RowChoice.from_json("{}") == AT_RANDOM


def test_keys_of_one_group_must_hash_alike() -> None:
    other = RowChoice(("customer",), ("string",))
    with pytest.raises(UsageError, match="bigint in one and string in the other"):
        check_keys({"a": BY_KEY, "b": AT_RANDOM, "c": other})
    check_keys({"a": BY_KEY, "c": RowChoice(("product",), ("string",))})


def test_groups_without_a_limit_are_left_alone() -> None:
    choices = {"a": BY_KEY, "b": BY_KEY, "c": RowChoice(("product",), ("bigint",))}
    keep, why = lowest_of_groups({"a": 1.0, "b": 1.0, "c": 0.5}, {"c": "plan"}, choices)
    assert (keep, why) == ({"a": 1.0, "b": 1.0, "c": 0.5}, {"c": "plan"})
    keep, why = lowest_of_groups({"b": 0.5}, {"b": "plan"}, choices)
    assert (keep, why) == ({"a": 0.5, "b": 0.5}, {"a": "plan", "b": "plan"})
