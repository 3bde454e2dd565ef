"""Every filter on plain events, on an Arrow batch and on Spark: one result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DateType

from headgate.reduction import Filter, Policy, Sense, filter_kinds
from headgate.reduction.contract import Context
from headgate.reduction.filters.older_than import OlderThan
from headgate.reduction.filters.random import Random
from headgate.reduction.queues import as_queue
from headgate.spark.policies.policy_columns import RowColumns, hash_of, key_of, verdict
from headgate.spark.policies.policy_gate import split_attributes
from headgate.spark.policies.policy_notes import read_notes
from headgate.spark.policies.policy_task import (
    JUDGED_COLUMN,
    LEVEL_COLUMN,
    NOTE_COLUMN,
    NOW_COLUMN,
    SALT_COLUMN,
    STAYS_COLUMN,
    PolicyTask,
)
from tests.reduction.samples import ON_SPARK_ONLY, USES, all_filters, batch

SALT = 12345
NOW_SECONDS = 1_700_000_030.0
ROWS = 160
CONTEXT = Context(SALT, NOW_SECONDS)
PARTITIONS = 3


def data() -> Any:
    """The samples of every odd kind, with an id that is also the arrival."""
    return batch(ROWS, 11).append_column("id", pa.array(range(ROWS), pa.int64()))


def by_id(filter_: Filter) -> Filter:
    """Without an identity of its own RANDOM takes the gate's."""
    if isinstance(filter_, Random) and filter_.identity is None:
        return replace(filter_, identity="id")
    return filter_


FILTERS = [by_id(filter_) for filter_ in all_filters()]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([data()]))


def expected(filter_: Filter, rows: DataFrame) -> tuple[list[bool], list[bool]]:
    """What stays and what is odd, from the rows of Spark as events and as Arrow columns."""
    plain = filter_.select(as_queue([row.asDict() for row in rows.collect()]), CONTEXT)
    columns = filter_.select(as_queue(rows.toArrow()), CONTEXT)
    assert plain.keep.tolist() == columns.keep.tolist(), filter_
    assert plain.odd.tolist() == columns.odd.tolist(), filter_
    return plain.keep.tolist(), plain.odd.tolist()


class Rows:
    """The DataFrame's rows, collected once."""

    def __init__(self, frame: DataFrame) -> None:
        self._events, self._table = frame.orderBy("id").collect(), frame.orderBy("id").toArrow()

    def collect(self) -> list[Any]:
        return self._events

    def toArrow(self) -> Any:  # noqa: N802
        return self._table


@pytest.fixture(scope="module")
def rows(frame: DataFrame) -> Rows:
    return Rows(frame)


