from __future__ import annotations

from headgate.spark.plans.counting_passes import Key, Seen, counted_once, keys_in

ROWS = [0]
THREE_TASKS = [  # with three passes, one, and two, of which the last is empty
    Seen(((10, 9), (5.0, 4))),
    Seen(((3, 3), (1.0, 1)), at_end_of_task=False),
    Seen(((7, 6), (4.0, 2)), at_end_of_task=False),
    Seen(((4, 4), (0.5, 1))),
    Seen(((9, 9), (2.0, 2))),
    Seen(((9, 9), (2.0, 2)), at_end_of_task=False),
]
TOTAL = ((23, 22), (7.5, 7))


def test_keys_stand_between_other_things() -> None:
    items = [0, "7", 1.5, {"minValue": 1.0}, 1, "7", "NaN", True, 2.0, 0, "8"]
    assert keys_in(items) == [(0, "7"), (1, "7"), (0, "8")]
    assert keys_in([]) == []


def test_without_a_second_pass_the_total_stays() -> None:
    keys: list[Key] = [(place, "7") for place in range(6)]
    assert counted_once(keys, THREE_TASKS, ROWS, TOTAL) == TOTAL


def test_of_each_partition_the_pass_with_most_rows_counts() -> None:
    keys: list[Key] = [(0, "7"), (1, "7"), (2, "7"), (1, "7"), (0, "7"), (2, "7")]
    # 9 rows of partition 0, 4 of 1 (the first of two that are as large), 3 of 2.
    assert counted_once(keys, THREE_TASKS, ROWS, TOTAL) == ((16, 15), (6.0, 5))


def test_the_same_partition_of_another_batch_is_another_one() -> None:
    keys: list[Key] = [(0, "7"), (1, "7"), (2, "7"), (0, "8"), (1, "8"), (2, "8")]
    assert counted_once(keys, THREE_TASKS, ROWS, TOTAL) == TOTAL


def test_passes_that_do_not_add_up_change_nothing() -> None:
    keys: list[Key] = [(0, "7")] * 6
    more = ((24, 23), (7.5, 7))
    assert counted_once(keys, THREE_TASKS, ROWS, more) == more
    assert counted_once(keys[:5], THREE_TASKS, ROWS, TOTAL) == TOTAL
