"""PACK's MAC/IP locator (section 7): which address is at which access point.

The locator reads the campus log one message after the other. A message that carries an
address tells it all. An association that does not makes it ask the access point, which
takes from tenths of a second to dozens of seconds; the answer lists every device there,
and is remembered. An access point is asked at most once in 30 seconds; a device that is
not in the remembered answer then stays unknown. Every other message is only read.

`AccessPoints` stands for the campus that is asked: who is where follows from the whole
log, how long an answer takes is drawn. Locator and campus are apart, so the same locator
runs in a simulation (`Locator.serve`) and anywhere else.

Guarantees: the same log, seed and messages give the same answers and times. Memory: one
entry for each access point and device of the campus.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headgate.reduction.values import Event
from headgate.reproduce.campus_log import ASSOCIATIONS, DEPARTURES, Message

__all__ = ["AccessPoints", "Locator", "LocatorSettings"]


@dataclass(frozen=True, slots=True)
class LocatorSettings:
    """Times in seconds.

    read:           to read a message.
    ask_median, ask_spread: an access point's answer is lognormal; `ask_spread` is the
                    standard deviation of its logarithm.
    ask_at_most:    the paper's timeout of the connection, plus a slow answer.
    ask_again_after: the paper's limit of one question in 30 s.
    """

    read: float = 0.01
    ask_median: float = 0.6
    ask_spread: float = 1.1
    ask_at_most: float = 60.0
    ask_again_after: float = 30.0


class AccessPoints:
    """Who is where, from the whole log; and how long each answer takes."""

    def __init__(
        self, log: Iterable[Message], settings: LocatorSettings | None = None, seed: int = 1
    ) -> None:
        self.settings = settings or LocatorSettings()
        self._rng = np.random.default_rng(seed)
        self._stays: dict[str, list[tuple[float, str, str | None]]] = defaultdict(list)
        self._ends: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.addresses: dict[str, str] = {}
        for message in log:
            self._learn(message)

    def _learn(self, message: Message) -> None:
        client, ap, time = message["client"], message["ap"], float(message["time"])
        if client is None:
            return
        if message["ip"] is not None:
            self.addresses[client] = message["ip"]
        if message["action"] in ASSOCIATIONS:
            self._stays[ap].append((time, client, message["ip"]))
        elif message["action"] in DEPARTURES:
            self._ends[ap, client].append(time)

    def ask(self, ap: str, now_seconds: float) -> tuple[dict[str, str], float]:
        """The devices at the access point with their addresses, and how long it took."""
        present = {}
        for time, client, _ in self._stays[ap]:
            if time > now_seconds:
                break
            ends = self._ends[ap, client]
            after = bisect_right(ends, time)
            gone = after < len(ends) and ends[after] <= now_seconds
            if not gone and client in self.addresses:
                present[client] = self.addresses[client]
        drawn = self.settings.ask_median * np.exp(
            self.settings.ask_spread * self._rng.standard_normal()
        )
        return present, float(min(self.settings.ask_at_most, drawn))


@dataclass
class Locator:
    """See the module.

    located:    for each device the newest (time, access point, address).
    resolved:   the messages by number whose device was located by them.
    """

    campus: AccessPoints
    located: dict[str, tuple[float, str, str]] = field(default_factory=dict)
    resolved: dict[int, float] = field(default_factory=dict)
    asked: int = 0
    unknown: int = 0
    _answers: dict[str, tuple[float, Mapping[str, str]]] = field(default_factory=dict)

    def serve(self, event: Event, start_seconds: float) -> float:
        """Take in one message; returns the seconds that it took."""
        seconds = self.campus.settings.read
        client, ap, ip = event["client"], event["ap"], event["ip"]
        if client is None or (ip is None and event["action"] not in ASSOCIATIONS):
            if event["action"] in DEPARTURES:
                self.located.pop(client, None)
            return seconds
        if ip is None:
            ip, asking = self._address(client, ap, start_seconds)
            seconds += asking
        if ip is None:
            self.unknown += 1
        else:
            self.located[client] = (event["time"], ap, ip)
            self.resolved[event["number"]] = start_seconds + seconds - event["time"]
        return seconds

    def _address(self, client: str, ap: str, now: float) -> tuple[str | None, float]:
        asked_at, answer = self._answers.get(ap, (-np.inf, {}))
        if client in answer:
            return answer[client], 0.0
        if now - asked_at < self.campus.settings.ask_again_after:
            return None, 0.0
        answer, seconds = self.campus.ask(ap, now)
        self.asked += 1
        self._answers[ap] = (now, answer)
        return answer.get(client), seconds
