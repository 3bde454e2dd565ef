"""From kept rates to keep fractions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats, FlowModel

__all__ = ["keep_from"]

_WHOLE = 1e-9  # a gate that would drop less than this share drops nothing


def keep_from(
    model: FlowModel, rates: Floats, kept: Floats, whole: NDArray[np.bool_] | None = None
) -> Floats:
    """Keep fractions that lead to the kept rates, with drops moved as far up as they go.

    Where everything behind a gate is dropped again at a split, the part that no
    branch takes is dropped at the gate already: the same results for less work.
    whole: gates that are to keep everything; nothing is moved up to these.
    """
    kept = kept.copy()
    for level in model.forwarding:
        needed = np.maximum.reduceat(kept[level.fed] / level.gains, level.starts)
        if whole is not None:
            needed[whole[level.owners]] = np.inf
        kept[level.owners] = np.minimum(kept[level.owners], needed)
    offered = model.feed.times(kept)
    model.set_inputs(offered, rates)
    keep = np.ones(len(kept))
    np.divide(kept, offered, out=keep, where=offered > 0.0)
    keep[keep > 1.0 - _WHOLE] = 1.0
    if whole is not None:
        keep[whole] = 1.0
    return keep
