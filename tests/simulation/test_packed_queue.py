"""A queue in front of one server, with literal times, and its guarantees on any load."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.reduction import Policy, PolicyBuilder, use
from headgate.simulation.packed_queue import BudgetPacker, Packer, TurnaroundPacker, run_queue


def every_second() -> Policy:
    return PolicyBuilder("every second").level(use("EVERY", "drop", count=2)).build()


def one_second(_event: object, _start: float) -> float:
    return 1.0


def events(*times: float) -> list[tuple[float, dict[str, int]]]:
    return [(time, {"number": number}) for number, time in enumerate(times)]


def test_an_idle_server_begins_at_once() -> None:
    trace = run_queue(events(0.0, 5.0, 9.0), 2, one_second)
    assert trace.served == [(1.0, 1.0), (6.0, 1.0)]
    assert (trace.offered, trace.lost, trace.waiting) == (3, 0, 1)


def test_a_busy_server_makes_events_wait_in_order() -> None:
    trace = run_queue(events(0.0, 0.5, 0.75, 4.0), 2, one_second)
    assert trace.served == [(1.0, 1.0), (2.0, 1.5), (3.0, 2.25)]
    assert trace.busy_seconds == 4.0


def test_drop_tail_loses_the_event_that_finds_the_queue_full() -> None:
    trace = run_queue(events(0.0, 0.1, 0.2, 0.3, 9.0), 2, one_second)
    assert (trace.lost, len(trace.served)) == (1, 3)
    assert trace.packings == []


def test_a_packing_makes_room_and_what_is_in_service_is_safe() -> None:
    packer = TurnaroundPacker(every_second())
    trace = run_queue(events(0.0, 0.1, 0.2, 0.3, 9.0), 2, one_second, packer)
    [packed] = trace.packings
    assert (packed.seconds, packed.turnaround_seconds, packed.dropped_share) == (0.3, None, 0.5)
    # number 0 was in service; of 1 and 2 the first went; 3 came in
    assert [done - latency for done, latency in trace.served] == pytest.approx([0.0, 0.2, 0.3])


def test_the_packing_by_budget_leaves_the_budget() -> None:
    trace = run_queue(events(*[0.0] * 12), 10, one_second, BudgetPacker(every_second(), 3))
    [packed] = trace.packings
    assert len(packed.packing.kept_rows) == 3
    assert packed.packing.at_random == 2
    assert trace.waiting == 5  # the budget, the event that came, the one in service


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: TurnaroundPacker(every_second(), seed=1),
        lambda: BudgetPacker(every_second(), 2, seed=1),
        lambda: BudgetPacker(every_second(), 4, seed=1),  # no room: as drop-tail, but packed
    ],
)
@given(gaps=st.lists(st.floats(0.0, 3.0), max_size=60))
def test_every_event_is_served_lost_or_waits(
    make: Callable[[], Packer | None], gaps: list[float]
) -> None:
    times = [sum(gaps[: end + 1]) for end in range(len(gaps))]
    trace = run_queue(events(*times), 4, one_second, make())
    assert trace.offered == len(times) == len(trace.served) + trace.lost + trace.waiting
    assert trace.waiting <= 5
    assert all(latency >= 1.0 - 1e-9 for latency in trace.latencies())
