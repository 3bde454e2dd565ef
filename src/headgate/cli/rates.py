"""What `--rates`, `--scale` and `--max-error` say, as numbers.

Every wrong entry of `--rates` is reported at once. Commas separate entries, so a
stream whose name has a comma can only take its rate from the network file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headgate.errors import UsageError
from headgate.names import nearest
from headgate.network import Network, check_rates
from headgate.quantities import RATE

__all__ = ["parse_fraction", "parse_rates", "rates_at_scale"]


def parse_rates(texts: Sequence[str], network: Network) -> dict[str, float]:
    """Tuples per second by stream, from texts such as ``a=100,b=2000/s``."""
    rates: dict[str, float] = {}
    wrong: list[str] = []
    for entry in (part.strip() for text in texts for part in text.split(",")):
        if not entry:
            continue
        try:
            name, rate = _parse_entry(entry, network)
        except ValueError as error:
            wrong.append(f"--rates {entry}: {error}")
            continue
        if name in rates:
            wrong.append(f"--rates {entry}: the stream {name!r} is given twice; keep one")
        rates[name] = rate
    if wrong:
        raise UsageError("\n".join(wrong))
    return rates


def rates_at_scale(
    network: Network, given: Mapping[str, float], scale: float = 1.0
) -> dict[str, float]:
    """A rate for every stream: the given one or the file's, times `scale`."""
    if not (math.isfinite(scale) and scale >= 0.0):
        raise UsageError(f"--scale {scale:g}: expected a number of at least 0, for example 2.5")
    return {name: rate * scale for name, rate in check_rates(network, given).items()}


def parse_fraction(option: str, text: str) -> float:
    """A fraction between 0 and 1 from ``5%`` or ``0.05``."""
    bare = text.strip().removesuffix("%").strip()
    try:
        value = float(bare) / (100.0 if "%" in text else 1.0)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 1.0:
        raise UsageError(f"{option} {text}: expected a share above 0, for example 5% or 0.05")
    return value


def _parse_entry(entry: str, network: Network) -> tuple[str, float]:
    name, equals, text = (part.strip() for part in entry.rpartition("="))
    if not equals or not name:
        raise ValueError("expected stream=rate, for example orders=2000")
    if name not in network.stream_by_name:
        raise ValueError(f"unknown stream {name!r}{nearest(name, network.stream_by_name)}")
    rate = RATE.parse(text)
    if not (math.isfinite(rate) and rate >= 0.0):
        raise ValueError(f"expected a rate of at least 0 tuples per second, got {text!r}")
    return name, rate
