"""Every digest is found, merges in any order, and survives JSON; foreign bytes are checked."""

from __future__ import annotations

import json
import math
import pickle
import random
from fractions import Fraction
from statistics import fmean, pvariance
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import UsageError
from headgate.reduction import (
    Digest,
    DigestKind,
    DigestPlan,
    digest_kinds,
    digest_of,
    events_to_batch,
    merge_all,
    merge_digests,
)
from headgate.reduction.digests.quantiles import MAX_BUCKETS
from headgate.reduction.exact_sum import as_fraction, exact_squares, exact_sum
from headgate.reduction.queues import as_queue
from headgate.reduction.sketch_bytes import bytes_to_json
from headgate.reduction.summary import MAX_GROUPS, OTHERS
from tests.reduction.samples import all_digests, batch, mixed_events

finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.lists(
    st.one_of(finite, st.integers(-5, 5), st.sampled_from(["a", "b", None, True])), max_size=12
)
every_digest = pytest.mark.parametrize("kind", all_digests(), ids=lambda k: k.title)
each_kind = pytest.mark.parametrize("name", digest_kinds())


def made(name: str) -> DigestKind:
    kind = digest_kinds()[name]
    return kind(attribute="v" if kind.needs_attribute else None)


def content(kind: DigestKind, items: list[Any]) -> Any:
    return kind.of(as_queue([{"v": item} for item in items]))


def test_the_papers_digests_and_ours_are_there() -> None:
    assert {"MAX", "MIN", "COUNT", "SUM", "MEAN"} <= set(digest_kinds())
    assert {"VARIANCE", "DISTINCT", "QUANTILES", "FREQUENT"} <= set(digest_kinds())


@each_kind
@settings(max_examples=40, deadline=None)
@given(a=values, b=values, c=values)
def test_merging_is_associative_and_commutative(
    name: str, a: list[Any], b: list[Any], c: list[Any]
) -> None:
    kind = made(name)
    x, y, z = (content(kind, part) for part in (a, b, c))
    left = kind.merge(kind.merge(x, y), z)
    assert kind.result(left) == kind.result(kind.merge(x, kind.merge(y, z)))
    assert kind.result(left) == kind.result(kind.merge(z, kind.merge(y, x)))
    assert kind.result(left) == kind.result(content(kind, [*a, *b, *c]))
    assert kind.result(kind.merge(x, kind.nothing())) == kind.result(x)
    if name != "FREQUENT":  # its bytes, not its answers, depend on the order
        assert left == kind.merge(x, kind.merge(z, y))


@pytest.mark.parametrize("name", ["DISTINCT", "QUANTILES", "VARIANCE"])
def test_merging_large_parts_does_not_depend_on_the_order(name: str) -> None:
    kind, rng = made(name), random.Random(1)
    parts = [content(kind, [rng.lognormvariate(0, 40) for _ in range(900)]) for _ in range(6)]
    expected = None
    for seed in range(5):
        pool = list(parts)
        random.Random(seed).shuffle(pool)
        while len(pool) > 1:
            one = pool.pop(random.Random(seed + len(pool)).randrange(len(pool)))
            pool[0] = kind.merge(pool[0], one)
        expected = expected or pool[0]
        assert pool[0] == expected


@every_digest
def test_arrow_and_python_give_the_same_content(kind: DigestKind) -> None:
    for seed in range(3):
        data = batch(60, seed)
        assert kind.of(as_queue(data)) == kind.of(as_queue(data.to_pylist()))
        events = mixed_events(40, seed)
        assert kind.of(as_queue(events)) == kind.of(as_queue(events_to_batch(events)))


@every_digest
def test_contents_are_picklable_and_survive_json(kind: DigestKind) -> None:
    found = kind.of(as_queue(batch(50, 2)))
    assert pickle.loads(pickle.dumps((kind, found))) == (kind, found)
    assert kind.from_json(json.loads(json.dumps(kind.to_json(found)))) == found
    json.dumps(kind.result(found), allow_nan=False)


@each_kind
def test_memory_is_bounded(name: str) -> None:
    kind, rng = made(name), random.Random(3)
    total = kind.nothing()
    for _ in range(10):
        fresh = [rng.uniform(-1, 1) * 10 ** rng.randint(-300, 300) for _ in range(2000)]
        total = kind.merge(total, content(kind, fresh))
    assert len(json.dumps(kind.to_json(total))) < 30_000


@each_kind
@pytest.mark.parametrize(
    "junk", [-1, True, "x", "AAAA", [], [1, 2], {"count": 1}, {"count": -1, "sum": "0p0"}, 1e999,
             {"count": 1, "sum": "9p99999"}, {"count": 1, "sum": "1" * 5000 + "p0"}, "A" * 10**6,
             {"joined": 99, "zeros": 0, "positive": [], "negative": []},
             {"joined": 0, "zeros": 0, "positive": [[1, 2], [1, 2]], "negative": []}]
)  # fmt: skip
def test_foreign_contents_are_refused(name: str, junk: Any) -> None:
    kind = made(name)
    try:
        found = kind.from_json(junk)
    except ValueError:
        return
    kind.merge(found, kind.nothing())
    assert name in {"MAX", "MIN"}, "only a plain number is also a valid extreme"


