"""Thin a table out: one row instead of many similar ones (2007, section 6.3).

Rows whose rates agree on every column within a share (they fall into the same cell of
a geometric grid) become one: among those that score nearly as much as the best of the
cell, the one with the smallest CPU load.

Not lossless: an input just above a row that is gone may only find a row of another
cell, so the error is no longer bounded in advance. Off by default; `plan.gap` counts
what it loses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats

__all__ = ["dissimilar"]


def dissimilar(rates: Floats, scores: Floats, cpu: Floats, similarity: float) -> NDArray[np.intp]:
    """Numbers of the rows that stay, ascending."""
    if not len(scores):
        return np.zeros(0, dtype=np.intp)
    logs = np.log(np.where(rates > 0.0, rates, 1.0)) / np.log1p(similarity)
    cells = np.where(rates > 0.0, np.floor(logs + 1e-9), -np.inf)
    _, cell = np.unique(cells, axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    best = np.full(int(cell.max()) + 1, -np.inf)
    np.maximum.at(best, cell, scores)
    good = scores >= best[cell] * (1.0 - similarity)
    order = np.lexsort((-scores, cpu, ~good, cell))
    first = np.append(True, np.diff(cell[order]) > 0)
    return np.sort(order[first])
