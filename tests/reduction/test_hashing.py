"""The hash is Spark's: numbers below were computed by Spark 4.3's xxhash64 and pmod."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headgate.reduction.columns import hash_of, read_hashes
from headgate.reduction.hashing import fates, hash_bytes, hash_long, salted

SPARK = [
    (0, -5252525462095825812),
    (1, -7001672635703045582),
    (-7, -1663473129717591079),
    (2**60, 5899988024947168365),
    (0.0, -5252525462095825812),
    (1.5, 7738255526519901366),
    (-0.0, -5252525462095825812),
    (1e300, -6660537626403695510),
    (0.1, -4684694357984311926),
    ("", -7444071767201028348),
    ("a", -8582455328737087284),
    ("ab" * 4, 7949629455567757494),
    ("é" * 20, -8542241973752629332),
    ("x" * 100, 365730103971579591),
    (True, -6698625589789238999),
    (False, 3614696996920510707),
]


@pytest.mark.parametrize(("value", "expected"), SPARK, ids=lambda v: str(v)[:12])
def test_values_and_columns_hash_as_on_spark(value: Any, expected: int) -> None:
    assert hash_of(value) == expected % 2**64
    assert int(read_hashes(pa.array([value, None])).values[0]) == expected % 2**64


def test_fates_are_the_gates_formula_on_spark() -> None:
    numbers = pa.array([0, 1, -7, 2**60, 5])
    expected = [889664, 408002, 504802, 274896, 511817]
    assert fates(read_hashes(numbers).values, 99).tolist() == expected
    assert [salted(hash_long(n), 99) for n in numbers.to_pylist()] == expected


def test_texts_of_every_length_and_slices_hash_alike() -> None:
    texts = ["x" * length + "é" for length in range(100)]
    column = pa.array(["cut off", *texts, "cut off"]).slice(1, 100)
    assert read_hashes(column).values.tolist() == [hash_bytes(t.encode()) for t in texts]
