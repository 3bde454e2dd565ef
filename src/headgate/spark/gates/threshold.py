"""Keep fractions as whole millionths: what is logged is exactly what tasks compare with."""

from __future__ import annotations

__all__ = ["EVERYTHING", "millionths"]

EVERYTHING = 1_000_000
"""The threshold that keeps every tuple; 0 keeps none."""


def millionths(share: float) -> int:
    """The threshold for a share of 0 to 1; what lies outside is moved to the nearest end."""
    return min(max(round(share * EVERYTHING), 0), EVERYTHING)
