"""Holding and handing out turns, on a clock of literal numbers."""

from __future__ import annotations

from headgate.coordinator import Bound, GrantTurn, SetKeepFraction, Why
from headgate.spark.agent.turn_desk import LONGEST_TURN_SECONDS, TurnDesk


def turn(query: str, batch: int) -> list[GrantTurn | SetKeepFraction]:
    why = Why(Bound.NOTHING, 1.0)
    return [GrantTurn(query, batch, "gold"), SetKeepFraction(query, batch, "rows", 1.0, why)]


def test_a_turn_reaches_the_one_who_waits_for_it() -> None:
    desk = TurnDesk()
    gold, iron = desk.open("g", 3, 10.0), desk.open("i", 5, 10.5)
    desk.route(turn("g", 3), 12.0)
    assert gold.ready.is_set()
    assert not iron.ready.is_set()
    assert gold.held_seconds == 2.0
    assert [d.gate for d in gold.decisions] == ["rows"]


def test_asking_again_for_the_same_batch_finds_the_same_ticket() -> None:
    desk = TurnDesk()
    ticket = desk.open("g", 3, 10.0)
    assert desk.ticket("g", 3) is ticket
    desk.route(turn("g", 3), 11.0)  # between two steps of the asker
    found = desk.ticket("g", 3)
    assert found is not None
    assert found.granted_seconds == 11.0


def test_a_turn_for_another_batch_is_not_handed_out() -> None:
    desk = TurnDesk()
    desk.open("g", 3, 10.0)
    desk.route(turn("g", 2), 11.0)
    assert desk.ticket("g", 3).granted_seconds is None  # type: ignore[union-attr]
    assert desk.ticket("g", 2) is None


def test_a_batch_that_ended_closes_its_ticket_and_no_later_one() -> None:
    desk = TurnDesk()
    desk.open("g", 3, 10.0)
    assert desk.close("g", 2) is None
    ticket = desk.close("g", 3)
    assert ticket is not None
    assert ticket.ready.is_set()  # whoever waits on it asks again
    assert desk.close("g") is None


def test_turns_are_looked_after_only_while_others_wait() -> None:
    desk = TurnDesk()
    desk.open("g", 3, 10.0)
    desk.route(turn("g", 3), 10.0)
    assert desk.to_check(20.0) == []
    desk.open("i", 1, 19.0)
    assert [ticket.query for ticket in desk.to_check(20.0)] == ["g"]
    assert desk.to_check(20.1) == []
    assert [ticket.query for ticket in desk.to_check(20.3)] == ["g"]


def test_a_turn_that_never_ends_is_overdue() -> None:
    desk = TurnDesk()
    ticket = desk.open("g", 3, 10.0)
    assert not ticket.is_overdue(1000.0)
    desk.route(turn("g", 3), 10.0)
    assert not ticket.is_overdue(10.0 + LONGEST_TURN_SECONDS)
    assert ticket.is_overdue(10.1 + LONGEST_TURN_SECONDS)
