"""Reducing a queue: order, counts, budgets, the worst case, and state between packings."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import UsageError
from headgate.reduction import (
    Packing,
    PackingRequest,
    Policy,
    PolicyBuilder,
    events_to_batch,
    make_room,
    reduce_to_budget,
    reduce_to_level,
    use,
)
from tests.reduction.samples import batch, mixed_events


def pulse() -> Policy:
    """The paper's Figure 2."""
    return (
        PolicyBuilder("pulse", attribute="PulseRate")
        .digest("MEAN")
        .digest("COUNT")
        .level(use("DELTA", "keep", change=5))
        .level(use("WITHIN", "drop", low=50, high=100))
        .level(use("LATEST", "keep", window=3))
        .build()
    )


PULSES = [{"PulseRate": v} for v in (70, 72, 80, 81, 130, 131, 40, 120, 60, 150, 20)]


def rates(packing: Packing) -> list[int]:
    kept = packing.kept if isinstance(packing.kept, list) else packing.kept.to_pylist()
    return [event["PulseRate"] for event in kept]


@pytest.mark.parametrize("convert", [list, events_to_batch], ids=["events", "arrow"])
def test_the_papers_pulse_policy_level_by_level(convert: Any) -> None:
    queue = convert(PULSES)
    assert rates(reduce_to_level(queue, pulse(), 0)) == [e["PulseRate"] for e in PULSES]
    assert rates(reduce_to_level(queue, pulse(), 1)) == [70, 80, 130, 40, 120, 60, 150, 20]
    assert rates(reduce_to_level(queue, pulse(), 2)) == [130, 40, 120, 150, 20]
    packing = reduce_to_level(queue, pulse(), 3)
    assert rates(packing) == [120, 150, 20]
    assert [(c.level, c.name, c.offered, c.dropped) for c in packing.counts] == [
        (1, "DELTA", 11, 3),
        (2, "WITHIN", 8, 3),
        (3, "LATEST", 5, 2),
    ]
    gone = [72, 81, 131, 70, 80, 60, 130, 40]
    expected = {"dropped": 8, "MEAN(PulseRate)": sum(gone) / 8, "COUNT": 8}
    assert packing.digest.results()[""] == expected
    assert packing.keep_ratios() == [8 / 11, 5 / 11, 3 / 11]


@pytest.mark.parametrize("convert", [list, events_to_batch], ids=["events", "arrow"])
def test_a_budget_takes_the_lowest_level_that_fits(convert: Any) -> None:
    queue = convert(PULSES)
    assert reduce_to_budget(queue, pulse(), 11).level == 0
    assert rates(reduce_to_budget(queue, pulse(), 6)) == [130, 40, 120, 150, 20]
    over = reduce_to_budget(queue, pulse(), 6, level=1)
    assert (over.level, over.at_random, len(over.kept_rows)) == (1, 2, 6)
    assert over.digest.dropped == 5
    assert rates(over) == [v for v in (70, 80, 130, 40, 120, 60, 150, 20) if v in rates(over)]
    assert reduce_to_budget(queue, pulse(), 0).digest.dropped == 11


def test_if_no_level_helps_everything_is_dropped_and_digested() -> None:
    policy = PolicyBuilder("none", attribute="v").level(use("LT", "drop", value=0)).build()
    packing = make_room([{"v": 1}, {"v": 2}], policy, 1)
    assert packing.worst_case
    assert packing.kept == []
    assert packing.digest.results() == {"": {"dropped": 2}}


def test_make_room_goes_up_when_its_level_drops_nothing() -> None:
    policy = (
        PolicyBuilder("two", attribute="v")
        .level(use("LT", "drop", value=0))
        .level(use("GT", "drop", value=1))
        .build()
    )
    packing = make_room([{"v": 1}, {"v": 2}], policy, 1)
    assert (packing.level, packing.kept, packing.worst_case) == (2, [{"v": 1}], False)


