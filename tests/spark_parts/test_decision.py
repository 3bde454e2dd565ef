from __future__ import annotations

import json

import pytest

from headgate.spark.agent.decision import EVERYTHING, GateDecision, decision_in_offsets


def test_an_unchanged_decision_is_the_same_offset() -> None:
    first = GateDecision().changed_to({"a": 0.25, "b": 1.0})
    assert first.changed_to({"a": 0.2500000001}) is first
    assert json.dumps(
        GateDecision.from_offset(json.loads(json.dumps(first.offset()))).offset()
    ) == (json.dumps(first.offset()))
    second = first.changed_to({"a": 0.5})
    assert (second.version, second.salt) == (2, 2)
    assert second.salt != first.salt


def test_gates_that_are_not_named_keep_everything() -> None:
    decision = GateDecision().changed_to({"a": 0.0})
    assert decision.threshold("a") == 0
    assert decision.threshold("b") == EVERYTHING
    assert decision.sheds
    assert not decision.opened("x").sheds
    assert GateDecision().changed_to({"a": 7.0, "b": 1.0}) == GateDecision()


def test_the_decision_is_found_in_the_offset_log() -> None:
    decision = GateDecision().changed_to({"a": 0.5})
    lines = ["v1", '{"batchWatermarkMs":0}', '{"row":7}', json.dumps(decision.offset())]
    assert decision_in_offsets(lines) == decision
    nested = ["v2", json.dumps({"offsets": {"1": json.dumps(decision.offset())}})]
    assert decision_in_offsets(nested) == decision
    assert decision_in_offsets(["v1", '{"row":7}']) is None


def test_a_later_format_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="format 2"):
        GateDecision.from_offset({"headgate": 2, "version": 1})
    with pytest.raises(ValueError, match="not an offset"):
        GateDecision.from_offset({"row": 1})


def test_levels_are_part_of_a_decision_and_older_offsets_have_none() -> None:
    decision = GateDecision().changed_to({"a": 0.5}, levels={"a": 2, "b": 0}, now_micros=7)
    assert decision.offset()["levels"] == {"a": 2}
    assert GateDecision.from_offset(decision.offset()) == decision
    assert decision.changed_to({"a": 0.5}, levels={"a": 2}, now_micros=7) is decision
    assert decision.changed_to({"a": 0.5}, levels={"a": 1}, now_micros=7).version == 2
    assert GateDecision().changed_to({}, levels={"a": 1}).sheds
    old = {"headgate": 1, "version": 3, "salt": 3, "keep": {"a": 1}, "note": ""}
    read = GateDecision.from_offset(old)
    assert (read.level("a"), read.now_micros, read.offset()) == (0, 0, old)
    assert decision.opened("why").levels == {}
