"""The coordinator with literal numbers."""

from __future__ import annotations

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
    MoveCapacity,
    QuerySettings,
    RaiseAlarm,
    RatesObserved,
    SendTable,
    SetKeepFraction,
    SettingsChanged,
    TableReceived,
    Tick,
)
from headgate.coordinator.query_state import QueryState
from headgate.errors import UsageError
from headgate.network import load_network, parse_network
from tests.planning.networks import TABLE_1

ALERTS = QuerySettings(("orders",), latency_target_seconds=3.0)


def completed(
    query: str, batch: int, offered: int, kept: int, busy: float, **more: Any
) -> BatchCompleted:
    time = 3.0 * (batch + 1)
    counts = {"orders": GateCount(offered, kept, offered - kept)}
    return BatchCompleted(time, query, batch, busy, busy, counts, **more)


def keep(decisions: list[Any]) -> dict[str, float]:
    return {d.gate: d.keep_fraction for d in decisions if isinstance(d, SetKeepFraction)}


def overloaded(coordinator: Coordinator, query: str = "alerts") -> list[Any]:
    """One batch of 1000 tuples that took 2 s, then 3000 tuples waiting for 2 s on average."""
    coordinator.handle(BatchStarted(0.0, query, 0, {"orders": 1000}))
    coordinator.handle(completed(query, 0, 1000, 1000, 2.0, latency_mean_seconds=2.5))
    return coordinator.handle(BatchStarted(3.0, query, 1, {"orders": 3000}, 1.0))


def test_the_first_batch_is_kept_whole() -> None:
    coordinator = Coordinator(CoordinatorSettings({"alerts": ALERTS}))
    [decision] = coordinator.handle(BatchStarted(0.0, "alerts", 0, {"orders": 1000}))
    assert decision.keep_fraction == 1.0
    assert decision.why.bound is Bound.NOTHING


def test_feedback_keeps_what_fits_the_target() -> None:
    decisions = overloaded(Coordinator(CoordinatorSettings({"alerts": ALERTS})))
    [decision] = decisions
    assert decision.why.bound is Bound.FEEDBACK
    assert 0.25 < decision.keep_fraction < 0.75  # 2 ms a tuple: 3000 tuples would take 6 s


def test_a_batch_that_asks_again_gets_the_same_answer() -> None:
    coordinator = Coordinator(CoordinatorSettings({"alerts": ALERTS}))
    first = overloaded(coordinator)
    assert coordinator.handle(BatchStarted(9.0, "alerts", 1, {"orders": 9999})) == first


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OPEN])
def test_off_and_open_drop_nothing_and_say_what_would_have_gone(mode: Mode) -> None:
    [decision] = overloaded(Coordinator(CoordinatorSettings({"alerts": ALERTS}, mode=mode)))
    assert decision.keep_fraction == 1.0
    assert decision.why.bound is Bound.MODE
    assert decision.why.wanted < 0.75


def test_off_says_what_would_go_if_the_backlog_had_not_grown() -> None:
    """A tuple costs 2 ms and 1,000 come in a second: half of them can be kept."""
    off = Coordinator(CoordinatorSettings({"alerts": ALERTS}, mode=Mode.OFF))
    wanted = []
    for batch, seconds in enumerate((2.0, 4.0, 8.0, 16.0, 32.0)):  # each takes what has come
        waiting = round(1000 * seconds / 2)
        started = BatchStarted(seconds, "alerts", batch, {"orders": waiting}, seconds / 4)
        [decision] = off.handle(started)
        wanted.append(decision.why.wanted)
        off.handle(
            completed(
                "alerts", batch, waiting, waiting, seconds, latency_mean_seconds=1.5 * seconds
            )
        )
    assert wanted[2:] == pytest.approx([0.5, 0.5, 0.5], abs=0.06)


