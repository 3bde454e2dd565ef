from __future__ import annotations

from headgate.spark.sources.backlog import Backlog


def test_what_came_since_the_last_look_is_half_that_old() -> None:
    backlog = Backlog()
    assert backlog.seen(100.0, 0) == 0.0
    assert backlog.seen(104.0, 10) == 2.0


def test_what_is_left_behind_grows_older() -> None:
    backlog = Backlog()
    backlog.seen(0.0, 0)
    backlog.seen(2.0, 100)  # these came at 1 s
    backlog.taken(40)
    # 60 of them still wait, 20 came between 2 and 4 s
    assert backlog.seen(4.0, 80) == (60 * 3.0 + 20 * 1.0) / 80
    backlog.taken(60)
    assert backlog.seen(5.0, 20) == 2.0


def test_what_was_there_at_the_first_look_counts_as_just_come() -> None:
    assert Backlog().seen(50.0, 1000) == 0.0


def test_memory_is_bounded_and_the_mean_stays() -> None:
    backlog = Backlog()
    for second in range(5000):
        age = backlog.seen(float(second), second)
    assert len(backlog._steps) <= 1000
    assert abs(age - (4999 / 2)) < 1.0


def test_a_source_that_rewinds_leaves_less() -> None:
    backlog = Backlog()
    backlog.seen(0.0, 100)
    assert backlog.seen(1.0, 30) == 1.0
    assert backlog.seen(2.0, 0) == 0.0
