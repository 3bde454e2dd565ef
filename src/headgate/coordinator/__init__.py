"""The one place where the loops meet: events in, decisions out.

Depends on `headgate.planning`, `headgate.control` and `headgate.network`. No I/O, no
clock, no randomness of its own: the simulator and the Spark agent run the same code.
"""

from headgate.coordinator.coordinator import Coordinator
from headgate.coordinator.decisions import (
    AlarmKind,
    Bound,
    Decision,
    GrantTurn,
    MoveCapacity,
    RaiseAlarm,
    SendTable,
    SetKeepFraction,
    Why,
)
from headgate.coordinator.events import (
    BatchCompleted,
    BatchStarted,
    Event,
    GateCount,
    RatesObserved,
    SettingsChanged,
    TableReceived,
    Tick,
    TurnReturned,
)
from headgate.coordinator.explain import explain
from headgate.coordinator.journal import Journal, JournalEntry, read_journal, replay
from headgate.coordinator.ledger import Ledger, LedgerRow, Totals
from headgate.coordinator.settings import ClassSettings, CoordinatorSettings, Mode, QuerySettings

__all__ = [
    "AlarmKind",
    "BatchCompleted",
    "BatchStarted",
    "Bound",
    "ClassSettings",
    "Coordinator",
    "CoordinatorSettings",
    "Decision",
    "Event",
    "GateCount",
    "GrantTurn",
    "Journal",
    "JournalEntry",
    "Ledger",
    "LedgerRow",
    "Mode",
    "MoveCapacity",
    "QuerySettings",
    "RaiseAlarm",
    "RatesObserved",
    "SendTable",
    "SetKeepFraction",
    "SettingsChanged",
    "TableReceived",
    "Tick",
    "Totals",
    "TurnReturned",
    "Why",
    "explain",
    "read_journal",
    "replay",
]