def test_the_kill_switch_works_while_it_runs() -> None:
    coordinator = Coordinator(CoordinatorSettings({"alerts": ALERTS}))
    assert keep(overloaded(coordinator))["orders"] < 1.0
    coordinator.handle(SettingsChanged(4.0, mode=Mode.OPEN))
    coordinator.handle(completed("alerts", 1, 3000, 1500, 3.0, latency_mean_seconds=3.0))
    assert keep(coordinator.handle(BatchStarted(7.0, "alerts", 2, {"orders": 5000}))) == {
        "orders": 1.0
    }


def test_a_guarantee_lifts_what_feedback_wants() -> None:
    settings = QuerySettings(("orders",), latency_target_seconds=3.0, keep_at_least=0.9)
    [decision] = overloaded(Coordinator(CoordinatorSettings({"alerts": settings})))
    assert decision.keep_fraction == 0.9
    assert decision.why.bound is Bound.GUARANTEE


def test_the_ledger_balances_and_refuses_what_does_not() -> None:
    coordinator = Coordinator(CoordinatorSettings({"alerts": ALERTS}))
    overloaded(coordinator)
    coordinator.handle(completed("alerts", 1, 3000, 1200, 2.4))
    totals = coordinator.ledger.of_query("alerts")
    assert (totals.offered, totals.kept, totals.dropped) == (4000, 2200, 1800)
    assert coordinator.ledger.balances
    wrong = BatchCompleted(12.0, "alerts", 2, 1.0, 1.0, {"orders": GateCount(10, 5, 4)})
    [alarm] = coordinator.handle(wrong)
    assert isinstance(alarm, RaiseAlarm)
    assert alarm.kind is AlarmKind.LEDGER
    assert coordinator.ledger.of_query("alerts").offered == 4000


def test_a_replayed_batch_is_counted_once() -> None:
    coordinator = Coordinator(CoordinatorSettings({"alerts": ALERTS}))
    batch = completed("alerts", 0, 1000, 400, 2.0)
    assert coordinator.handle(batch) == []
    assert coordinator.handle(batch) == []
    assert coordinator.ledger.of_query("alerts").offered == 1000
    [alarm] = coordinator.handle(completed("alerts", 0, 1000, 500, 2.0))
    assert isinstance(alarm, RaiseAlarm)


def test_an_unknown_query_raises_an_alarm_and_drops_nothing() -> None:
    [alarm] = Coordinator(CoordinatorSettings()).handle(BatchStarted(0.0, "nobody", 0))
    assert isinstance(alarm, RaiseAlarm)
    assert alarm.kind is AlarmKind.UNKNOWN_QUERY


def test_the_plan_bounds_the_gates_of_a_network() -> None:
    queries = {"q0": QuerySettings(("r0->o0_0",)), "q1": QuerySettings(("r1->o1_0",))}
    coordinator = Coordinator(CoordinatorSettings(queries, network=TABLE_1))
    decisions = coordinator.handle(RatesObserved(0.0, {"r0": 1.0, "r1": 1.0}))
    assert keep(decisions) == pytest.approx({"r0->o0_0": 0.2, "r1->o1_0": 0.4})
    [decision] = coordinator.handle(BatchStarted(1.0, "q0", 0))
    assert decision.keep_fraction == pytest.approx(0.2)
    assert decision.why.bound is Bound.PLAN


def test_small_moves_of_the_rates_change_nothing() -> None:
    queries = {"q0": QuerySettings(("r0->o0_0",))}
    coordinator = Coordinator(CoordinatorSettings(queries, network=TABLE_1, replan_above=0.05))
    coordinator.handle(RatesObserved(0.0, {"r0": 1.0, "r1": 1.0}))
    assert coordinator.handle(RatesObserved(1.0, {"r0": 1.01, "r1": 1.0})) == []
    assert coordinator.handle(RatesObserved(2.0, {"r0": 2.0, "r1": 1.0})) != []


