"""What the coordinator answers. Imperative, plain data, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headgate.coordinator.events import NeighbourMessage

__all__ = [
    "AlarmKind",
    "Bound",
    "Decision",
    "GrantTurn",
    "MoveCapacity",
    "RaiseAlarm",
    "SendTable",
    "SetKeepFraction",
    "Why",
]


class Bound(StrEnum):
    """What decided a keep fraction in the end."""

    NOTHING = "nothing"  # everything is kept
    PLAN = "plan"
    FEEDBACK = "feedback"
    CLASS = "class"
    GUARANTEE = "guarantee"
    MODE = "mode"


class Why(NamedTuple):
    """The numbers behind one keep fraction; None where a loop had nothing to say.

    wanted is what the loops asked for; it differs from the decision in the modes
    `off` and `open`, and under a guaranteed minimum.
    """

    bound: Bound
    wanted: float
    plan: float | None = None
    feedback: float | None = None
    class_limit: float | None = None
    note: str = ""


class SetKeepFraction(NamedTuple):
    """Keep this share at a gate. `batch` None means from now on, until told otherwise.

    `query` is empty for a gate that belongs to no single query.
    """

    query: str
    batch: int | None
    gate: str
    keep_fraction: float
    why: Why
    drop_older_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class GrantTurn:
    """The query may run this batch now."""

    query: str
    batch: int
    query_class: str


@dataclass(frozen=True, slots=True)
class MoveCapacity:
    """The classes' shares of the node from now on (they sum to 1)."""

    portions: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SendTable:
    """Send this to the agent of the node that it names as receiver."""

    message: NeighbourMessage


class AlarmKind(StrEnum):
    """What a person should know."""

    BACKLOG_GROWS = "backlog grows"
    CONTROLLER = "controller"
    GUARANTEES_COLLIDE = "guarantees collide"
    LEDGER = "ledger"
    PLANNER = "planner"
    UNKNOWN_QUERY = "unknown query"


@dataclass(frozen=True, slots=True)
class RaiseAlarm:
    """Something is wrong that no decision can mend. `subject` is a query, gate or node."""

    kind: AlarmKind
    subject: str
    text: str


Decision = SetKeepFraction | GrantTurn | MoveCapacity | SendTable | RaiseAlarm
