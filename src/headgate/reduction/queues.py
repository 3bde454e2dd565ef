"""A queue of events in arrival order, plain or as an Arrow batch, and cuts of it.

Filters never change a queue: they say which rows they select. The next filter gets a
cut, which shares what was already read of the columns. `positions` is where each row
stood in the whole queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import UsageError
from headgate.reduction import columns
from headgate.reduction.values import Event, is_long, kind_of, text_of

__all__ = ["ColumnQueue", "EventQueue", "Queue", "as_queue", "events_to_batch"]

Rows: TypeAlias = NDArray[np.int64]
_Read = TypeVar(
    "_Read",
    columns.Numbers,
    columns.Texts,
    columns.Booleans,
    columns.Keys,
    columns.Sets,
    columns.Hashed,
)

_LARGEST_EXACT = 1 << 53


class EventQueue:
    """Plain events: mappings from attribute to value."""

    def __init__(self, events: Sequence[Event], positions: Rows | None = None) -> None:
        self.events = events
        self.positions = np.arange(len(events)) if positions is None else positions

    def __len__(self) -> int:
        return len(self.events)

    def values(self, attribute: str) -> list[Any]:
        """The attribute of every event; None where it is missing."""
        return [event.get(attribute) for event in self.events]

    def take(self, rows: Rows) -> EventQueue:
        return EventQueue([self.events[row] for row in rows.tolist()], self.positions[rows])

    def content(self) -> Sequence[Event]:
        return self.events


class ColumnQueue:
    """An Arrow record batch. Columns are read when asked for, and once."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._rows: Rows | None = None
        self._read: dict[tuple[str, str], Any] = {}

    def __len__(self) -> int:
        return int(self._batch.num_rows) if self._rows is None else len(self._rows)

    @property
    def positions(self) -> Rows:
        return np.arange(self._batch.num_rows) if self._rows is None else self._rows

    def take(self, rows: Rows) -> ColumnQueue:
        cut = ColumnQueue(self._batch)
        cut._rows = rows if self._rows is None else self._rows[rows]
        cut._read = self._read
        return cut

    def content(self) -> Any:
        return self._batch if self._rows is None else self._batch.take(pa.array(self._rows))

    def numbers(self, attribute: str) -> columns.Numbers:
        return self._get("numbers", attribute, columns.read_numbers)

    def texts(self, attribute: str) -> columns.Texts:
        return self._get("texts", attribute, columns.read_texts)

    def booleans(self, attribute: str) -> columns.Booleans:
        return self._get("booleans", attribute, columns.read_booleans)

    def keys(self, attribute: str) -> columns.Keys:
        return self._get("keys", attribute, columns.read_keys)

    def sets(self, attribute: str) -> columns.Sets:
        return self._get("sets", attribute, columns.read_sets)

    def hashes(self, attribute: str) -> columns.Hashed:
        return self._get("hashes", attribute, columns.read_hashes)

    def _get(self, what: str, attribute: str, read: Callable[[Any], _Read]) -> _Read:
        whole: _Read | None = self._read.get((what, attribute))
        if whole is None:
            whole = read(self._column(attribute))
            self._read[what, attribute] = whole
        return whole if self._rows is None else whole.take(self._rows)

    def _column(self, attribute: str) -> Any:
        places = self._batch.schema.get_all_field_indices(attribute)
        if len(places) > 1:
            raise UsageError(f"the batch has {len(places)} columns {attribute!r}; rename them")
        if not places:
            return pa.nulls(self._batch.num_rows)
        return self._batch.column(places[0])


Queue: TypeAlias = EventQueue | ColumnQueue


def as_queue(events: Any) -> Queue:
    """A sequence of mappings, a record batch or a table as a queue."""
    if isinstance(events, pa.RecordBatch | pa.Table):
        return ColumnQueue(events)
    return EventQueue(events if isinstance(events, Sequence) else list(events))


def events_to_batch(events: Sequence[Event]) -> Any:
    """Plain events as a record batch; an attribute of mixed types becomes a union column.

    Texts that UTF-8 cannot hold, and values that are neither scalars nor lists of
    scalars, become nulls. Raises nothing. Cost: a loop over the values.
    """
    names = dict.fromkeys(name for event in events for name in event)
    arrays = [_as_array([event.get(name) for event in events]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _as_array(values: list[Any]) -> Any:
    parts: dict[str, list[Any]] = {}
    tags = [_tag(value) for value in values]
    present = [tag for tag in dict.fromkeys(tags) if tag]
    if set(present) == {"int", "float"} and all(
        abs(v) <= _LARGEST_EXACT for v, tag in zip(values, tags, strict=True) if tag == "int"
    ):
        values = [float(v) if tag == "int" else v for v, tag in zip(values, tags, strict=True)]
        tags = ["float" if tag else "" for tag in tags]
        present = ["float"]
    for tag in present:
        parts[tag] = [v if t == tag else None for v, t in zip(values, tags, strict=True)]
    arrays = [_typed(part, tag) for tag, part in parts.items()]
    if not arrays:
        return pa.nulls(len(values))
    if len(arrays) == 1:
        return arrays[0]
    place = {tag: number for number, tag in enumerate(parts)}
    codes = pa.array([place.get(tag, 0) for tag in tags], pa.int8())
    return pa.UnionArray.from_sparse(codes, arrays)


def _tag(value: Any) -> str:
    """Which column of a union the value goes to; empty where it cannot go to any."""
    kind = kind_of(value)
    if kind is None:
        return "float" if isinstance(value, float) else ""
    if isinstance(value, int) and kind == "number":
        return "int" if is_long(value) else "float"
    if kind == "text":
        return "text" if text_of(value) is not None else ""
    return "float" if kind == "number" else str(kind)


def _typed(values: list[Any], tag: str) -> Any:
    if tag == "float":
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if tag == "time":
        return pa.array([_instant(v) for v in values], pa.timestamp("us", "UTC"))
    if tag == "set":
        return _sets(values)
    kinds = {"int": pa.int64(), "text": pa.string(), "boolean": pa.bool_()}
    return pa.array(values, kinds[tag])


def _instant(value: Any) -> Any:
    if value is None or isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _sets(values: list[Any]) -> Any:
    elements = [element for value in values for element in value or ()]
    offsets = np.cumsum([0, *(len(value or ()) for value in values)])
    mask = pa.array([value is None for value in values])
    return pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), _as_array(elements), mask=mask
    )
