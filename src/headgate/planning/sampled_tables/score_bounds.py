"""Upper bounds on the best score that take no solver run when a plan is asked for.

Any prices of capacity prove a bound at any rates (weak duality, `FlowModel.worth`).
Good prices are those of optimal plans, so a few are computed once: for each stream
alone in overload, for each pair, and for all together. At most `_PROGRAMS` programs.

Guarantee: every bound is valid, whatever prices were found. Not guaranteed: that one
of them is tight at the rates asked for.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from headgate.planning.flow_model import Floats, FlowModel
from headgate.planning.linear_program import FlowProgram

__all__ = ["ScoreBounds"]

_PROGRAMS = 64
_TIME_LIMIT_SECONDS = 10.0


class ScoreBounds:
    """The smallest of the bounds that the stored prices prove."""

    def __init__(self, model: FlowModel) -> None:
        prices = [np.zeros(len(model.constraints)), *_prices(model)]
        unique = np.unique(np.array(prices), axis=0)
        worth = [model.input_worth(model.worth(p, model.weights)) for p in unique]
        self._worth = np.array(worth).reshape(len(unique), len(model.inputs))
        self._capacity = unique @ model.capacities

    def at(self, rates: Floats) -> float:
        """No plan scores more at these rates."""
        return float(np.min(self._capacity + self._worth @ rates))


def _prices(model: FlowModel) -> list[Floats]:
    full = _full_rates(model)
    streams = np.flatnonzero(full > 0.0)
    if not len(streams):
        return []
    program = FlowProgram(
        model, model.unshed(full).offered, _TIME_LIMIT_SECONDS, floors=False, levels=False
    )
    found = []
    for chosen in _mixtures(streams.tolist()):
        rates = np.zeros(len(full))
        rates[list(chosen)] = 2.0 * full[list(chosen)]
        program.set_rates(rates)
        solution = program.maximise_score()
        if solution is not None:
            found.append(solution.capacity_prices)
    return found


def _mixtures(streams: list[int]) -> list[tuple[int, ...]]:
    """All together, each alone, pairs; cut off at the number of programs."""
    mixtures = [tuple(streams), *((s,) for s in streams), *combinations(streams, 2)]
    return mixtures[:_PROGRAMS]


def _full_rates(model: FlowModel) -> Floats:
    """The rate at which each stream alone fills some node or link; 0 where none does."""
    full = np.zeros(len(model.inputs))
    limited = model.capacities > 0.0
    for stream in range(len(model.inputs)):
        loads = model.unshed(np.eye(1, len(model.inputs), stream)[0]).loads
        top = float(np.max(loads[limited] / model.capacities[limited], initial=0.0))
        full[stream] = 1.0 / top if top > 0.0 else 0.0
    return full