@pytest.mark.parametrize(("margin", "share"), [(False, 1.0), (True, 1 / 1.01)])
def test_two_nodes_exchange_tables_and_shed_at_the_first(margin: bool, share: float) -> None:
    first = Coordinator(
        CoordinatorSettings(
            {"q0": QuerySettings(("r0->o0_0",)), "q1": QuerySettings(("r1->o1_0",))},
            network=TABLE_1,
            node="N0",
            replan_margin=margin,
        )
    )
    second = Coordinator(CoordinatorSettings(network=TABLE_1, node="N1"))
    sent = second.handle(RatesObserved(0.0, {}))
    messages = [d.message for d in sent if isinstance(d, SendTable)]
    assert {m.receiver for m in messages} == {"N0"}
    for message in messages:
        first.handle(TableReceived(0.1, message))
    decisions = first.handle(RatesObserved(0.2, {"r0": 1.0, "r1": 1.0}))
    assert keep(decisions) == pytest.approx({"r0->o0_0": 0.2 * share, "r1->o1_0": 0.4 * share})


def in_series() -> QuerySettings:
    """Orders and clicks each have a gate; both pass a third one behind their union."""
    after = {"both": ("orders", "clicks")}
    return QuerySettings(("orders", "clicks", "both"), 3.0, after=after)


def test_a_tuple_that_passes_two_gates_is_offered_at_the_first_and_kept_at_the_last() -> None:
    state = QueryState(in_series())
    counts = {
        "orders": GateCount(600, 500, 100),
        "clicks": GateCount(400, 300, 100),
        "both": GateCount(800, 200, 600),
    }
    state.complete(BatchCompleted(3.0, "alerts", 0, 2.0, 2.0, counts))
    assert state.load == pytest.approx(2.0 / 200 * 0.5 * 1000 / 2.0)  # half of the rate is learnt
    assert state.output_rate == pytest.approx(200 / 2.0)


def test_gates_that_did_not_report_do_not_hide_the_others() -> None:
    state = QueryState(QuerySettings(("a", "b", "c"), after={"b": ("a",), "c": ("b",)}))
    counts = {"a": GateCount(100, 50, 50), "c": GateCount(50, 20, 30)}  # not b
    state.complete(BatchCompleted(1.0, "q", 0, 1.0, 1.0, counts))
    assert state.output_rate == pytest.approx(20.0)
    state.complete(BatchCompleted(2.0, "q", 1, 1.0, 1.0, {"a": GateCount(100, 50, 50)}))
    assert state.output_rate == pytest.approx(50.0)


def test_feedback_drops_at_the_first_gates_only() -> None:
    coordinator = Coordinator(CoordinatorSettings({"alerts": in_series()}))
    coordinator.handle(BatchStarted(0.0, "alerts", 0, {"orders": 600, "clicks": 400}))
    all_kept = {
        "orders": GateCount(600, 600, 0),
        "clicks": GateCount(400, 400, 0),
        "both": GateCount(1000, 1000, 0),
    }
    coordinator.handle(BatchCompleted(3.0, "alerts", 0, 2.0, 2.0, all_kept, 2.5))
    waiting = {"orders": 1800, "clicks": 1200, "both": 3000}
    kept = keep(coordinator.handle(BatchStarted(3.0, "alerts", 1, waiting, 1.0)))
    alone = overloaded(Coordinator(CoordinatorSettings({"alerts": ALERTS})))[0].keep_fraction
    assert kept == pytest.approx({"orders": alone, "clicks": alone, "both": 1.0})


def test_an_order_of_gates_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="after names x, which is no gate of the query"):
        QuerySettings(("a",), after={"a": ("x",)})
    with pytest.raises(UsageError, match="after goes in a circle: a after b after a"):
        QuerySettings(("a", "b"), after={"a": ("b",), "b": ("a",)})


