"""What the coordinator's alarms say: what is wrong, and what to do about it."""

from __future__ import annotations

from headgate.control import Alarm
from headgate.coordinator.decisions import AlarmKind, RaiseAlarm

__all__ = ["advice", "backlog_grows", "not_planning", "unknown_query"]


def advice(alarm: Alarm, predicted_seconds: float | None) -> str:
    if alarm is not Alarm.TARGET_UNREACHABLE or predicted_seconds is None:
        return str(alarm)
    return (
        f"{alarm}: results are expected to be {predicted_seconds:.3g} s old. Looking at what "
        "arrives, and what a batch costs however few tuples it has, take that long: give the "
        "query a longer target, fewer tuples in front of the gate, or more cores"
    )


def unknown_query(query: str) -> RaiseAlarm:
    text = f"no query {query!r} is known; register it with SettingsChanged first"
    return RaiseAlarm(AlarmKind.UNKNOWN_QUERY, query, text)


def backlog_grows(query: str, response: float, query_class: str, target: float) -> RaiseAlarm:
    text = (
        f"the latency of {query!r} has grown to {response:.3g} s; class {query_class!r} aims at "
        f"{target:g} s, but a query whose batches have no bound tells too late what it takes: "
        "give it a latency target, or bound its batches"
    )
    return RaiseAlarm(AlarmKind.BACKLOG_GROWS, query, text)


def not_planning(sender: str) -> RaiseAlarm:
    text = f"a table from {sender} came to a coordinator without a network"
    return RaiseAlarm(AlarmKind.PLANNER, sender, text)
