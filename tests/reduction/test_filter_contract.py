"""Every filter is found, and put through the same checks."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headgate.errors import UsageError
from headgate.reduction import Filter, Sense, events_to_batch, filter_kinds
from headgate.reduction.contract import EMPTY_STATE, MAX_REMEMBERED, Context, Selection
from headgate.reduction.queues import ColumnQueue, EventQueue, as_queue
from headgate.reduction.values import key_of
from tests.reduction.samples import ON_SPARK_ONLY, USES, all_filters, batch, mixed_events

PAPER = [
    "GT",
    "GE",
    "EQ",
    "NE",
    "LT",
    "LE",
    "MATCH",
    "WITHIN",
    "INSET",
    "CONTAIN",
    "SUBSET",
    "SUPSET",
    "FIRST",
    "LAST",
    "UNIQ",
    "GUNIQ",
    "DELTA",
    "LATEST",
    "EVERY",
    "RANDOM",
]
BY_NAME = {name: [f for f in all_filters() if f.name == name] for name in USES}

every_filter = pytest.mark.parametrize("filters", BY_NAME.values(), ids=BY_NAME)


def same(ours: Selection, theirs: Selection, where: Any) -> None:
    assert ours.keep.tolist() == theirs.keep.tolist(), where
    assert ours.odd.tolist() == theirs.odd.tolist(), where
    assert json.dumps(ours.state) == json.dumps(theirs.state), where


def both(filter_: Filter, data: Any, context: Context) -> Selection:
    """The selection from the batch and from its rows as events, which must be the same."""
    events = data if isinstance(data, list) else data.to_pylist()
    columns = events_to_batch(data) if isinstance(data, list) else data
    plain = filter_.select(EventQueue(events), context)
    same(plain, filter_.select(ColumnQueue(columns), context), (filter_, events[:40]))
    return plain


def test_all_filters_of_the_paper_and_ours_are_there() -> None:
    assert set(PAPER) <= set(filter_kinds())
    assert set(filter_kinds()) == set(USES) | ON_SPARK_ONLY


@every_filter
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_arrow_and_python_give_the_same(filters: list[Filter], rows: int) -> None:
    for seed in range(2):
        data = batch(rows, seed)
        for filter_ in filters:
            both(filter_, data, Context(salt=seed))
            both(filter_, data, Context(now_seconds=1_700_000_030.0, salt=-seed))


@every_filter
def test_arrow_and_python_give_the_same_on_mixed_types(filters: list[Filter]) -> None:
    for seed in range(3):
        events = mixed_events(30, seed)
        for filter_ in filters:
            both(filter_, events, Context())


@every_filter
def test_slices_tables_and_other_arrow_types_are_read_alike(filters: list[Filter]) -> None:
    whole = batch(60, 7)
    cut = whole.slice(7, 40)
    table = pa.Table.from_batches([whole.slice(7, 11), whole.slice(18, 29)])
    other = pa.RecordBatch.from_arrays(
        [
            pa.array([row * 2**58 if row % 3 else 2**63 + row for row in range(40)], pa.uint64()),
            cut["float"].cast(pa.float32()),
            cut["text"].dictionary_encode(),
            cut["flag"],
            cut["when"].cast(pa.timestamp("ms", "UTC")),
            cut["tags"].cast(pa.large_list(pa.large_string())),
        ],
        names=["int", "float", "text", "flag", "when", "tags"],
    )
    for filter_ in filters:
        selection = both(filter_, cut, Context())
        same(selection, filter_.select(as_queue(table), Context()), filter_)
        both(filter_, other, Context())


@every_filter
def test_state_crosses_packings_alike(filters: list[Filter]) -> None:
    queues = [batch(25, seed) for seed in range(4)]
    for filter_ in filters:
        state: Any = EMPTY_STATE
        for data in queues:
            selection = both(filter_, data, Context(state=state))
            state = json.loads(json.dumps(selection.state or {}))


@every_filter
def test_batches_with_state_are_one_queue_without(filters: list[Filter]) -> None:
    """For filters whose state crosses packings, cutting a stream must not show."""
    if filters[0].name not in {"UNIQ", "GUNIQ", "DELTA", "EVERY", "DEDUPLICATE", "RATE_LIMIT"}:
        return
    whole = batch(80, 9)
    for filter_ in filters:
        at_once = filter_.select(as_queue(whole), Context()).keep.tolist()
        state: Any = EMPTY_STATE
        parts: list[bool] = []
        for begin in range(0, 80, 16):
            selection = filter_.select(as_queue(whole.slice(begin, 16)), Context(state=state))
            parts += selection.keep.tolist()
            state = selection.state
        assert parts == at_once, filter_


@every_filter
def test_row_wise_filters_do_not_look_at_neighbours(filters: list[Filter]) -> None:
    data = batch(40, 3)
    rows = np.array([3, 5, 8, 30])
    for filter_ in filters:
        if filter_.row_wise:
            context = Context(now_seconds=1_700_000_030.0)
            whole = filter_.select(as_queue(data), context).keep[rows]
            cut = filter_.select(as_queue(data).take(rows), context).keep
            assert whole.tolist() == cut.tolist()


@every_filter
def test_a_queue_can_be_cut_by_what_the_filter_splits_by(filters: list[Filter]) -> None:
    data = batch(80, 6)
    for filter_ in filters:
        whole = filter_.select(as_queue(data), Context()).keep
        for name in filter_.splits_by() & set(data.schema.names):
            parts: dict[Any, list[int]] = {}
            for row, value in enumerate(data.column(name).to_pylist()):
                parts.setdefault(key_of(value), []).append(row)
            for rows in parts.values():
                cut = as_queue(data).take(np.array(rows))
                assert filter_.select(cut, Context()).keep.tolist() == whole[rows].tolist()


@every_filter
def test_the_two_senses_are_opposite_where_the_filter_judges(filters: list[Filter]) -> None:
    data = batch(60, 4)
    for filter_ in filters:
        keep = replace(filter_, sense=Sense.KEEP).select(as_queue(data), Context())
        drop = replace(filter_, sense=Sense.DROP).select(as_queue(data), Context())
        assert (keep.keep | drop.keep).all()
        assert keep.keep[keep.odd].all(), "what cannot be judged stays"
        assert drop.keep[drop.odd].all()


@every_filter
def test_filters_are_frozen_picklable_and_deterministic(filters: list[Filter]) -> None:
    data = batch(50, 5)
    for filter_ in filters:
        copy = pickle.loads(pickle.dumps(filter_))
        assert copy == filter_
        same(
            copy.select(as_queue(data), Context()),
            filter_.select(as_queue(data), Context()),
            filter_,
        )
        with pytest.raises(FrozenInstanceError):
            filter_.sense = Sense.KEEP  # type: ignore[misc]


@every_filter
def test_memory_is_bounded(filters: list[Filter], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.reduction.grouping.MAX_REMEMBERED", 50)
    assert MAX_REMEMBERED == 10_000
    numbers = [dict.fromkeys(("int", "float", "text", "when"), row) for row in range(200)]
    for filter_ in filters:
        state: Any = EMPTY_STATE
        for _ in range(3):
            state = both(filter_, numbers, Context(state=state)).state or {}
            assert len(state) <= 50


@every_filter
def test_an_odd_event_is_counted_and_stays(filters: list[Filter]) -> None:
    for filter_ in filters:
        if filter_.needs():
            selection = both(filter_, [{}, {"x": object()}], Context())
            assert selection.odd.all()
            assert selection.keep.all()


def test_spark_sql_is_refused_in_memory() -> None:
    filter_ = filter_kinds()["SPARK_SQL"](Sense.KEEP, predicate="a > 5")
    with pytest.raises(UsageError, match="runs on Spark only"):
        filter_.select(as_queue([{"a": 1}]), Context())
