"""Names as people misspell them: how long one may be, and the nearest that exists."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

__all__ = ["LONGEST_NAME", "nearest"]

LONGEST_NAME = 200  # characters
_NAMES_COMPARED = 100  # around the place of a misspelt name in the alphabet


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint that ends an error message: the closest valid name, or all of a few."""
    names = _alphabetical(frozenset(valid))
    place = bisect(names, name)
    around = names[max(0, place - _NAMES_COMPARED // 2) : place + _NAMES_COMPARED // 2]
    close = get_close_matches(name[:LONGEST_NAME], around, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return "; none is defined"
    shown = ", ".join(repr(n) for n in names[:8])
    return f"; expected one of {shown}" + (", ..." if len(names) > 8 else "")


@lru_cache(maxsize=8)
def _alphabetical(names: frozenset[str]) -> list[str]:
    """Sorted once, however many names are misspelt. A frozenset remembers its hash."""
    return sorted(names)
