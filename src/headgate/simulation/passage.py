"""Tuples pass through the operators of one job: how many come out, and what it costs.

All tuples of a batch go through one operator after the other, as columns. A filter
passes a tuple with its selectivity as probability; an operator with a selectivity
above 1 repeats tuples; an aggregate makes one result of 1 / selectivity tuples in a
row and forwards the oldest arrival; an input of a join gives as many results as its
tuples meet partners, with its own arrival. Groups of an aggregate go on over the end
of a batch, so an operator has state.

Guarantee: the same state, tuples and generator give the same results. Not modelled:
values, keys, windows by time. Cost: O(tuples) numpy work for each operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headgate.coordinator import GateCount
from headgate.network import Arc, Operator, OperatorKind, Statistics
from headgate.simulation.jobs import Job

__all__ = ["Passage", "PassageState", "Rows", "pass_through"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rows:
    """origin: oldest arrival in the network. done: when the job has finished the tuple."""

    origin: Floats
    done: Floats

    def __len__(self) -> int:
        return len(self.origin)

    def chosen(self, index: NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        return Rows(self.origin[index], self.done[index])


@dataclass(slots=True)
class PassageState:
    """Open groups of aggregates: tuples in the group, and the oldest arrival in it."""

    groups: dict[str, tuple[float, float]] = field(default_factory=dict)

    def copy(self) -> PassageState:
        return PassageState(dict(self.groups))


@dataclass(frozen=True, slots=True)
class Passage:
    """outputs by arc, what the gates behind splits did, and tuples by operator."""

    outputs: Mapping[str, Rows]
    split_counts: Mapping[str, GateCount]
    operator_tuples: Mapping[str, int]


def pass_through(
    job: Job,
    inputs: Mapping[str, Rows],
    split_keep: Mapping[str, float],
    state: PassageState,
    rng: np.random.Generator,
) -> Passage:
    """Run `inputs` (by arc, behind their gates) through the job; `state` moves on."""
    on_arc = dict(inputs)
    splits = {arc.name for arc in job.splits}
    counts: dict[str, GateCount] = {}
    tuples: dict[str, int] = {}
    for operator in job.operators:
        arriving = [on_arc.pop(Arc(s, operator.name).name) for s in operator.inputs]
        tuples[operator.name] = sum(map(len, arriving))
        result = _through(operator, arriving, state, rng)
        for arc in job.network.arcs_from[operator.name]:
            passed = result
            if arc.name in splits:
                passed, counts[arc.name] = _gate(result, split_keep.get(arc.name, 1.0), rng)
            on_arc[arc.name] = passed
    return Passage(on_arc, counts, tuples)


def _gate(rows: Rows, keep_fraction: float, rng: np.random.Generator) -> tuple[Rows, GateCount]:
    offered = len(rows)
    if keep_fraction >= 1.0:
        return rows, GateCount(offered, offered, 0)
    passed = rows.chosen(rng.random(offered) < keep_fraction)
    return passed, GateCount(offered, len(passed), offered - len(passed))


def _through(
    operator: Operator, arriving: list[Rows], state: PassageState, rng: np.random.Generator
) -> Rows:
    gains = Statistics().gains(operator)
    if operator.kind is OperatorKind.AGGREGATE and 0.0 < gains[0] < 1.0:
        return _aggregated(operator.name, _merged(arriving), gains[0], state)
    parts = [_multiplied(rows, gain, rng) for rows, gain in zip(arriving, gains, strict=True)]
    return _merged(parts)


def _merged(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    both = Rows(
        np.concatenate([rows.origin for rows in parts]),
        np.concatenate([rows.done for rows in parts]),
    )
    return both.chosen(np.lexsort((both.origin, both.done)))


def _multiplied(rows: Rows, gain: float, rng: np.random.Generator) -> Rows:
    if gain == 1.0 or len(rows) == 0:
        return rows
    whole = math.floor(gain)
    copies = whole + (rng.random(len(rows)) < gain - whole)
    return rows.chosen(np.repeat(np.arange(len(rows)), copies))


def _aggregated(name: str, rows: Rows, selectivity: float, state: PassageState) -> Rows:
    """One row for each full group; what is left over stays in `state`."""
    held, oldest = state.groups.get(name, (0.0, math.inf))
    if len(rows) == 0:
        return rows
    size = 1.0 / selectivity
    first = math.ceil(size - held - 1e-9)  # rows until the open group is full
    full = 0 if len(rows) < first else 1 + int((len(rows) - first) / size + 1e-9)
    if full == 0:
        state.groups[name] = (held + len(rows), min(oldest, float(rows.origin.min())))
        return rows.chosen(np.empty(0, dtype=np.intp))
    ends = np.minimum(np.ceil(size * np.arange(1, full + 1) - held - 1e-9), len(rows)).astype(
        np.intp
    )
    starts = np.concatenate(([0], ends[:-1])).astype(np.intp)
    origins = np.minimum.reduceat(rows.origin, starts)
    origins[0] = min(float(origins[0]), oldest)
    rest = rows.origin[ends[-1] :]
    state.groups[name] = (
        held + len(rows) - full * size,
        float(rest.min()) if len(rest) else math.inf,
    )
    return Rows(origins, rows.done[ends - 1])
