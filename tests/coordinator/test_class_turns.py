"""Turns of several batches at once, with literal times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate.coordinator import (
    AlarmKind,
    BatchCompleted,
    BatchStarted,
    Bound,
    ClassSettings,
    Coordinator,
    CoordinatorSettings,
    GateCount,
    GrantTurn,
    Mode,
    QuerySettings,
    RaiseAlarm,
    SetKeepFraction,
    SettingsChanged,
    Tick,
    TurnReturned,
)
from headgate.coordinator.query_state import QueryState
from headgate.coordinator.turns import Turns, as_of

SPARK = ClassSettings(
    {"gold": 6.0, "silver": 3.0, "bronze": 1.0},
    cycle_seconds=0.5,
    redistribute_every=2,
    round_seconds=0.2,
    grace_seconds=0.03,
    late_above=0.8,
    default_delay_seconds=None,
    least_turns=2,
    cores=2,
    batch_every=0.5,
)


def coordinator(settings: ClassSettings = SPARK, **queries: str) -> Coordinator:
    known = {
        name: QuerySettings(("rows",), 6.0, query_class, "none")
        for name, query_class in queries.items()
    }
    return Coordinator(CoordinatorSettings(known, classes=settings))


def turns(decisions: list[Any]) -> list[str]:
    return [d.query for d in decisions if isinstance(d, GrantTurn)]


def done(at: float, query: str, batch: int, seconds: float, rows: int = 100) -> BatchCompleted:
    counts = {"rows": GateCount(rows, rows, 0)}
    return BatchCompleted(at, query, batch, seconds, seconds, counts, 1.0)


def asks(at: float, query: str, batch: int = 0, **more: Any) -> BatchStarted:
    return BatchStarted(at, query, batch, {"rows": 100}, 0.5, **more)


def test_two_batches_run_at_once_and_the_third_waits() -> None:
    node = coordinator(g="gold", s="silver", b="bronze")
    assert turns(node.handle(asks(0.0, "b", tasks=2))) == ["b"]
    assert turns(node.handle(asks(0.1, "s", tasks=2))) == ["s"]
    assert turns(node.handle(asks(0.2, "g", tasks=2))) == []
    assert turns(node.handle(done(1.0, "b", 0, 1.0))) == ["g"]


def test_narrow_batches_share_the_cores_that_are_free() -> None:
    node = coordinator(replace(SPARK, cores=4), a="gold", b="gold", c="gold", d="gold")
    for number, query in enumerate(("a", "b", "c")):
        assert turns(node.handle(asks(0.1 * number, query, tasks=2))) == (
            [query] if number < 2 else []
        )
    narrow = coordinator(replace(SPARK, cores=4), a="gold", b="gold", c="gold", d="gold")
    for query in ("a", "b", "c", "d"):
        assert turns(narrow.handle(asks(0.0, query, tasks=1))) == [query]


def test_a_turn_is_charged_for_its_part_of_the_node() -> None:
    desk = Turns()
    for query in ("a", "b"):
        desk.waiting[query] = asks(0.0, query)
    desk.grant("a", [], 0.0)
    desk.grant("b", [], 1.0)
    turn = desk.end("a", 3.0)
    assert turn is not None
    assert turn.node_seconds == pytest.approx(2.0)  # one second alone, two seconds of two
    assert turn.share(3.0) == pytest.approx(2.0 / 3.0)
    other = desk.end("b", 4.0)
    assert other is not None
    assert other.node_seconds == pytest.approx(2.0)


def test_a_query_that_had_nothing_to_do_gives_its_turn_back() -> None:
    node = coordinator(g="gold", s="silver", b="bronze")
    for query in ("g", "s", "b"):
        node.handle(asks(0.0, query))
    assert turns(node.handle(TurnReturned(0.1, "g", 7))) == []  # of another batch
    assert turns(node.handle(TurnReturned(0.1, "g", 0))) == ["b"]
    assert turns(node.handle(TurnReturned(0.2, "g", 0))) == []


def test_a_query_that_ends_frees_its_turn() -> None:
    node = coordinator(g="gold", s="silver", b="bronze")
    for query in ("g", "s", "b"):
        node.handle(asks(0.0, query))
    assert turns(node.handle(SettingsChanged(0.5, removed_queries=("s",)))) == ["b"]


def test_nobody_waits_when_the_kill_switch_is_open() -> None:
    node = coordinator(g="gold", s="silver", b="bronze")
    for query in ("g", "s", "b"):
        node.handle(asks(0.0, query))
    assert turns(node.handle(SettingsChanged(0.1, mode=Mode.OPEN))) == ["b"]
    [decision] = node.handle(asks(0.2, "g", 1))
    assert isinstance(decision, SetKeepFraction)


def test_long_batches_get_time_by_priority_and_nobody_starves() -> None:
    """Ten queries that always have work, two at a time, batches of 0.3 to 0.9 s."""
    names = {
        f"{c}{n}": c
        for c, count in (("gold", 3), ("silver", 3), ("bronze", 4))
        for n in range(count)
    }
    node = coordinator(**names)
    used = dict.fromkeys(names, 0.0)
    batch = dict.fromkeys(names, 0)
    running: dict[str, float] = {}
    now = 0.0

    def take(decisions: list[Any]) -> None:
        for query in turns(decisions):
            running[query] = now + 0.3 + 0.06 * (len(query) + batch[query] % 5)

    for query in names:
        take(node.handle(asks(now, query)))
    for _ in range(3000):
        assert len(running) == 2 or node.wants_tick(now + 0.03)
        query = min(running, key=running.__getitem__)
        before, now = now, running[query]
        for other in running:
            used[other] += (now - before) / len(running)
        del running[query]
        take(node.handle(done(now, query, batch[query], now - before)))
        batch[query] += 1
        now += 0.002  # it needs a moment to come back
        take(node.handle(asks(now, query, batch[query])))
    by_class = {c: sum(s for q, s in used.items() if names[q] == c) for c in SPARK.priorities}
    total = sum(by_class.values())
    assert by_class["gold"] / total == pytest.approx(0.6, abs=0.06)
    assert by_class["bronze"] / total == pytest.approx(0.1, abs=0.03)
    for query, query_class in names.items():
        assert used[query] > 0.1 * by_class[query_class]


def run_class(
    node: Coordinator, query: str, number: int, rows: int, seconds: float, more: float
) -> None:
    """One batch of a query, `more` seconds of response."""
    at = float(number)
    node.handle(BatchStarted(at, query, number, {"rows": rows}, 0.5))
    counts = {"rows": GateCount(rows, rows, 0)}
    node.handle(
        BatchCompleted(at + seconds, query, number, seconds, seconds, counts, more, {}, rows)
    )


def test_a_class_that_needs_little_lends_though_small_batches_fill_its_time() -> None:
    """Gold runs a batch of 0.5 s every second, nearly all of it fixed; bronze is late."""
    node = coordinator(replace(SPARK, least_turns=1, cores=1), g="gold", b="bronze")
    for number in range(12):
        run_class(node, "g", number, 50 + 10 * (number % 3), 0.45 + 0.001 * (number % 3), 0.7)
        run_class(node, "b", number, 500, 0.5, 5.5)
        node.handle(Tick(number + 0.95))
        node.handle(Tick(number + 1.45))
    assert node.portions["gold"] < 0.55
    assert node.portions["bronze"] > 0.15


def test_a_class_without_a_latency_target_sheds_nothing() -> None:
    queries = {"b": QuerySettings(("rows",), None, "bronze")}
    node = Coordinator(CoordinatorSettings(queries, classes=SPARK))
    for number in range(6):
        run_class(node, "b", number, 1000, 0.9, 50.0)
        node.handle(Tick(float(number)))
    decisions = node.handle(BatchStarted(9.0, "b", 9, {"rows": 1000}))
    [decision] = [d for d in decisions if isinstance(d, SetKeepFraction)]
    assert decision.keep_fraction == 1.0


def test_an_overloaded_class_sheds_and_says_that_its_share_is_used_up() -> None:
    node = coordinator(b="bronze")
    for number in range(12):
        run_class(node, "b", number, 1000, 0.95, 6.0 + number)
        node.handle(Tick(float(number) + 0.5))
        node.handle(Tick(float(number) + 1.0))
    decisions = node.handle(BatchStarted(20.0, "b", 20, {"rows": 1000}))
    [decision] = [d for d in decisions if isinstance(d, SetKeepFraction)]
    assert decision.keep_fraction < 1.0
    assert decision.why.bound is Bound.CLASS


def test_priorities_change_while_it_runs() -> None:
    node = coordinator(g="gold", b="bronze")
    node.handle(asks(0.0, "g"))
    changed = replace(SPARK, priorities={"gold": 1.0, "silver": 1.0, "bronze": 2.0})
    node.handle(SettingsChanged(0.1, classes=changed))
    assert node.portions == {"gold": 0.25, "silver": 0.25, "bronze": 0.5}
    assert turns(node.handle(asks(0.2, "b"))) == ["b"]
    assert turns(node.handle(done(0.5, "g", 0, 0.5))) == []


def test_guarantees_that_do_not_fit_raise_one_alarm() -> None:
    queries = {
        name: QuerySettings(("rows",), 6.0, query_class, "none", keep_at_least=1.0)
        for name, query_class in (("g", "gold"), ("b", "bronze"))
    }
    node = Coordinator(CoordinatorSettings(queries, classes=SPARK))
    alarms = []
    for number in range(20):
        for query in queries:
            run_class(node, query, number, 1000, 0.95, 8.0)
        for half in (0.5, 1.0):
            found = node.handle(Tick(number + half))
            alarms += [d for d in found if isinstance(d, RaiseAlarm)]
    assert [alarm.kind for alarm in alarms] == [AlarmKind.GUARANTEES_COLLIDE]


DUE = replace(SPARK, due_above=0.5, least_turns=1, cores=1)


def test_a_turn_goes_to_results_that_would_be_late_first() -> None:
    """Targets of 6 s: what waits is due when it is 3 s old. Gold has come 0.5 s ago."""
    node = coordinator(DUE, g="gold", s="silver", b="bronze")
    node.handle(asks(0.0, "s"))
    node.handle(BatchStarted(0.1, "b", 0, {"rows": 100}, 3.0))
    node.handle(asks(0.1, "g"))
    assert turns(node.handle(done(0.2, "s", 0, 0.2))) == ["b"]
    assert turns(node.handle(done(0.4, "b", 0, 0.2))) == ["g"]


def test_a_target_for_a_percentile_is_due_by_the_age_at_that_percentile() -> None:
    """Both wait for 1.7 s on average; the 95th percentile of that is 3.23 s, above half of 6 s."""
    node = coordinator(DUE, g="gold", m="gold")
    high = QuerySettings(("rows",), 6.0, "bronze", "model", {"percentile": 95.0})
    node.handle(SettingsChanged(0.0, queries={"p": high}))
    node.handle(asks(0.0, "g"))
    for query in ("m", "p"):
        node.handle(BatchStarted(0.1, query, 0, {"rows": 100}, 1.7))
    assert turns(node.handle(done(0.1, "g", 0, 0.1))) == ["p"]


def test_a_turn_that_nobody_needed_is_not_charged() -> None:
    node = coordinator(DUE, g="gold", b="bronze")
    node.handle(asks(0.0, "b"))
    node.handle(done(5.0, "b", 0, 5.0))
    assert node.classes is not None
    assert node.classes._scheduler.credit_seconds["bronze"] > 0.0
    node.handle(BatchStarted(5.1, "b", 1, {"rows": 100}, 4.0))
    node.handle(done(10.0, "b", 1, 4.9))
    assert node.classes._scheduler.credit_seconds["bronze"] < -4.0


def test_a_query_that_seemed_to_have_nothing_waiting_becomes_due() -> None:
    """It asked when nothing was known to wait, and is held for 6.4 s while rows may come."""
    node = coordinator(DUE, g="gold", h="gold", b="bronze")
    assert turns(node.handle(asks(0.6, "g"))) == ["g"]
    node.handle(BatchStarted(0.6, "b", 0, {"rows": 0}, 0.0))
    node.handle(asks(6.9, "h"))
    assert turns(node.handle(done(7.0, "g", 0, 6.4))) == ["b"]


def test_a_clock_that_is_set_back_makes_nobody_wait_for_it() -> None:
    """Bronze waits since 1000 s; then it is 10 s. Gold's rows are due each time, bronze's soon."""
    node = coordinator(DUE, g="gold", h="gold", b="bronze")
    node.handle(asks(1000.0, "g"))
    node.handle(asks(1000.0, "b"))
    order, running = [], "g"
    for second in range(10, 16):
        other = "h" if running == "g" else "g"
        node.handle(BatchStarted(float(second), other, second, {"rows": 100}, 5.0))
        batch = 0 if second == 10 else second - 1
        order += turns(node.handle(done(second + 0.5, running, batch, 0.5)))
        if order[-1] == "b":
            return
        running = order[-1]
    pytest.fail(f"bronze got no turn: {order}")


def test_what_waits_grows_older_also_where_nothing_was_known_to_wait() -> None:
    asked = BatchStarted(10.0, "alerts", 1, {"left": 0, "right": 0}, 1.0)
    later = as_of(asked, 14.0, 50.0)
    assert dict(later.waiting) == {"left": 100, "right": 100}
    assert later.waiting_age_seconds == 3.0


def test_batches_that_the_kill_switch_lets_run_share_the_node_too() -> None:
    """Two at once for one second, 100 rows each: 5 ms of the node for a row, not 10."""
    node = coordinator(a="gold", b="bronze")
    node.handle(SettingsChanged(0.0, mode=Mode.OPEN))
    for query in ("a", "b"):
        node.handle(asks(0.0, query))
    for query in ("a", "b"):
        node.handle(done(1.0, query, 0, 1.0))
    assert node.seconds_per_tuple("a") == pytest.approx(0.005)


def test_idle_cores_open_places_and_busy_ones_close_them() -> None:
    """Two turns; 1 of 2 cores idle for 2.5 s while three wait: 0.4 places a second more."""
    counting = replace(SPARK, most_idle=0.1, cycle_seconds=0.5)
    node = coordinator(counting, **{f"b{n}": "bronze" for n in range(5)})
    for number in range(5):
        node.handle(asks(0.0, f"b{number}", tasks=2))
    granted: list[str] = []
    for half in range(1, 7):
        granted += turns(node.handle(Tick(0.5 * half, busy_cores=1.0)))
    assert granted == ["b2"]
    for half in range(7, 40):
        assert turns(node.handle(Tick(0.5 * half, busy_cores=2.0))) == []
    assert turns(node.handle(done(20.0, "b0", 0, 20.0))) == []  # there is no third place any more


def test_a_target_for_a_percentile_is_compared_with_that_percentile() -> None:
    settings = QuerySettings(("rows",), 6.0, "gold", controller_settings={"percentile": 95.0})
    state = QueryState(settings)
    batch = done(1.0, "q", 1, 0.5)
    state.complete(replace(batch, latency_percentiles_seconds={50.0: 0.9, 95.0: 5.0}))
    assert state.last_response == 5.0
    state.complete(replace(batch, batch=2))  # nothing but the mean is known
    assert state.last_response == 1.0
    mean = QueryState(QuerySettings(("rows",), 6.0, "gold"))
    mean.complete(replace(batch, latency_percentiles_seconds={95.0: 5.0}))
    assert mean.last_response == 1.0


def late_gold(rows: int) -> tuple[Coordinator, SetKeepFraction]:
    """Gold asks for 10 ms a row and 50 rows a second, half of the node; others made it wait."""
    settings = replace(SPARK, by_quota=True)
    queries = {
        name: QuerySettings(("rows",), 6.0, name, controller)
        for name, controller in (("gold", "model"), ("bronze", "none"))
    }
    node = Coordinator(CoordinatorSettings(queries, classes=settings))
    now = 0.0
    for batch in range(6):
        size = 40 + 10 * batch
        node.handle(BatchStarted(now, "gold", batch, {"rows": size}, 1.0))
        now += size * 0.01
        counts = {"rows": GateCount(size, size, 0)}
        seconds = size * 0.01
        node.handle(BatchCompleted(now, "gold", batch, seconds, seconds, counts, 2.0))
        node.handle(Tick(now))
        now += 1.0
    decisions = node.handle(BatchStarted(now, "gold", 6, {"rows": rows}, rows / 100.0))
    return node, next(d for d in decisions if isinstance(d, SetKeepFraction))


def test_a_query_of_a_class_that_fits_catches_up_before_it_sheds() -> None:
    node, decision = late_gold(400)  # 4 s old on average, and 4 s to process
    assert node.classes is not None
    assert node.classes.fits("gold")
    assert decision.keep_fraction == 1.0
    assert decision.why.feedback == 1.0


def test_it_sheds_when_its_results_would_be_twice_as_old_as_its_target() -> None:
    _, decision = late_gold(800)  # 8 s old on average and 8 s to process; twice the target is 12 s
    assert decision.why.bound is Bound.FEEDBACK
    assert decision.keep_fraction == pytest.approx(0.5, abs=0.03)