def test_a_query_without_a_target_whose_latency_runs_away_raises_one_alarm() -> None:
    def alarms(target: float | None, grows: bool) -> list[str]:
        queries = {"g": QuerySettings(("orders",), target, "gold")}
        coordinator = Coordinator(CoordinatorSettings(queries, classes=CLASSES))
        found = []
        for batch in range(12):
            latency = 0.5 * batch if grows else 3.0
            coordinator.handle(BatchStarted(3.0 * batch, "g", batch, {"orders": 100}))
            done = completed("g", batch, 100, 100, 1.0, latency_mean_seconds=latency)
            found += [d for d in coordinator.handle(done) if isinstance(d, RaiseAlarm)]
        assert all(a.kind is AlarmKind.BACKLOG_GROWS and a.subject == "g" for a in found)
        return [alarm.text for alarm in found]

    [text] = alarms(None, grows=True)
    assert text.startswith("the latency of 'g' has grown to 2.5 s; class 'gold' aims at 1 s")
    assert text.endswith("give it a latency target, or bound its batches")
    assert alarms(None, grows=False) == []
    assert alarms(3.0, grows=True) == []


CLASSES = ClassSettings({"gold": 6.0, "iron": 1.0}, cycle_seconds=1.0, redistribute_every=2)


def classed() -> Coordinator:
    queries = {
        name: QuerySettings(("orders",), query_class=query_class)
        for name, query_class in (("g", "gold"), ("i", "iron"))
    }
    return Coordinator(CoordinatorSettings(queries, classes=CLASSES))


def turns(decisions: list[Any]) -> list[str]:
    return [d.query for d in decisions if isinstance(d, GrantTurn)]


def test_one_query_runs_at_a_time_and_the_other_waits_for_its_turn() -> None:
    coordinator = classed()
    assert turns(coordinator.handle(BatchStarted(0.0, "i", 0))) == ["i"]
    assert turns(coordinator.handle(BatchStarted(0.1, "g", 0))) == []
    assert turns(coordinator.handle(completed("i", 0, 10, 10, 0.5))) == ["g"]  # i is in debt now


@pytest.mark.parametrize("batch_seconds", [0.01, 0.5])
def test_over_many_turns_time_follows_the_priorities(batch_seconds: float) -> None:
    coordinator = classed()
    used = {"g": 0.0, "i": 0.0}
    batch = {"g": 0, "i": 0}
    now = 0.0
    running = turns(coordinator.handle(BatchStarted(now, "g", 0)))
    coordinator.handle(BatchStarted(now, "i", 0))
    for _ in range(700):
        [query] = running
        used[query] += batch_seconds
        now += batch_seconds
        counts = {"orders": GateCount(10, 10, 0)}
        done = BatchCompleted(now, query, batch[query], batch_seconds, batch_seconds, counts)
        batch[query] += 1
        again = BatchStarted(now + 0.001, query, batch[query])  # it needs a moment to come back
        running = [*turns(coordinator.handle(done)), *turns(coordinator.handle(again))]
    assert used["g"] / used["i"] == pytest.approx(6.0, rel=0.1)


def test_a_turn_that_nobody_comes_back_for_is_given_away() -> None:
    coordinator = classed()
    coordinator.handle(BatchStarted(0.0, "g", 0))
    coordinator.handle(BatchStarted(0.0, "i", 0))
    done = BatchCompleted(0.01, "g", 0, 0.01, 0.01, {"orders": GateCount(1, 1, 0)})
    assert turns(coordinator.handle(done)) == []
    assert turns(coordinator.handle(Tick(0.02))) == []
    assert turns(coordinator.handle(Tick(0.04))) == ["i"]


def test_an_idle_class_lends_and_gets_it_back() -> None:
    coordinator = classed()
    moved = []
    for number in range(6):
        for _ in range(1):
            coordinator.handle(BatchStarted(number, "i", number))
            coordinator.handle(completed("i", number, 100, 100, 0.9, arrival_rate_per_second=100.0))
        moved += [d for d in coordinator.handle(Tick(number)) if isinstance(d, MoveCapacity)]
    assert moved
    assert coordinator.portions["iron"] > 0.5
    assert sum(coordinator.portions.values()) == pytest.approx(1.0)


def test_under_a_plan_the_measure_of_feedback_is_what_the_first_gates_let_in() -> None:
    after = {"shared->light": ("a->shared",), "shared->heavy": ("a->shared",)}
    gates = ("a->shared", "shared->light", "shared->heavy")
    counts = {
        "a->shared": GateCount(200, 100, 100),
        "shared->light": GateCount(100, 100, 0),
        "shared->heavy": GateCount(100, 40, 60),
    }
    state = QueryState(QuerySettings(gates, after=after), planned=True)
    state.complete(BatchCompleted(1.0, "q", 0, 1.0, 1.0, counts))
    assert state.output_rate == pytest.approx(100.0)


