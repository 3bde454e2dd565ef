"""Every filter and digest with parameters, and generated queues of every odd kind."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headgate.reduction import Filter, Sense, filter_kinds
from headgate.reduction.catalogue import digest_kinds
from headgate.reduction.digest_contract import DigestKind

ATTRIBUTES = ("int", "float", "text", "flag", "when", "tags", "price", "nothing", "absent")
SCALARS: dict[str, Any] = {
    "int": 3,
    "float": 1.5,
    "text": "ab",
    "flag": True,
    "when": 1_700_000_010.0,
}

# One or more ways to use each filter; a new filter without one fails the test below.
USES: dict[str, list[dict[str, Any]]] = {
    **{name: [{"value": v} for v in (3, 1.5, "ab", 1_700_000_010)] for name in ("GT", "GE", "LT")},
    "LE": [{"value": 3}, {"value": "b"}],
    "EQ": [{"value": v} for v in (3, 1.5, "ab", True)],
    "NE": [{"value": v} for v in (3, "ab", False)],
    "MATCH": [{"pattern": "^a+b?$"}, {"pattern": "(a+)+$"}],
    "WITHIN": [{"low": 1, "high": 4}],
    "INSET": [{"values": (1.0, 3.0, 7.5)}, {"values": ("ab", "é")}, {"values": (True,)}],
    "CONTAIN": [{"value": "a"}, {"value": 2}],
    "SUBSET": [{"values": ("a", "b")}, {"values": (1.0, 2.0)}],
    "SUPSET": [{"values": ("a", "b")}, {"values": (2.0,)}],
    "FIRST": [{"values": ("ab", "a"), "group": g} for g in (None, "int", "nothing")],
    "LAST": [{"values": (1.0, 2.0, 3.0), "group": g} for g in (None, "text")],
    "UNIQ": [{"group": g} for g in (None, "int", "text", "nothing")],
    "GUNIQ": [{"group": g} for g in (None, "int", "float")],
    "DELTA": [
        {"change": 1.5, "since": since, "group": g}
        for since in ("previous", "selected")
        for g in (None, "flag", "text")
    ],
    "LATEST": [{"window": 5}, {"window": 2, "group": "text"}],
    "EVERY": [{"count": 3}, {"count": 2, "group": "int"}],
    "RANDOM": [{"fraction": 0.3, "identity": i, "seed": 7} for i in (None, *ATTRIBUTES)],
    "LATEST_PER_KEY": [{"group": "int"}, {"group": "float", "window": 2}],
    "SAMPLE_PER_KEY": [{"fraction": 0.5, "group": g} for g in ("int", "text", "when")],
    "DEDUPLICATE": [{"within": 5.0, "time": "when", "group": g} for g in (None, "flag")],
    "RATE_LIMIT": [{"count": 2, "per": 7.0, "time": "when", "group": g} for g in (None, "int")],
    "OLDER_THAN": [{"age": 10.0, "time": "when"}, {"age": 1.0, "time": "float"}],
    "TOP_K": [{"count": 4}, {"count": 1, "group": "text", "order": "smallest"}],
}
ON_SPARK_ONLY = {"SPARK_SQL"}


def all_filters() -> list[Filter]:
    """Every use of every filter, on every attribute, in both senses."""
    found = []
    for name, uses in USES.items():
        kind = filter_kinds()[name]
        takes = "attribute" in kind.__dataclass_fields__
        for number, use in enumerate(uses):
            for attribute in ATTRIBUTES if takes else (None,):
                given = use | ({"attribute": attribute} if takes else {})
                found.append(kind(Sense.KEEP if number % 2 else Sense.DROP, **given))
    return found


def all_digests() -> list[DigestKind]:
    return [
        kind(attribute=attribute if kind.needs_attribute else None)
        for kind in digest_kinds().values()
        for attribute in (("int", "float", "text", "nothing") if kind.needs_attribute else (None,))
    ]


def batch(rows: int, seed: int) -> Any:
    """Columns of every type, with nulls, NaN, infinities, ties and times that run back."""
    rng = random.Random(seed)

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else rng.choice(values) for _ in range(rows)]

    start = datetime.fromtimestamp(1_700_000_000, UTC)
    times = [
        None if rng.random() < 0.1 else start + timedelta(seconds=row + rng.choice((0, 0, 0, -4)))
        for row in range(rows)
    ]
    texts = ["a", "ab", "aab", "b", "", "é", "x" * 40, "a" * 33 + "!"]
    return pa.record_batch(
        {
            "int": pa.array(some([-1, 0, 1, 2, 3, 4, 2**53 + 1, 2**53]), pa.int64()),
            "float": pa.array(
                some([0.0, -0.0, 1.5, 2.0, 2.25, 7.5, math.nan, math.inf, -math.inf, 1e300])
            ),
            "text": pa.array(some(texts), pa.string()),
            "flag": pa.array(some([True, False]), pa.bool_()),
            "when": pa.array(times, pa.timestamp("us", "UTC")),
            "tags": pa.array(some([["a"], ["a", "b"], [], ["c", None], ["b", "b"]])),
            "price": pa.array(some([Decimal("1.10"), Decimal("2.00"), Decimal("3.35")])),
            "nothing": pa.nulls(rows),
        }
    )


def mixed_events(rows: int, seed: int) -> list[dict[str, Any]]:
    """Events whose attributes are of every kind, missing or nonsense."""
    rng = random.Random(seed)
    odd = [None, "ab", "a", 3, 3.0, 1.5, True, False, ["a", "b"], [1, 2.0], math.nan, 2**60, -4]
    odd += [datetime(2023, 11, 14, 22, 13, 25, tzinfo=UTC), "\ud800", b"x", {"a": 1}, []]
    odd += [2**63, 10**30, 10**400, object()]
    names = ("int", "float", "text", "flag", "when", "tags")
    return [{name: rng.choice(odd) for name in names if rng.random() < 0.9} for _ in range(rows)]
