"""What each filter selects, on queues small enough to check by eye."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.reduction import Sense, filter_kinds
from headgate.reduction.contract import Context
from headgate.reduction.queues import as_queue, events_to_batch


def stays(name: str, queue_: list[Any], sense: str = "keep", **parameters: Any) -> list[Any]:
    """The values that stay, the same from events and from a batch."""
    kind = filter_kinds()[name]
    if "attribute" in kind.__dataclass_fields__:
        parameters.setdefault("attribute", "v")
    filter_ = kind(Sense(sense), **parameters)
    events = [value if isinstance(value, dict) else {"v": value} for value in queue_]
    found = []
    for queue in (as_queue(events), as_queue(events_to_batch(events))):
        keep = filter_.select(queue, Context()).keep
        found.append([value for value, stay in zip(queue_, keep, strict=True) if stay])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("name", "kept"),
    [("GT", [3]), ("GE", [2, 3]), ("EQ", [2]), ("NE", [1, 3]), ("LT", [1]), ("LE", [1, 2])],
)
def test_comparisons(name: str, kept: list[int]) -> None:
    assert stays(name, [1, 2, 3], value=2) == kept
    assert stays(name, [1, 2, 3], "drop", value=2) == [v for v in (1, 2, 3) if v not in kept]
    texts = {1: "a", 2: "b", 3: "é"}
    assert stays(name, list(texts.values()), value="b") == [texts[v] for v in kept]


def test_match_is_a_search_and_anchors_work() -> None:
    assert stays("MATCH", ["AP-1", "x AP-2", "lib"], pattern="AP-[0-9]") == ["AP-1", "x AP-2"]
    assert stays("MATCH", ["AP-1", "x AP-2", "lib"], pattern="^AP") == ["AP-1"]


def test_a_catastrophic_expression_is_matched_in_linear_time() -> None:
    """Backtracking would need 2^50 steps here; RE2 needs about 50."""
    assert stays("MATCH", ["a" * 50 + "!"], pattern="^(a+)+$") == []


def test_within_in_both_senses() -> None:
    assert stays("WITHIN", [49, 50, 75, 100, 101], low=50, high=100) == [50, 75, 100]
    assert stays("WITHIN", [49, 50, 75, 100, 101], "drop", low=50, high=100) == [49, 101]


def test_set_filters() -> None:
    assert stays("INSET", ["a", "b", "c"], "drop", values=("a", "b")) == ["c"]
    sets = [["a"], ["a", "b"], ["c"], []]
    assert stays("CONTAIN", sets, value="a") == [["a"], ["a", "b"]]
    assert stays("SUBSET", sets, values=("a", "b")) == [["a"], ["a", "b"], []]
    assert stays("SUPSET", sets, values=("a", "b")) == [["a", "b"]]
    assert stays("CONTAIN", ["roamed", "left"], value="oam") == ["roamed"]


def test_first_and_last_leave_other_values_alone() -> None:
    queue = ["x", "left", "y", "gone", "left"]
    assert stays("FIRST", queue, values=("left", "gone")) == ["x", "left", "y"]
    assert stays("LAST", queue, values=("left", "gone")) == ["x", "y", "left"]


def test_uniq_and_guniq() -> None:
    assert stays("UNIQ", [1, 1, 2, 2, 1]) == [1, 2, 1]
    assert stays("GUNIQ", [1, 1, 2, 2, 1, 3]) == [1, 2, 3]
    pairs = [{"v": v, "g": g} for v, g in ((1, "a"), (1, "b"), (1, "a"), (2, "a"), (1, "b"))]
    assert stays("UNIQ", pairs, group="g") == [pairs[0], pairs[1], pairs[3]]
    assert stays("GUNIQ", pairs, group="g") == [pairs[0], pairs[1], pairs[3]]


def test_delta_since_previous_misses_a_slow_drift_and_since_selected_does_not() -> None:
    drift = [0, 1, 2, 3, 4, 5, 20]
    assert stays("DELTA", drift, change=3) == [0, 20]
    assert stays("DELTA", drift, change=3, since="selected") == [0, 3, 20]


def test_latest_every_and_their_groups() -> None:
    assert stays("LATEST", [1, 2, 3, 4], window=2) == [3, 4]
    assert stays("EVERY", [1, 2, 3, 4, 5], count=3) == [1, 4]
    assert stays("EVERY", [1, 2, 3, 4, 5], "drop", count=3) == [2, 3, 5]
    cars = [{"v": v, "car": car} for v, car in ((1, "a"), (2, "b"), (3, "a"), (4, "c"))]
    assert stays("LATEST_PER_KEY", cars, group="car") == cars[1:]


def test_random_drops_about_the_fraction_and_another_salt_draws_again() -> None:
    filter_ = filter_kinds()["RANDOM"](Sense.DROP, fraction=0.25, identity="v", seed=1)
    queue = as_queue(events_to_batch([{"v": n} for n in range(10_000)]))
    first = filter_.select(queue, Context(salt=1)).keep
    second = filter_.select(queue, Context(salt=2)).keep
    assert first.mean() == pytest.approx(0.75, abs=0.02)
    assert (first & second).mean() == pytest.approx(0.75**2, abs=0.02)


def test_sample_per_key_keeps_whole_keys() -> None:
    queue = [{"user": n % 50, "n": n} for n in range(500)]
    kept = stays("SAMPLE_PER_KEY", queue, fraction=0.5, group="user")
    users = {event["user"] for event in kept}
    assert 10 < len(users) < 40
    assert len(kept) == 10 * len(users)


def test_deduplicate_counts_from_what_was_selected() -> None:
    queue = [{"v": "alarm", "t": t} for t in (0, 4, 8, 12, 21, 20, 23)]
    kept = stays("DEDUPLICATE", queue, within=10.0, time="t")
    assert [event["t"] for event in kept] == [0, 12, 23]


def test_rate_limit_per_key() -> None:
    queue = [{"k": k, "t": t} for k, t in (("a", 0), ("a", 1), ("b", 1), ("a", 2), ("a", 10))]
    kept = stays("RATE_LIMIT", queue, count=2, per=10.0, time="t", group="k")
    assert kept == [queue[0], queue[1], queue[2], queue[4]]


def test_older_than_takes_the_newest_event_for_now() -> None:
    queue = [{"t": t} for t in (0, 5, 9, 10)]
    assert stays("OLDER_THAN", queue, "drop", age=5.0, time="t") == queue[1:]


def test_top_k_keeps_arrival_order_and_the_earlier_of_equals() -> None:
    assert stays("TOP_K", [1, 9, 5, 9, 7], count=2) == [9, 9]
    queue = [{"v": v, "n": n} for n, v in enumerate((5, 7, 7, 7))]
    assert [event["n"] for event in stays("TOP_K", queue, count=2)] == [1, 2]
    assert stays("TOP_K", [4, 1, 3], count=1, order="smallest") == [1]
