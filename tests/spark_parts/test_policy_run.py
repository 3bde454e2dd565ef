"""Levels, states and notes of a policy at a gate, without Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.coordinator import QuerySettings
from headgate.reduction import (
    PackingRequest,
    Policy,
    PolicyBuilder,
    digest_of,
    reduce_to_level,
    use,
)
from headgate.reduction.queues import as_queue
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.decision import EVERYTHING, GateDecision
from headgate.spark.agent.progress import GateReport
from headgate.spark.agent.query_run import QueryHandle, QueryRun
from headgate.spark.policies.policy_gate import GatePolicy, split_attributes
from headgate.spark.policies.policy_notes import Note, read_notes, read_text, write_text
from headgate.spark.policies.policy_run import Choice, PolicyRun, outcome_of
from headgate.spark.policies.policy_state import PolicyStates, fit
from headgate.spark.policies.policy_task import PolicyTask


def three_levels(**given: Any) -> Policy:
    builder = PolicyBuilder("three", attribute="value", **given)
    for value in (10, 20, 30):
        builder = builder.level(use("LT", "drop", value=value))
    return builder.build()


def seen(offered: int, kept: int, *fell: int) -> GateReport:
    metrics = {f"fell_{level}": count for level, count in enumerate(fell, start=1)}
    return GateReport(offered, kept, policy={**metrics, "odd": 0})


def taught(ladder: str = "budget") -> PolicyRun:
    """Knows that the levels leave 0.8, 0.5 and 0.1."""
    run = PolicyRun(GatePolicy(three_levels(), ladder))
    assert run.numbers(0, 0) == (0, 3, 0)  # nothing is known: all levels are judged
    run.observe(seen(1000, 1000, 200, 300, 400))
    return run


def test_the_lowest_level_that_fits_is_chosen_and_the_rest_goes_at_random() -> None:
    run = taught()
    assert run.choose(1.0, 0.0, 0.0) == Choice(0, 1.0)
    assert run.choose(0.9, 0.0, 0.0) == Choice(1, 1.0)
    assert run.choose(0.6, 0.0, 0.0) == Choice(2, 1.0)
    assert run.choose(0.05, 0.0, 0.0) == Choice(3, pytest.approx(0.5))
    assert run.choose(0.0, 0.0, 0.0) == Choice(3, 0.0)
    run = PolicyRun(GatePolicy(three_levels()))
    run.numbers(0, 0)
    run.observe(seen(1000, 1000, 200, 300, 500))  # level 3 leaves nothing
    assert run.choose(0.2, 0.0, 0.0) == Choice(3, 1.0)
    assert run.choose(0.0, 0.0, 0.0) == Choice(3, 0.0)


def test_no_level_that_leaves_less_than_the_query_keeps_whatever_happens() -> None:
    assert taught().choose(0.3, 0.2, 0.0) == Choice(2, pytest.approx(0.6))
    assert taught().choose(0.85, 0.82, 0.0) == Choice(0, pytest.approx(0.85))


def test_an_unknown_level_counts_as_leaving_everything() -> None:
    run = PolicyRun(GatePolicy(three_levels()))
    assert run.choose(0.2, 0.0, 0.0) == Choice(1, pytest.approx(0.2))


def test_all_levels_are_judged_now_and_then() -> None:
    run = taught()
    judged = [run.numbers(1, 7)[1] for _ in range(32)]
    assert judged == ([1] * 15 + [3]) * 2
    assert run.numbers(2, 7) == (2, 2, 7)


def test_the_papers_ladder_moves_by_the_time_between_batches_that_shed() -> None:
    run = taught("turnaround")
    levels = [run.choose(0.5, 0.0, now).level for now in (0.0, 10.0, 20.0, 21.0)]
    assert levels == [1, 1, 1, 2]  # it fills up sooner than before: one level up
    assert run.choose(1.0, 0.0, 22.0) == Choice(0, 1.0)


def test_a_level_that_is_judged_but_not_applied_is_not_in_the_ledger() -> None:
    outcome = outcome_of(GatePolicy(three_levels()), seen(1000, 800, 200, 300, 400))
    assert outcome.left == (800, 500, 100)
    assert outcome.dropped_by_level(1000, 1) == [200]
    assert outcome.dropped_by_level(1000, 0) == []
    assert outcome.digest.dropped == 200


def test_the_notes_of_partitions_add_up_and_one_that_comes_twice_counts_once() -> None:
    gate = GatePolicy(three_levels(), partitions=2)
    notes = [Note(0, 0, 60, (50, 20), 1), Note(1, 0, 40, (30, 10), 2), Note(1, 0, 40, (30, 10), 2)]
    report = GateReport(100, 30, policy={"notes": [note.text() for note in notes]})
    outcome = outcome_of(gate, report)
    assert (outcome.left, outcome.odd) == ((80, 30), 3)
    with pytest.raises(ValueError, match="not a note"):
        outcome_of(gate, GateReport(1, 1, policy={"notes": ["[]"]}))


def test_long_texts_are_compressed_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"key": ["x" * 10_000]}
    assert len(write_text(content)) < 500
    assert read_text(write_text(content)) == content
    monkeypatch.setattr("headgate.spark.policies.policy_notes._LARGEST_CONTENT", 1000)
    with pytest.raises(ValueError, match="above 1,000 bytes"):
        read_text(write_text(content))
    note = Note(3, 0, 10, (7, 2), 1, {"a": [1, 2]}, "state", "error")
    assert read_notes([note.text()]) == [note]


def test_states_are_found_by_batch_and_few_are_kept(tmp_path: Path) -> None:
    states = PolicyStates(tmp_path / "states")
    assert states.read("orders/eu", 5) == {}
    for batch in (0, 1, 2, 5, 6, 10):
        states.write("orders/eu", batch, {0: str(batch), 1: ""})
    assert states.read("orders/eu", 10) == {0: "6", 1: ""}
    assert states.read("orders/eu", 11) == {0: "10", 1: ""}
    assert states.read("orders/eu", 5) == {0: "2", 1: ""}
    assert states.read("orders/eu", 2) == {}  # the oldest are gone
    assert states.read("other", 11) == {}


def test_a_state_of_other_partitions_is_put_together() -> None:
    old = {0: write_text({"1.1": {"i:1": 5}}), 1: write_text({"1.1": {"i:2": 6}}), 2: ""}
    assert fit(old, 3) == old
    both = {"1.1": {"i:1": 5, "i:2": 6}}
    assert [read_text(text) for text in fit(old, 2).values()] == [both, both]


def test_a_batch_is_cut_by_what_all_filters_that_look_around_have_in_common() -> None:
    def cut(*filters: Any) -> frozenset[str] | None:
        builder = PolicyBuilder("cut", attribute="value")
        return split_attributes(builder.level(*filters).build())

    by_key = use("EVERY", "keep", count=2, group="key")
    assert cut(use("LT", "drop", value=3)) is None
    assert cut(by_key, use("LT", "drop", value=3)) == {"key"}
    assert cut(use("GUNIQ", "keep", group="key")) == {"key", "value"}
    assert cut(by_key, use("GUNIQ", "keep", group="key")) == {"key"}
    assert cut(by_key, use("LATEST", "keep", window=3)) == frozenset()
    assert cut(by_key, use("UNIQ", "keep", group="other")) == frozenset()


def _with_orders(rows: Any, level: int, judged: int, state: str) -> list[Any]:
    """Record batches as Spark hands them over: unsorted, the state with the first row."""
    count = rows.num_rows
    numbers = {"salt": 5, "level": level, "judged": judged, "now": 0}
    for name, number in numbers.items():
        rows = rows.append_column(f"__headgate_{name}", pa.array([number] * count, pa.int64()))
    rows = rows.append_column("__headgate_state", pa.array([state] + [None] * (count - 1)))
    rows = rows.append_column("fate", pa.array([number % 10 != 0 for number in range(count)]))
    batches: list[Any] = pa.Table.from_batches([rows]).to_batches(max_chunksize=7)
    return batches


def _result(task: PolicyTask, batches: list[Any]) -> tuple[list[int], list[Note]]:
    table = pa.Table.from_batches(task.run(batches, 1))
    notes = [text for text in table.column("__headgate_note").to_pylist() if text]
    stays = table.filter(table.column("__headgate_stays"))
    return stays.column("id").to_pylist(), read_notes(notes)


def test_a_task_sorts_by_arrival_remembers_and_digests_what_went() -> None:
    builder = PolicyBuilder("task", attribute="value", group="key").digest("SUM")
    builder = builder.level(use("UNIQ", "keep")).level(use("LATEST", "keep", window=2))
    policy = builder.build()
    task = PolicyTask(policy, ("when", "id"), ("id", "value"), "fate", remembers=True)
    order = [(7 * row) % 40 for row in range(40)]
    memory: Any = {}
    text = ""
    for begin, level in ((0, 1), (40, 1), (80, 2), (120, 0)):
        ids = [begin + row for row in order]
        rows = pa.record_batch(
            {
                "id": ids,
                "when": [row // 2 for row in ids],
                "key": [row % 3 for row in ids],
                "value": [(row // 4) % 3 for row in ids],
            }
        )
        kept, [note] = _result(task, _with_orders(rows, level, 2, text))
        in_order = rows.sort_by("id")
        packing = reduce_to_level(in_order, policy, level, PackingRequest(5, state=memory))
        lucky = {row for place, row in enumerate(ids) if place % 10}
        wanted = [row for row in packing.kept.column("id").to_pylist() if row in lucky]
        assert kept == wanted
        assert (note.partition, note.offered) == (1, 40)
        assert note.left[:level] == tuple(round(40 * ratio) for ratio in packing.keep_ratios())
        assert len(note.left) == 2  # all levels were judged
        gone = in_order.filter(pa.array([i not in kept for i in in_order["id"].to_pylist()]))
        assert note.digest == digest_of(policy.digests, as_queue(gone)).to_json()
        memory = packing.state
        if level:
            assert note.state is not None
            assert read_text(note.state) == memory
            text = note.state
        else:
            assert note.state is None


def test_a_task_that_judges_nothing_holds_no_more_than_a_batch() -> None:
    policy = three_levels()
    task = PolicyTask(policy, ("id",), ("id",), "fate", remembers=True)
    rows = pa.record_batch({"id": list(range(30, 0, -1)), "value": [50] * 30})
    kept, notes = _result(task, _with_orders(rows, 0, 0, ""))
    assert kept == [30 - place for place in range(30) if place % 10]  # not even sorted
    assert [note.number for note in notes] == [0, 1, 2]  # the batches of 7 that dropped something
    assert sum(note.digest["groups"][""][0] for note in notes) == 3
    assert list(task.run([], 0)) == []


class _BrokenError(Exception):
    pass


def test_a_filter_that_fails_keeps_all_rows_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise _BrokenError("odd")

    monkeypatch.setattr("headgate.spark.policies.policy_task.reduce_to_level", fail)
    columns = ("salt", "level", "judged", "now")
    rows = {f"__headgate_{name}": [1, 1] for name in columns}
    batch = pa.record_batch({"value": [1, 2], "fate": [True, False], **rows})
    task = PolicyTask(three_levels(), (), ("value",), "fate")
    [result] = task.run([batch], 0)
    assert result.column("__headgate_stays").to_pylist() == [True, True]
    [note] = read_notes([result.column("__headgate_note")[0].as_py()])
    assert (note.odd, note.error) == (2, "_BrokenError: odd")


class _Array:
    def __init__(self) -> None:
        self.values: tuple[int, ...] = ()

    def set(self, values: tuple[int, ...]) -> None:
        self.values = values


def test_the_level_stands_in_the_decision_and_reaches_the_array() -> None:
    array, policy = _Array(), taught()
    run = QueryRun("key", "q", {"g": array}, policies={"g": policy})
    run.handle = QueryHandle(lambda: 7, lambda: None, list)
    agent = Agent(Alarms(), lambda *_: None)
    agent.add(run, QuerySettings(("g",), None))
    agent.set_limit(run, "g", 0.4)
    offset = agent.decide("key", GateDecision().offset(), time.monotonic() + 60.0)
    assert (offset["levels"], offset["keep"]) == ({"g": 3}, {})
    assert array.values == (offset["salt"], EVERYTHING, 0, 3, 3, 0)
    assert agent.decide("key", offset, time.monotonic() + 60.0) == offset
    run.open()
    assert array.values == (0, EVERYTHING, 0, 0, 0, 0)
    agent.replay("key", offset)
    assert array.values[:4] == (offset["salt"], EVERYTHING, 0, 3)
    agent.set_limit(run, "g", 1.0)
    assert "levels" not in agent.decide("key", offset, time.monotonic() + 60.0)


def test_older_than_finds_the_time_in_the_decision() -> None:
    builder = PolicyBuilder("old", time="when").level(use("OLDER_THAN", "drop", age=5))
    array = _Array()
    run = QueryRun("key", "q", {"g": array}, policies={"g": PolicyRun(GatePolicy(builder.build()))})
    run.choose_levels({"g": 0.5}, 1000.5)
    assert (run.levels, run.now_micros) == ({"g": 1}, 1_000_500_000)
    decision = GateDecision().changed_to(run.answer, levels=run.levels, now_micros=run.now_micros)
    run.apply(decision, 1)
    assert array.values[3:] == (1, 1, 1_000_500_000)
    run.choose_levels({"g": 1.0}, 1001.0)
    assert (run.levels, run.now_micros) == ({}, 0)
