"""Look-up by scan: rows in descending order of score, the first that fits is the answer.

Guarantee: the same entry as any other look-up over the same rows (highest score; of
equal scores the first row). Cost: one comparison of arrays per block of rows; blocks
double, so a good row near the top is found at once and the worst case is one pass.
The default, because it was faster than the quadtree at every size tried: 28 against 83
microseconds at 180 rows, 0.26 against 0.39 milliseconds at 18,000. A pass over arrays
costs less than a few dozen steps in Python.
"""

from __future__ import annotations

import numpy as np

from headgate.planning.flow_model import Floats

__all__ = ["EntryScan"]

_FIRST_BLOCK = 256
_ROUNDING = 1e-12


class EntryScan:
    """Finds the row of highest score that lies at or below a point on every column."""

    def __init__(self, rates: Floats, scores: Floats) -> None:
        self._order = np.lexsort((np.arange(len(scores)), -scores))
        self._rates = rates[self._order]

    def find(self, point: Floats) -> int | None:
        """The number of the row, or None where no row fits."""
        limit = point * (1.0 + _ROUNDING)
        start, block = 0, _FIRST_BLOCK
        while start < len(self._order):
            fits = np.all(self._rates[start : start + block] <= limit, axis=1)
            first = int(np.argmax(fits))
            if fits[first]:
                return int(self._order[start + first])
            start, block = start + block, 2 * block
        return None