@pytest.mark.parametrize("name", ["DISTINCT", "FREQUENT"])
@pytest.mark.parametrize("size", [0, 1, 300, 2000])
def test_damaged_sketches_are_refused_or_harmless(name: str, size: int) -> None:
    kind, rng = made(name), random.Random(size)
    whole = content(kind, [f"x{n}" for n in range(size)])
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(min(len(damaged), rng.choice([8, 40, 10**6])))] = rng.getrandbits(
                8
            )
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            found = kind.from_json(bytes_to_json(bytes(damaged)))
        except ValueError:
            continue
        kind.result(kind.merge(found, whole))
        assert len(json.dumps(kind.to_json(kind.merge(found, whole)))) < 100_000


@pytest.mark.parametrize("place", [3, 4])
def test_a_forged_size_is_refused_before_anything_is_allocated(place: int) -> None:
    kind = made("FREQUENT")
    forged = bytearray(content(kind, ["a", "b"]))
    forged[place] = 30
    with pytest.raises(ValueError, match="not a sketch of this size"):
        kind.from_json(bytes_to_json(bytes(forged)))


@settings(max_examples=60, deadline=None)
@given(st.lists(finite, max_size=20))
def test_sums_are_exact(numbers: list[float]) -> None:
    array = np.array(numbers, np.float64)
    assert as_fraction(exact_sum(array)) == sum(map(Fraction, numbers), Fraction(0))
    squares = sum((Fraction(n) ** 2 for n in numbers), Fraction(0))
    assert as_fraction(exact_squares(array), 2148) == squares


def test_results_are_right() -> None:
    numbers = [61.5, 72.0, 90.25, 101.0]
    results = {name: made(name).result(content(made(name), numbers)) for name in digest_kinds()}
    assert results["MAX"] == 101.0
    assert results["MIN"] == 61.5
    assert results["COUNT"] == 4
    assert results["SUM"] == math.fsum(numbers)
    assert results["MEAN"] == fmean(numbers)
    assert results["VARIANCE"] == pytest.approx(pvariance(numbers))
    assert results["DISTINCT"]["estimate"] == 4.0
    assert results["FREQUENT"][0]["estimate"] == 1


def test_quantiles_are_within_their_error() -> None:
    kind, rng = made("QUANTILES"), random.Random(5)
    numbers = sorted(rng.gauss(0, 1) * 10 ** rng.uniform(-3, 3) for _ in range(5000))
    found = kind.result(content(kind, numbers))
    for fraction in (0.05, 0.5, 0.95):
        true = numbers[math.ceil(fraction * 5000) - 1]
        assert found[f"{fraction:g}"] == pytest.approx(true, rel=found["relative_error"] + 1e-9)
    assert len(content(kind, numbers).positive) <= MAX_BUCKETS


def test_frequent_bounds_hold_in_any_order() -> None:
    kind, rng = made("FREQUENT"), random.Random(6)
    items = [int(rng.paretovariate(0.7)) % 5000 for _ in range(8000)]
    parts = [content(kind, items[n::8]) for n in range(8)]
    for seed in range(3):
        random.Random(seed).shuffle(parts)
        total = kind.nothing()
        for part in parts:
            total = kind.merge(total, part)
        top = kind.result(total)[0]
        assert top["lower"] <= items.count(1) <= top["upper"]
        assert top["value"] == "i:1"


def test_distinct_is_near_the_truth() -> None:
    found = made("DISTINCT").result(content(made("DISTINCT"), list(range(20_000))))
    assert found["lower"] <= 20_000 <= found["upper"]


PLAN = DigestPlan((made("MEAN"), made("COUNT")), group="g")


def events(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"g": group, "v": value} for group, value in pairs]


def test_a_digest_per_group_and_of_digests() -> None:
    one = digest_of(PLAN, as_queue(events(("a", 1), ("b", 5), (None, 7))))
    two = digest_of(PLAN, as_queue(events_to_batch(events(("a", 3), ("a", "?")))))
    whole = merge_all(PLAN, [one, two])
    assert whole.dropped == 5
    assert whole.results()["t:a"] == {"dropped": 3, "MEAN(v)": 2.0, "COUNT": 3}
    assert whole.results()[""]["dropped"] == 1
    assert Digest.from_bytes(PLAN, whole.to_bytes()) == whole


def test_a_group_attribute_that_no_event_has_is_no_group() -> None:
    ungrouped = [{"v": 1}, {"v": 3, "g": [1]}]
    for queue in (ungrouped, events_to_batch(ungrouped)):
        results = digest_of(PLAN, as_queue(queue)).results()
        assert results == {"": {"dropped": 2, "MEAN(v)": 2.0, "COUNT": 2}}


def test_without_digests_there_is_still_a_count() -> None:
    found = digest_of(DigestPlan(), as_queue(events(("a", 1), ("b", 2))))
    assert found.results() == {"": {"dropped": 2}}


def test_groups_are_bounded_and_the_choice_does_not_depend_on_the_order() -> None:
    parts = [
        digest_of(PLAN, as_queue(events(*((n, 1) for n in range(begin, begin + 700)))))
        for begin in (0, 400, 1300)
    ]
    forward = merge_all(PLAN, parts)
    assert forward == merge_all(PLAN, parts[::-1])
    assert forward == merge_digests(parts[1], merge_digests(parts[2], parts[0]))
    assert len(forward.groups) == MAX_GROUPS + 1
    assert OTHERS in forward.groups
    assert forward.dropped == 2100


def test_digests_of_different_policies_do_not_merge() -> None:
    with pytest.raises(UsageError, match="different policies"):
        merge_digests(Digest(PLAN), Digest(DigestPlan()))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"\x80\x04.", b'{"version":2}', b"[" * 100_000, b"null"]
)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (any message will do)
        Digest.from_bytes(PLAN, data)
