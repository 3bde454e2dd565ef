"""From kept rates to keep fractions."""

from __future__ import annotations

import numpy as np

from headgate.planning.flow_model import Floats, FlowModel

__all__ = ["keep_from"]

_WHOLE = 1e-9  # a gate that would drop less than this share drops nothing


def keep_from(model: FlowModel, rates: Floats, kept: Floats) -> Floats:
    """Keep fractions that lead to the kept rates, with drops moved as far up as they go.

    Where everything behind a gate is dropped again at a split, the part that no
    branch takes is dropped at the gate already: the same results for less work.
    """
    kept = kept.copy()
    for level in model.forwarding:
        needed = np.maximum.reduceat(kept[level.fed] / level.gains, level.starts)
        kept[level.owners] = np.minimum(kept[level.owners], needed)
    offered = model.feed.times(kept)
    model.set_inputs(offered, rates)
    keep = np.ones(len(kept))
    np.divide(kept, offered, out=keep, where=offered > 0.0)
    keep[keep > 1.0 - _WHOLE] = 1.0
    return keep
