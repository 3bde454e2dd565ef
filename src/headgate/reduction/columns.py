"""What the values of one Arrow column count as: the array half of `values`.

Each function answers for a whole column: the values, and which of them are known. A
column of another type, a column that is not there, a null and a NaN are not known.
Depends on pyarrow and numpy; no function loops over rows in Python, except over union
columns (attributes of mixed type) and keys that are unsigned 64-bit numbers, which are
read value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.reduction.hashing import (
    Hashes,
    hash_bytes,
    hash_fixed,
    hash_long,
    hash_longs,
    hash_texts,
)
from headgate.reduction.values import boolean_of, elements_of, is_long, key_of, number_of, text_of

__all__ = [
    "Booleans",
    "Hashed",
    "Keys",
    "Numbers",
    "Sets",
    "Texts",
    "hash_of",
    "read_booleans",
    "read_hashes",
    "read_keys",
    "read_numbers",
    "read_sets",
    "read_texts",
]

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Numbers:
    values: NDArray[np.float64]
    known: Mask

    def take(self, rows: Rows) -> Numbers:
        return Numbers(self.values[rows], self.known[rows])


@dataclass(frozen=True, slots=True)
class Booleans:
    values: Mask
    known: Mask

    def take(self, rows: Rows) -> Booleans:
        return Booleans(self.values[rows], self.known[rows])


@dataclass(frozen=True, slots=True)
class Texts:
    """`array` holds a text or a null for each row."""

    array: Any
    known: Mask

    def take(self, rows: Rows) -> Texts:
        return Texts(self.array.take(pa.array(rows)), self.known[rows])


@dataclass(frozen=True, slots=True)
class Keys:
    """Equal values have equal codes, 0 to `len(uniques) - 1`; -1 is not known."""

    codes: Rows
    uniques: Any

    @property
    def known(self) -> Mask:
        return self.codes >= 0

    @property
    def size(self) -> int:
        return len(self.uniques)

    def labels(self, codes: Sequence[int] | Rows) -> list[str]:
        """The keys of these codes, as `values.key_of` writes them. Cost: one loop over them."""
        if isinstance(self.uniques, list):
            return [self.uniques[code] for code in codes]
        chosen = self.uniques.take(pa.array(np.asarray(codes, np.int64)))
        return [key_of(value) or "" for value in chosen.to_pylist()]

    def take(self, rows: Rows) -> Keys:
        return Keys(self.codes[rows], self.uniques)


@dataclass(frozen=True, slots=True)
class Sets:
    """Every element with the row it belongs to; `known` says which rows hold a set."""

    rows: Rows
    elements: Keys
    known: Mask

    def take(self, rows: Rows) -> Sets:
        place = np.full(len(self.known), -1, np.int64)
        place[rows] = np.arange(len(rows))
        here = place[self.rows] >= 0
        return Sets(
            place[self.rows[here]], self.elements.take(np.flatnonzero(here)), self.known[rows]
        )


@dataclass(frozen=True, slots=True)
class Hashed:
    values: Hashes
    known: Mask

    def take(self, rows: Rows) -> Hashed:
        return Hashed(self.values[rows], self.known[rows])


def read_numbers(column: Any) -> Numbers:
    column = _plain(column)
    kind = column.type
    if pa.types.is_union(kind):
        read = [number_of(value) for value in column.to_pylist()]
        known = np.array([value is not None for value in read], np.bool_)
        return Numbers(np.array([value or 0.0 for value in read], np.float64), known)
    doubles = _as_doubles(column)
    if doubles is None:
        return Numbers(np.zeros(len(column)), np.zeros(len(column), np.bool_))
    values = _numpy(doubles, 0.0)
    known = _valid(doubles)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        known = known & ~np.isnan(values)
    return Numbers(values, known)


def read_texts(column: Any) -> Texts:
    column = _plain(column)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Texts(column, _valid(column))
    if kind == pa.string_view():
        return read_texts(column.cast(pa.large_string()))
    if pa.types.is_union(kind):
        return read_texts(pa.array([text_of(v) for v in column.to_pylist()], pa.large_string()))
    return Texts(pa.nulls(len(column), pa.string()), np.zeros(len(column), np.bool_))


def read_booleans(column: Any) -> Booleans:
    column = _plain(column)
    if pa.types.is_union(column.type):
        column = pa.array([boolean_of(v) for v in column.to_pylist()], pa.bool_())
    if not pa.types.is_boolean(column.type):
        return Booleans(np.zeros(len(column), np.bool_), np.zeros(len(column), np.bool_))
    return Booleans(_numpy(column, False), _valid(column))


def read_keys(column: Any) -> Keys:
    column = _plain(column)
    kind = column.type
    if pa.types.is_union(kind) or kind == pa.uint64():  # which may not fit into a long
        return _keys_one_by_one(column.to_pylist())
    if not _has_keys(kind):
        return Keys(np.full(len(column), -1, np.int64), [])
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = read_numbers(column)
        column = pa.array(numbers.values + 0.0, mask=~numbers.known)
    encoded = column.dictionary_encode()
    codes = _numpy(encoded.indices.cast(pa.int64()), -1)
    return Keys(codes, encoded.dictionary)


def read_sets(column: Any) -> Sets:
    column = _plain(column)
    kind = column.type
    if pa.types.is_union(kind):
        return _sets_one_by_one(column.to_pylist())
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        if pa.types.is_fixed_size_list(kind):
            return read_sets(column.cast(pa.list_(kind.value_type)))
        nothing = Keys(np.zeros(0, np.int64), [])
        return Sets(np.zeros(0, np.int64), nothing, np.zeros(len(column), np.bool_))
    rows = _numpy(pc.list_parent_indices(column).cast(pa.int64()), 0)
    return Sets(rows, read_keys(pc.list_flatten(column)), _valid(column))


def read_hashes(column: Any) -> Hashed:
    """The hash of each value, see `hashing`; whole numbers by type are hashed as such."""
    column = _plain(column)
    kind = column.type
    if pa.types.is_union(kind):
        return _hashes_one_by_one(column.to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_hashes(column)
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return Hashed(hash_longs(_numpy(column.cast(pa.int64()), 0)), _valid(column))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        instants = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        return Hashed(hash_longs(_numpy(instants.cast(pa.int64()), 0)), _valid(column))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = read_numbers(column)
        return Hashed(hash_longs((numbers.values + 0.0).view(np.int64)), numbers.known)
    if pa.types.is_boolean(kind):
        of = np.array([hash_fixed(False), hash_fixed(True)], np.uint64)
        return Hashed(of[_numpy(column, False).astype(np.int64)], _valid(column))
    if kind == pa.string_view() or kind == pa.uint64():
        return _hashes_one_by_one(column.to_pylist())
    return Hashed(np.zeros(len(column), np.uint64), np.zeros(len(column), np.bool_))


def hash_of(value: object) -> int | None:
    """The hash of one value; None for what has none."""
    if isinstance(value, str):
        return None if text_of(value) is None else hash_bytes(value.encode())
    if isinstance(value, bool):
        return hash_fixed(value)
    if isinstance(value, int) and is_long(value):
        return hash_long(value)
    key = key_of(value)
    if key is None:
        return None
    if key.startswith("d:"):
        return hash_long(int(key[2:]))
    return hash_fixed(number_of(value) or 0.0)


def _plain(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _valid(array: Any) -> Mask:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _numpy(array: Any, absent: Any) -> NDArray[Any]:
    filled = array.fill_null(absent) if array.null_count else array
    values: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return values


def _as_doubles(column: Any) -> Any | None:
    kind = column.type
    if kind == pa.float64():
        return column
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_decimal(kind):  # by way of text: the direct cast does not round to nearest
        return column.cast(pa.string()).cast(pa.float64())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        instants = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        return pc.divide(instants.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)
    return None


def _has_keys(kind: Any) -> bool:
    tests: tuple[Callable[[Any], bool], ...] = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_timestamp,
        pa.types.is_date,
    )
    return any(test(kind) for test in tests)


def _keys_one_by_one(values: Sequence[Any]) -> Keys:
    places: dict[str, int] = {}
    codes = np.full(len(values), -1, np.int64)
    for row, value in enumerate(values):
        key = key_of(value)
        if key is not None:
            codes[row] = places.setdefault(key, len(places))
    return Keys(codes, list(places))


def _sets_one_by_one(values: Sequence[Any]) -> Sets:
    sets = [elements_of(value) for value in values]
    rows = [row for row, elements in enumerate(sets) for _ in elements or ()]
    keys = _keys_one_by_one([element for elements in sets for element in elements or ()])
    return Sets(np.array(rows, np.int64), keys, np.array([s is not None for s in sets], np.bool_))


def _hashes_one_by_one(values: Sequence[Any]) -> Hashed:
    read = [hash_of(value) for value in values]
    known = np.array([value is not None for value in read], np.bool_)
    return Hashed(np.array([value or 0 for value in read], np.uint64), known)


def _text_hashes(column: Any) -> Hashed:
    large = column.cast(pa.large_string())
    _, offsets, data = large.buffers()
    ends = np.frombuffer(offsets, np.int64, len(large) + 1, 8 * large.offset)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return Hashed(hash_texts(raw, ends[:-1], ends[1:]), _valid(column))
