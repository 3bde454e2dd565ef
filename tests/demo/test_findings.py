from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.demo.findings import find, headline, ledger_sentence
from headgate.demo.recording import WITH, WITHOUT, Batch, Ledger, LedgerRow, Recording, per_second
from headgate.demo.scenario import FULL, Scenario, Settings
from headgate.errors import UsageError
from tests.demo.recordings import recording


def test_the_crowd_is_three_times_the_capacity_and_rows_add_up() -> None:
    scenario = Scenario(40.0, 3.0, 1000.0)
    assert scenario.crowd_per_second == 3000.0
    assert [scenario.phase_at(t) for t in (0.0, 6.0, 27.9, 28.1)] == [
        "calm",
        "crowd",
        "crowd",
        "after",
    ]
    assert scenario.arrived_before(-1.0) == 0.0
    assert scenario.arrived_before(6.0) == pytest.approx(2400.0)
    assert scenario.arrived_before(40.0) == pytest.approx(2400 + 22 * 3000 + 12 * 400)


def test_settled_latency_is_over_rows_of_the_late_crowd() -> None:
    found = find(recording())
    assert found.with_headgate is not None
    assert found.without is not None
    # From 6 + 0.4 * 22 = 14.8 s on: 2,000 rows at 3.0 s and 1,000 at 3.3 s.
    assert found.with_headgate.settled_latency_seconds == pytest.approx(3.1)
    assert found.without.settled_latency_seconds == pytest.approx(10.0)
    assert found.with_headgate.worst_latency_seconds == 4.0
    assert found.without.last_latency_seconds == 22.0


def test_rows_that_wait_are_those_that_no_batch_has_seen() -> None:
    found = find(recording())
    assert found.with_headgate is not None
    assert found.without is not None
    assert found.with_headgate.waiting_at_end == 73_200 - 18_200
    assert found.without.waiting_at_end == 73_200 - 6_800
    assert found.with_headgate.dropped == 12_000
    assert found.without.dropped == 0
    assert found.without.crowd_rows_per_second == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("row", "balances"),
    [
        (LedgerRow(4, 400, 400, 0), True),
        (LedgerRow(4, 399, 399, 0), False),  # Spark's source counted 400
        (LedgerRow(4, 400, 399, 0), False),  # where is the 400th?
        (LedgerRow(5, 400, 400, 0), False),  # batch 4 is not in the ledger
    ],
)
def test_the_ledger_is_held_against_spark_s_own_count(row: LedgerRow, balances: bool) -> None:
    made = recording()
    assert made.runs[WITH].ledger is not None
    made.runs[WITH].ledger = Ledger((*made.runs[WITH].ledger.rows[:-1], row))
    assert find(made).ledger_balances is balances
    assert ("DOES NOT BALANCE" in ledger_sentence(made, find(made))) is not balances


def test_a_batch_that_only_the_ledger_saw_is_no_imbalance() -> None:
    made = recording()
    assert made.runs[WITH].ledger is not None
    made.runs[WITH].ledger = Ledger((*made.runs[WITH].ledger.rows, LedgerRow(5, 100, 50, 50)))
    assert find(made).ledger_balances is True


def test_the_headline_says_both_ages() -> None:
    made = recording()
    assert headline(made, find(made)) == (
        "With Headgate results stayed 3.1 s old at three times the capacity (target 3 s); "
        "without it they got 22 s old."
    )
    del made.runs[WITHOUT]
    assert headline(made, find(made)).endswith("(target 3 s).")
    nothing = Recording(FULL, stopped_early=True)
    assert "stopped before" in headline(nothing, find(nothing))
    nothing.stopped_early = False
    assert "too busy" in headline(nothing, find(nothing))


def doubtful(made: Recording) -> str:
    said = headline(made, find(made))
    assert said.startswith("The capacity was taken for too low: ")
    assert "stayed" not in said
    return said


def test_a_machine_that_did_far_more_than_was_measured_makes_no_claim() -> None:
    made = recording()
    batches = made.runs[WITHOUT].batches
    made.runs[WITHOUT].batches = [replace(batch, offered=4000, kept=4000) for batch in batches]
    assert doubtful(made) == (
        "The capacity was taken for too low: in the crowd without Headgate the query did 2.0 times "
        "as much. So this was not three times what the machine can do, and shows little. Results "
        "were with Headgate 3.1 s (target 3 s), without it up to 22 s old. Try again when the "
        "machine has less else to do."
    )


def test_a_run_without_headgate_that_did_not_fall_behind_makes_no_claim() -> None:
    made = recording()
    batches = made.runs[WITHOUT].batches
    made.runs[WITHOUT].batches = [replace(batch, latency_mean_seconds=2.4) for batch in batches]
    assert "without Headgate results got no older than 2.4 s" in doubtful(made)
    made.runs[WITHOUT].batches = made.runs[WITHOUT].batches[:2]  # the crowd is not over yet
    assert find(made).doubts == ()


def test_a_capacity_that_was_not_steady_makes_no_claim() -> None:
    made = recording()
    assert made.capacity is not None
    assert find(made).doubts == ()
    made.capacity = replace(made.capacity, steady=False)
    assert "the speed was still growing" in doubtful(made)
    del made.runs[WITHOUT]
    assert doubtful(made).count("without it") == 0


def test_rows_count_over_the_time_in_which_their_batch_ran() -> None:
    batch = Batch(0, 3.0, 2.0, 40, 10, 1.0)
    assert per_second([batch], [0.0, 2.0, 4.0]) == [(2.5, 7.5), (2.5, 7.5)]
    assert per_second([replace(batch, duration_seconds=0.0)], [0.0, 4.0]) == [(0.0, 0.0)]


@pytest.mark.parametrize(
    ("seconds", "target", "message"),
    [
        (12.0, 3.0, "--seconds 12 does not go with a target of 3 s; give 24 to 3600"),
        (40.0, 0.1, "--target must be from 0.2s to 60s, got 0.1 s"),
        (9999.0, 3.0, "give 24 to 3600"),
    ],
)
def test_times_that_cannot_work_are_refused(seconds: float, target: float, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Settings(seconds, target, 10.0)