@pytest.fixture(scope="module")
def in_columns(frame: DataFrame) -> dict[int, list[bool | None]]:
    """Verdicts of all filters that have a form in columns, a few jobs for all of them."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    row = RowColumns(types, F.lit(SALT).cast("bigint"), F.lit(NOW_SECONDS), "id")
    columns: dict[int, Column] = {}
    for number, filter_ in enumerate(FILTERS):
        column = verdict(filter_, row)
        if column is not None:
            columns[number] = column
    found: dict[int, list[bool | None]] = {}
    numbers = list(columns)
    for begin in range(0, len(numbers), 60):
        some = numbers[begin : begin + 60]
        named = [columns[number].alias(str(number)) for number in some]
        table = frame.select("id", *named).orderBy("id").toArrow()
        found |= {number: table.column(str(number)).to_pylist() for number in some}
    return found


@pytest.fixture(scope="module")
def in_arrow(frame: DataFrame) -> dict[int, tuple[list[bool], int]]:
    """All filters in the Arrow function: one job for each way to cut the batch."""
    ways: dict[str | None, list[int]] = {}
    for number, filter_ in enumerate(FILTERS):
        cut = split_attributes(Policy("one", ((filter_,),)))
        # A job takes seconds: of the attributes to cut by, these four; else one part.
        known = sorted(({"id"} if cut is None else cut) & {"id", "int", "text", "float", "flag"})
        ways.setdefault(known[0] if known else None, []).append(number)
    assert len(ways) == 6
    found: dict[int, tuple[list[bool], int]] = {}
    for cut_by, numbers in ways.items():
        found |= _run(frame, cut_by, numbers)
    return found


def _run(frame: DataFrame, cut_by: str | None, numbers: list[int]) -> Any:
    types = {field.name: field.dataType for field in frame.schema.fields}
    row = RowColumns(types, F.lit(SALT), F.lit(NOW_SECONDS), "id")
    orders = {SALT_COLUMN: SALT, LEVEL_COLUMN: 1, JUDGED_COLUMN: 1, NOW_COLUMN: 0}
    orders[NOW_COLUMN] = round(NOW_SECONDS * 1e6)
    with_orders = frame.withColumns({name: F.lit(value) for name, value in orders.items()})
    with_orders = with_orders.withColumn("fate", F.lit(True))
    if cut_by is None:
        parts = with_orders.repartition(1)
    else:
        parts = with_orders.repartition(PARTITIONS, key_of(row, cut_by))
    tasks = {
        number: PolicyTask(Policy("one", ((FILTERS[number],),)), ("id",), ("id",), "fate")
        for number in numbers
    }

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        held = list(batches)
        for number, task in tasks.items():
            for result in task(iter(held)):
                tag = pa.array([number] * result.num_rows, pa.int32())
                yield pa.RecordBatch.from_arrays(
                    [tag, *result.columns],
                    names=["filter", "id", STAYS_COLUMN, NOTE_COLUMN],
                )

    schema = f"filter int, id bigint, {STAYS_COLUMN} boolean, {NOTE_COLUMN} string"
    table = parts.mapInArrow(run, schema).orderBy("filter", "id").toArrow().to_pylist()
    found: dict[int, tuple[list[bool], int]] = {}
    for number in numbers:
        own = [item for item in table if item["filter"] == number]
        notes = read_notes(item[NOTE_COLUMN] for item in own if item[NOTE_COLUMN])
        assert not [note.error for note in notes if note.error], FILTERS[number]
        found[number] = ([i[STAYS_COLUMN] for i in own], sum(note.odd for note in notes))
    return found


@pytest.mark.parametrize("name", sorted(filter_kinds()))
def test_a_filter_gives_the_same_on_events_on_arrow_and_on_spark(
    name: str,
    rows: Any,
    in_columns: dict[int, list[bool | None]],
    in_arrow: dict[int, tuple[list[bool], int]],
) -> None:
    if name in ON_SPARK_ONLY:
        return  # has a test of its own below
    numbers = [number for number, filter_ in enumerate(FILTERS) if filter_.name == name]
    assert numbers, f"{name} has no use in tests/reduction/samples.py"
    for number in numbers:
        filter_ = FILTERS[number]
        keep, odd = expected(filter_, rows)
        stays, unjudged = in_arrow[number]
        assert stays == keep, filter_
        assert unjudged == sum(odd), filter_
        if filter_.row_wise:
            answers = in_columns[number]
            assert [answer is None for answer in answers] == odd, filter_
            wanted = filter_.sense is Sense.KEEP
            assert [a is None or a is wanted for a in answers] == keep, filter_


def test_whole_numbers_beyond_doubles_are_compared_as_in_memory(spark: SparkSession) -> None:
    """Whole numbers from 2^53 on share a double with others; in memory all are doubles."""
    edge = 2**53
    values = [0, 2, 3, edge - 1, edge, edge + 1, 2**63 - 1]
    values += [-value for value in values] + [-(2**63)]
    schema = "id bigint, value bigint"
    frame = spark.createDataFrame(list(enumerate(values)), schema)
    row = RowColumns({f.name: f.dataType for f in frame.schema.fields}, F.lit(0), F.lit(0.0), "id")
    bounds = [2, 2.5, edge - 1, edge, edge + 2, -edge, 1 - edge, 1e300]

    def made(name: str, **parameters: Any) -> Filter:
        kind: Any = filter_kinds()[name]
        filter_: Filter = kind(Sense.KEEP, attribute="value", **parameters)
        return filter_

    compared = ("EQ", "NE", "LT", "LE", "GT", "GE")
    filters = [made(name, value=bound) for name in compared for bound in bounds]
    filters += [made("WITHIN", low=-edge, high=bound) for bound in bounds if bound > 0]
    filters += [made("INSET", values=(2, edge - 1)), made("INSET", values=(2, edge))]
    columns = [verdict(filter_, row) for filter_ in filters]
    named = [column.alias(str(n)) for n, column in enumerate(columns) if column is not None]
    table = frame.select("id", *named).orderBy("id").toArrow()
    rows: Any = Rows(frame)
    for number, filter_ in enumerate(filters):
        keep, _ = expected(filter_, rows)
        assert table.column(str(number)).to_pylist() == keep, filter_


def test_dates_beyond_64_bits_of_microseconds_cannot_be_judged(spark: SparkSession) -> None:
    day = F.date_from_unix_date(F.col("id").cast("int"))
    frame = spark.range(2**31 - 2, 2**31 - 1).select(day.alias("day"))
    row = RowColumns({"day": DateType()}, F.lit(0), F.lit(NOW_SECONDS), "day")
    verdicts = [verdict(OlderThan(Sense.DROP, time="day", age=1.0), row), hash_of(row, "day")]
    known = [column for column in verdicts if column is not None]
    assert frame.select(*known).collect() == [(None, None)]


def test_filters_that_look_at_other_rows_have_no_form_in_columns(
    in_columns: dict[int, list[bool | None]],
) -> None:
    for number, filter_ in enumerate(FILTERS):
        assert (number in in_columns) is filter_.row_wise, filter_
    assert set(USES) | ON_SPARK_ONLY == set(filter_kinds())


def test_a_predicate_that_fails_on_an_odd_row_cannot_judge_it(frame: DataFrame) -> None:
    types = {field.name: field.dataType for field in frame.schema.fields}
    row = RowColumns(types, F.lit(SALT), F.lit(NOW_SECONDS), "id")
    kind = filter_kinds()["SPARK_SQL"]
    answer = verdict(kind(Sense.DROP, predicate="1 / int > 0.4"), row)
    assert answer is not None
    found = frame.select("int", answer.alias("answer")).collect()
    assert {r["int"] for r in found if r["answer"] is None} == {None, 0}
    assert {r["int"] for r in found if r["answer"]} == {1, 2}


def test_a_note_goes_to_text_and_back() -> None:
    from headgate.spark.policies.policy_notes import Note, read_text, write_text

    note = Note(3, 0, 10, (7, 2), 1, {"a": list(range(2000))}, "state")
    assert read_notes([note.text(), note.text()]) == [note]
    assert read_text(write_text({"key": "x" * 10_000})) == {"key": "x" * 10_000}
    with pytest.raises(ValueError, match="not a note"):
        read_notes([json.dumps({"partition": 1})])
