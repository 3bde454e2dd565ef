"""Numbers with units, as people write them: ``120us``, ``2000/s``, ``10 MB/s``.

A plain number is in the base unit of its quantity: seconds, tuples per second,
bytes or bytes per second. The value is the double nearest to what was written:
``120us`` is exactly ``0.00012``. Upper and lower case matter in units, not in words:
a duration may be written as Spark writes intervals, ``3 seconds``.

>>> DURATION.parse("120us")
0.00012
>>> DURATION.parse("1 minute")
60.0
>>> BANDWIDTH.parse("10 MB/s")
10000000.0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal

from headgate.names import nearest

__all__ = ["AMOUNT", "BANDWIDTH", "DURATION", "RATE", "SIZE", "Quantity"]

LONGEST_NUMBER = 64  # characters; more digits than this are a mistake, not a number

_NUMBER = re.compile(
    r"(?P<number>[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]{1,3})?)"
    r"(?P<unit>.*)",
    re.DOTALL,
)
_NOT_FINITE = re.compile(r"[+-]?\.?(?:inf|infinity|nan)", re.IGNORECASE)
_EXACT = Context(prec=80)


@dataclass(frozen=True)
class Quantity:
    """One kind of number: the factor of each unit, and a sample for error messages.

    words: units that are written out, in lower case.
    """

    example: str
    units: Mapping[str, Decimal]
    words: Mapping[str, Decimal] = field(default_factory=dict)

    def parse(self, text: str) -> float:
        """The number in the base unit; ValueError says what was expected instead.

        Accepts negative, infinite and undefined numbers: whether they make sense
        is for the network's validation to say.
        """
        text = text.strip()
        if _NOT_FINITE.fullmatch(text):
            return float(text.replace(".", ""))
        match = _NUMBER.fullmatch(text)
        if match is None or len(text) > LONGEST_NUMBER:
            raise ValueError(f"expected a number such as {self.example}, got {_shown(text)}")
        factor = self._factor("".join(match["unit"].split()))
        return float(_EXACT.multiply(Decimal(match["number"]), factor))

    def _factor(self, unit: str) -> Decimal:
        if not unit:
            return Decimal(1)
        if unit in self.units:
            return self.units[unit]
        if unit.lower() in self.words:
            return self.words[unit.lower()]
        if not self.units:
            raise ValueError(
                f"expected a plain number such as {self.example}, without the unit {unit!r}"
            )
        by_lower = {known.lower(): known for known in self.units}
        meant = by_lower.get(unit.lower(), unit)
        raise ValueError(f"unknown unit {unit!r}{nearest(meant, (*self.units, *self.words))}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _units(**factors: str) -> dict[str, Decimal]:
    return {unit: Decimal(factor) for unit, factor in factors.items()}


_TIME_UNITS = _units(us="1e-6", ms="1e-3", s="1", min="60", m="60", h="3600")
_TIME_WORDS = _units(
    microsecond="1e-6",
    millisecond="1e-3",
    second="1",
    minute="60",
    hour="3600",
    day="86400",
    week="604800",
)
_TIME_WORDS |= {f"{word}s": factor for word, factor in _TIME_WORDS.items()}
_BYTE_UNITS = _units(
    B="1", kB="1e3", MB="1e6", GB="1e9", KiB="1024", MiB="1048576", GiB="1073741824"
)

AMOUNT = Quantity("0.5", {})
DURATION = Quantity("120us", _TIME_UNITS, _TIME_WORDS)
RATE = Quantity("2000/s", {"/s": Decimal(1), "/min": _EXACT.divide(Decimal(1), Decimal(60))})
SIZE = Quantity("300 B", _BYTE_UNITS)
BANDWIDTH = Quantity("10 MB/s", {f"{unit}/s": factor for unit, factor in _BYTE_UNITS.items()})