def test_a_measured_capacity_makes_a_new_plan() -> None:
    network = load_network("examples/split.yaml")
    coordinator = Coordinator(CoordinatorSettings(network=network))
    first = keep(coordinator.handle(RatesObserved(0.0, {"a": 0.2})))
    assert first == pytest.approx({"shared->heavy": 0.4})
    more = keep(coordinator.handle(RatesObserved(1.0, {"a": 0.2}, capacities={"A": 1.4})))
    assert more == pytest.approx({"shared->heavy": 0.8})
    again = coordinator.handle(RatesObserved(2.0, {"a": 0.2}, capacities={"A": 1.4}))
    assert again == []


def test_a_target_out_of_reach_is_said_once_and_only_when_it_stays_so() -> None:
    """A batch without tuples takes 4 s; the target is 3 s."""
    coordinator = Coordinator(CoordinatorSettings({"alerts": ALERTS}))
    said = []
    for batch in range(12):
        waiting = 1000 + 10 * (batch % 3)
        found = coordinator.handle(BatchStarted(5.0 * batch, "alerts", batch, {"orders": waiting}))
        said.append([d.text for d in found if isinstance(d, RaiseAlarm)])
        kept = round(waiting * keep(found)["orders"])
        busy = 4.0 + 0.001 * kept
        coordinator.handle(completed("alerts", batch, waiting, kept, busy))
    assert sum(map(len, said)) == 1
    assert not any(said[:4])
    [text] = next(texts for texts in said if texts)
    assert text.startswith("the target cannot be met even when everything is dropped: results are")
    assert text.endswith("fewer tuples in front of the gate, or more cores")


def test_a_guarantee_of_the_network_holds_over_gates_in_series() -> None:
    """The plan keeps part of the branch; feedback then wants next to nothing at the input."""
    network = parse_network("""\
network: split
nodes: {A: {capacity: 2}}
streams: {a: {rate: 400/s}}
operators:
  shared: {kind: delay, input: a, node: A, cost: 1ms, selectivity: 1}
  light: {kind: delay, input: shared, node: A, cost: 1ms, selectivity: 1}
  heavy: {kind: delay, input: shared, node: A, cost: 5ms, selectivity: 1}
queries:
  top: {input: light}
  bottom: {input: heavy, keep_at_least: 0.3}
""")
    gates = ("a->shared", "shared->light", "shared->heavy")
    after = dict.fromkeys(gates[1:], ("a->shared",))
    settings = QuerySettings(gates, 3.0, keep_at_least=0.3, after=after)
    coordinator = Coordinator(CoordinatorSettings({"both": settings}, network=network))
    coordinator.handle(RatesObserved(0.0, {"a": 400.0}))
    planned = keep(coordinator.handle(BatchStarted(0.0, "both", 0, {"a->shared": 400})))
    assert planned["a->shared"] == 1.0
    assert planned["shared->heavy"] == pytest.approx(0.6)
    counts = {"a->shared": GateCount(400, 400, 0)}
    coordinator.handle(BatchCompleted(60.0, "both", 0, 60.0, 60.0, counts, 60.0))
    shed = keep(coordinator.handle(BatchStarted(60.0, "both", 1, {"a->shared": 24_000}, 30.0)))
    assert shed["shared->heavy"] == pytest.approx(0.6)
    assert shed["a->shared"] == pytest.approx(0.5)
    coordinator.handle(RatesObserved(60.0, {"a": 4000.0}))  # the guarantee does not fit
    shed = keep(coordinator.handle(BatchStarted(63.0, "both", 2, {"a->shared": 24_000}, 30.0)))
    assert shed == pytest.approx({"a->shared": 0.3, "shared->light": 0.0, "shared->heavy": 1.0})
