"""A campus wireless network and the syslog of its access points, generated from a seed.

What PACK's MAC/IP locator listens to (section 7): devices authenticate, associate, roam
and depart, and access points report about themselves. The paper's log is not public; this
one has its fields, its actions and bursts. Its rates are ours (`CampusSettings`).

A message is a plain event:

    number, time (seconds), type (Info or Warning), action, ap (name of the access
    point), host (name of the device, or of the access point where it speaks of itself),
    client (MAC address), ip (address; None where the message does not carry it)

The model. Devices come for visits. A visit begins in a building: the device authenticates
with several access points and associates with one. While it stays it roams to others of
the same building; it ends with some of the four departure messages, as does its stay at
an access point that it roams away from. Between classes many visits begin at once: the
rate of visits is a constant with a crowd on top, again and again. DHCP: a device that has
no lease gets an address a moment after it associated, and a message says so; a device
that has one keeps it, and its associations carry it with a chance of `ip_known_share`.

Guarantees: the same seed and settings give the same log; times are sorted; an address
belongs to one device only. Not guaranteed: that any real campus is like this. Cost: a few
seconds for 100,000 messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.errors import UsageError
from headgate.simulation.arrivals import Arrivals, FlashCrowd, Poisson, Repeated

__all__ = ["ASSOCIATIONS", "DEPARTURES", "CampusSettings", "Message", "campus_log"]

ASSOCIATIONS = ("Associated", "Reassociated")
DEPARTURES = ("Deauthenticated", "Disassociated", "Deauthenticating", "Disassociating")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CampusSettings:
    """Sizes and rates.

    visits_per_second:     devices that come; `crowd_factor` times as many in a crowd,
                           which begins every `crowd_every_seconds`.
    stay_seconds:          mean length of a visit.
    roam_seconds:          mean time at an access point before a device moves on.
    authentications:       mean number of messages before an association.
    departures:            mean number of messages when a device leaves an access point.
    own_per_second:        messages of the access points about themselves, all together.
    ip_known_share:        of the associations of devices with a lease, how many carry it.
    lease_seconds:         how long an address is kept.
    """

    access_points: int = 550
    buildings: int = 110
    devices: int = 6000
    visits_per_second: float = 0.5
    crowd_factor: float = 4.0
    crowd_every_seconds: float = 600.0
    crowd_seconds: float = 120.0
    stay_seconds: float = 900.0
    roam_seconds: float = 600.0
    authentications: float = 4.0
    departures: float = 2.5
    own_per_second: float = 0.8
    ip_known_share: float = 0.3
    lease_seconds: float = 7200.0

    def __post_init__(self) -> None:
        if not 0 < self.buildings <= self.access_points:
            raise UsageError("a campus has at least one building, and one access point in each")
        if self.devices < 1:
            raise UsageError(f"a campus has at least one device, got {self.devices}")

    def visits(self) -> Arrivals:
        """When devices come: at random, at a rate with a crowd again and again."""
        base, peak = self.visits_per_second, self.crowd_factor * self.visits_per_second
        crowd = FlashCrowd(base, peak, 0.5 * self.crowd_every_seconds, self.crowd_seconds)
        return Poisson(Repeated(crowd, self.crowd_every_seconds))


def campus_log(
    seconds: float, settings: CampusSettings | None = None, seed: int = 1
) -> list[Message]:
    """The messages of so many seconds of a campus that has been in use for a while."""
    campus = _Campus(settings or CampusSettings(), np.random.default_rng(seed))
    messages = [*campus.of_visits(seconds), *campus.of_access_points(seconds)]
    messages.sort(key=lambda message: float(message["time"]))
    return [{"number": number, **message} for number, message in enumerate(messages)]


class _Campus:
    def __init__(self, settings: CampusSettings, rng: np.random.Generator) -> None:
        self.settings, self.rng = settings, rng
        self.leases: dict[int, tuple[str, float]] = {}
        self.addresses = 0
        weights = 1.0 / np.arange(1, settings.buildings + 1) ** 0.5  # some are busier
        self.up_to = np.cumsum(weights) / weights.sum()

    def of_visits(self, seconds: float) -> Iterator[Message]:
        """What falls into the time asked for; visits begin early enough to fill it."""
        early = 2.0 * self.settings.stay_seconds
        starts = self.settings.visits().times(0.0, seconds + early, self.rng) - early
        away: dict[int, float] = {}
        for start in starts.tolist():
            device = int(self.rng.integers(self.settings.devices))
            if away.get(device, -np.inf) > start:
                continue  # it is here already
            visit = list(self._visit(device, start))
            away[device] = max(float(message["time"]) for message in visit)
            yield from (message for message in visit if 0.0 <= message["time"] < seconds)

    def of_access_points(self, seconds: float) -> Iterator[Message]:
        count = int(self.rng.poisson(self.settings.own_per_second * seconds))
        for time in self.rng.uniform(0.0, seconds, count).tolist():
            ap = self._name(int(self.rng.integers(self.settings.access_points)))
            kind = "Info" if self.rng.random() < 0.5 else "Warning"
            action = ("Interface up", "Uptime", "Retry limit")[int(self.rng.integers(3))]
            yield _message(time, kind, action, ap, ap, None, None)

    def _visit(self, device: int, start: float) -> Iterator[Message]:
        building = int(np.searchsorted(self.up_to, self.rng.random()))
        per_building = self.settings.access_points // self.settings.buildings
        points = [building * per_building + place for place in range(per_building)]
        end = start + self.rng.exponential(self.settings.stay_seconds)
        now, here, action = start, _one_of(self.rng, points), ASSOCIATIONS[0]
        while True:
            yield from self._arrive(device, now, here, points, action)
            leave = now + 1.0 + self.rng.exponential(self.settings.roam_seconds)
            if leave >= end or len(points) == 1:
                yield from self._depart(device, max(end, now + 1.0), here)
                return
            there = _one_of(self.rng, [point for point in points if point != here])
            yield self._of(device, leave, "Roamed", here)
            yield from self._depart(device, leave + 0.1, here)
            now, here, action = leave + 0.5, there, ASSOCIATIONS[1]

    def _arrive(
        self, device: int, now: float, here: int, points: Sequence[int], action: str
    ) -> Iterator[Message]:
        for _ in range(1 + int(self.rng.poisson(self.settings.authentications - 1.0))):
            tried = _one_of(self.rng, points)
            yield self._of(device, now - 0.4 * self.rng.random(), "Authenticated", tried)
        ip, until = self.leases.get(device, ("", -np.inf))
        if until > now:
            carried = ip if self.rng.random() < self.settings.ip_known_share else None
            yield self._of(device, now, action, here, carried)
            return
        yield self._of(device, now, action, here)
        self.addresses += 1
        ip = f"10.{self.addresses >> 16 & 255}.{self.addresses >> 8 & 255}.{self.addresses & 255}"
        self.leases[device] = (ip, now + self.settings.lease_seconds)
        yield self._of(device, now + 0.5 * self.rng.random(), "Leased", here, ip)

    def _depart(self, device: int, now: float, here: int) -> Iterator[Message]:
        count = 1 + min(3, int(self.rng.poisson(self.settings.departures - 1.0)))
        for place in self.rng.permutation(len(DEPARTURES))[:count].tolist():
            yield self._of(device, now + 0.3 * self.rng.random(), DEPARTURES[place], here)

    def _of(
        self, device: int, time: float, action: str, point: int, ip: str | None = None
    ) -> Message:
        mac = f"00:0d:{device >> 16 & 255:02x}:{device >> 8 & 255:02x}:{device & 255:02x}:2a"
        kind = "Warning" if self.rng.random() < 0.03 else "Info"
        return _message(time, kind, action, self._name(point), f"device-{device}", mac, ip)

    def _name(self, point: int) -> str:
        per_building = self.settings.access_points // self.settings.buildings
        return f"ap-{point // per_building}-{point % per_building}"


def _one_of(rng: np.random.Generator, points: Sequence[int]) -> int:
    return points[int(rng.integers(len(points)))]


def _message(
    time: float,
    kind: str,
    action: str,
    ap: str,
    host: str,
    client: str | None,
    ip: str | None,
) -> Message:
    return {
        "time": time,
        "type": kind,
        "action": action,
        "ap": ap,
        "host": host,
        "client": client,
        "ip": ip,
    }
