"""Numbers as a person reads them in a table."""

from __future__ import annotations

import math

__all__ = ["bar", "byte_rate", "number", "percent"]

_EIGHTHS = " ▏▎▍▌▋▊▉"
_ROUNDING = 1e-9  # a fraction this near to 0 or 1 is a solver's rounding, not a loss


def number(value: float) -> str:
    """Three to four digits that matter, thousands marked.

    >>> number(12345.6), number(42.25), number(0.123456), number(0.0)
    ('12,346', '42.2', '0.123', '0')
    """
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 100.0:
        return f"{value:,.0f}"
    if size >= 10.0:
        return f"{value:.1f}"
    return f"{value:.3g}"


def percent(fraction: float) -> str:
    """A fraction in percent. What is not all is never shown as 100 %, nor a little as 0 %.

    >>> percent(1.0), percent(0.5349), percent(0.99999), percent(0.0001), percent(2.38)
    ('100 %', '53.5 %', '>99.9 %', '<0.1 %', '238 %')
    """
    if not math.isfinite(fraction):
        return "no capacity"
    if abs(fraction - 1.0) <= _ROUNDING:
        return "100 %"
    if abs(fraction) <= _ROUNDING:
        return "0 %"
    if 0.9995 <= fraction < 1.0:
        return ">99.9 %"
    if 0.0 < fraction < 0.0005:
        return "<0.1 %"
    return f"{100.0 * fraction:.0f} %" if fraction >= 1.005 else f"{100.0 * fraction:.1f} %"


def byte_rate(bytes_per_second: float) -> str:
    """Bytes per second in a unit of readable size.

    >>> byte_rate(12_500_000.0), byte_rate(950.0)
    ('12.5 MB/s', '950 B/s')
    """
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if abs(bytes_per_second) >= size:
            return f"{number(bytes_per_second / size)} {unit}"
    return f"{number(bytes_per_second)} B/s"


def bar(fraction: float, width: int = 12) -> str:
    """A horizontal bar, `width` characters at 1 and not longer.

    >>> bar(0.5, width=4)
    '██'
    """
    eighths = round(8 * width * min(1.0, max(0.0, fraction)))
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
