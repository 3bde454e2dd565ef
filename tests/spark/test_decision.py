from __future__ import annotations

import json

import pytest

from headgate.spark.decision import EVERYTHING, GateDecision, decision_in_offsets


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
