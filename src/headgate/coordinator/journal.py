"""Every event and every decision, as lines of JSON that can be replayed.

The first line holds the settings, each further line one event with its decisions. A
replay feeds the events to a fresh coordinator and compares its answers with the
recorded ones byte for byte. Writing lines to a file is the caller's business.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.coordinator.codec import decode, to_line
from headgate.coordinator.coordinator import Coordinator
from headgate.coordinator.decisions import Decision
from headgate.coordinator.events import Event
from headgate.coordinator.settings import CoordinatorSettings
from headgate.errors import UsageError
from headgate.network import dump_network, parse_network

__all__ = ["Journal", "JournalEntry", "read_journal", "replay"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One event and what the coordinator answered."""

    event: Event
    decisions: tuple[Decision, ...]

    def line(self) -> str:
        return to_line({"event": self.event, "decisions": self.decisions})


class Journal:
    """A coordinator that hands out the line to record with every answer."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self.coordinator = Coordinator(settings)
        self._settings = settings

    def header(self) -> str:
        """The first line of the journal."""
        network = self._settings.network
        return to_line(
            {
                "headgate_journal": _VERSION,
                "network": None if network is None else dump_network(network),
                "settings": replace(self._settings, network=None),
            }
        )

    def handle(self, event: Event) -> tuple[list[Decision], str]:
        """The decisions, and the line that records them."""
        decisions = self.coordinator.handle(event)
        return decisions, JournalEntry(event, tuple(decisions)).line()


def read_journal(lines: Iterable[str]) -> tuple[CoordinatorSettings, Iterator[JournalEntry]]:
    """Settings and entries of a recorded journal; UsageError names the line that is wrong."""
    numbered = enumerate(lines, start=1)
    _, first = next(numbered, (1, ""))
    header = _json(first, 1)
    if not isinstance(header, dict) or header.get("headgate_journal") != _VERSION:
        raise UsageError(
            f"line 1: not a journal of version {_VERSION}; the first line of a journal "
            "holds its settings"
        )
    settings: CoordinatorSettings = decode(header["settings"], CoordinatorSettings, "settings")
    if header.get("network") is not None:
        settings = replace(settings, network=parse_network(header["network"], "journal"))
    return settings, _entries(numbered)


def replay(lines: Sequence[str]) -> Coordinator:
    """Run the journal again; UsageError at the first line whose answer differs."""
    settings, entries = read_journal(lines)
    coordinator = Coordinator(settings)
    for number, entry in enumerate(entries, start=2):
        decisions = tuple(coordinator.handle(entry.event))
        again, recorded = to_line(decisions), to_line(entry.decisions)
        if again != recorded:
            raise UsageError(f"line {number}: recorded {recorded}, replayed {again}")
    return coordinator


def _entries(numbered: Iterator[tuple[int, str]]) -> Iterator[JournalEntry]:
    for number, line in numbered:
        if not line.strip():
            continue
        data = _json(line, number)
        if not isinstance(data, dict) or not {"event", "decisions"} <= set(data):
            raise UsageError(f"line {number}: expected an event and its decisions")
        yield JournalEntry(
            decode(data["event"], Event, f"line {number}: event"),
            decode(data["decisions"], tuple[Decision, ...], f"line {number}: decisions"),
        )


def _json(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number}: not JSON: {error}") from None