WIDE = (
    PolicyBuilder("wide", group="text", time="when", identity="int", digest_group="flag")
    .level(use("UNIQ", "keep", attribute="float"), use("GT", "keep", attribute="int", value=-1))
    .level(
        use("RATE_LIMIT", "keep", count=4, per="10s"),
        use("MATCH", "drop", attribute="text", pattern="^b"),
    )
    .level(use("RANDOM", "drop", fraction=0.4), use("OLDER_THAN", "drop", age="20s"))
    .level(use("DELTA", "keep", attribute="int", change=1, since="selected"))
    .digest("SUM", attribute="int")
    .digest("QUANTILES", attribute="float")
    .build()
)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    level=st.integers(0, 4),
    budget=st.integers(0, 40),
    stateful=st.booleans(),
    mixed=st.booleans(),
)
def test_events_and_arrow_pack_alike_and_every_event_is_accounted_for(
    seed: int, level: int, budget: int, stateful: bool, mixed: bool
) -> None:
    events = mixed_events(40, seed) if mixed else batch(40, seed).to_pylist()
    columns = events_to_batch(events) if mixed else batch(40, seed)
    request = PackingRequest(salt=seed, state={} if stateful else None)
    plain = reduce_to_budget(events, WIDE, budget, level, request)
    arrow = reduce_to_budget(columns, WIDE, budget, level, request)
    assert plain.kept_rows.tolist() == arrow.kept_rows.tolist()
    assert plain.counts == arrow.counts
    assert plain.digest == arrow.digest
    assert json.dumps(plain.state) == json.dumps(arrow.state)
    assert plain.kept_rows.tolist() == sorted(plain.kept_rows.tolist())
    assert plain.offered == len(plain.kept) + plain.digest.dropped
    assert plain.dropped == plain.at_random + sum(count.dropped for count in plain.counts)
    assert len(plain.kept) <= budget


def test_state_goes_through_json_from_batch_to_batch() -> None:
    policy = PolicyBuilder("s", attribute="v").level(use("UNIQ", "keep")).build()
    first = reduce_to_level([{"v": 1}, {"v": 2}], policy, 1, PackingRequest(state={}))
    carried = json.loads(json.dumps(first.state))
    second = reduce_to_level([{"v": 2}, {"v": 3}], policy, 1, PackingRequest(state=carried))
    assert second.kept == [{"v": 3}]
    alone = reduce_to_level([{"v": 2}, {"v": 3}], policy, 1)
    assert alone.state is None
    assert len(alone.kept) == 2


def test_the_same_salt_drops_the_same_and_packings_can_be_pickled() -> None:
    policy = PolicyBuilder("r").level(use("RANDOM", "drop", fraction=0.5)).build()
    queue = [{"n": n} for n in range(200)]
    one = reduce_to_level(queue, policy, 1, PackingRequest(salt=3))
    again = reduce_to_level(queue, policy, 1, PackingRequest(salt=3))
    other = reduce_to_level(queue, policy, 1, PackingRequest(salt=4))
    assert one.kept == again.kept
    assert one.kept != other.kept
    assert pickle.loads(pickle.dumps(one)).kept == one.kept
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_impossible_requests_say_what_exists() -> None:
    with pytest.raises(UsageError, match="levels 1 to 3, not 4"):
        reduce_to_level(PULSES, pulse(), 4)
    with pytest.raises(UsageError, match="at least 0"):
        reduce_to_budget(PULSES, pulse(), -1)


def test_odd_events_are_counted_and_stay() -> None:
    packing = reduce_to_level([{"PulseRate": "?"}, {}, *PULSES], pulse(), 2)
    assert [count.odd for count in packing.counts] == [2, 2]
    assert packing.kept[:2] == [{"PulseRate": "?"}, {}]


def test_alerts_survive_where_random_drop_loses_them() -> None:
    """Rare values under a budget of a fifth: the policy keeps them all."""
    events = [{"n": n, "v": 200 if n % 97 == 0 else 70} for n in range(5000)]
    policy = (
        PolicyBuilder("alerts", attribute="v", identity="n")
        .level(use("WITHIN", "drop", low=50, high=100))
        .build()
    )
    alerts = sum(event["v"] == 200 for event in events)
    kept = reduce_to_budget(events, policy, 1000).kept
    at_random = reduce_to_budget(events, policy, 1000, level=0).kept
    assert sum(event["v"] == 200 for event in kept) == alerts
    assert sum(event["v"] == 200 for event in at_random) == pytest.approx(alerts / 5, abs=12)
