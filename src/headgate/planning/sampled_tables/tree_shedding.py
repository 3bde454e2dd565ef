"""From trees of nodes to one plan: who is overloaded, what is dropped, what it proves.

The tables of a tree say what to keep at its inputs and behind its splits, wherever
they were made: in one place (`fit`) or by the nodes themselves (`dfit_sampled`). Both
give a `Shedding` for each overloaded tree; this module adds them up to a plan.

A tree that is not overloaded is never touched. One that fits once everything that can
earn nothing is dropped (no weight, selectivity 0, no capacity behind it) needs no
table: keeping all the rest is the best there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.network import Arc
from headgate.planning.flow_model import Floats, Flow, FlowModel
from headgate.planning.plan import Objective, Plan, plan_from
from headgate.planning.sampled_tables.score_bounds import ScoreBounds
from headgate.planning.useful_flow import useful_flow

__all__ = ["Shedder", "Shedding", "TreePlace", "location_numbers", "shedding_plan", "tree_places"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Shedding:
    """What a tree drops: keep fractions at its inputs, kept rates behind its splits.

    inputs, splits: numbers of locations. bound: no plan scores more on this tree.
    """

    inputs: Integers
    keep: Floats
    splits: Integers
    kept: Floats
    bound: float


@dataclass(frozen=True)
class TreePlace:
    """Which limits, worthless locations and queries of the network belong to a tree."""

    limits: Integers
    worthless: Integers
    queries: NDArray[np.bool_]


class Shedder(Protocol):
    """Says what a tree drops at given rates of all streams."""

    place: TreePlace

    def shed(self, rates: Floats) -> Shedding: ...


def tree_places(model: FlowModel, trees: Iterable[Sequence[str]]) -> list[TreePlace]:
    """The place of each tree, given by its nodes."""
    open_ = useful_flow(model).open
    return [_place(model, frozenset(nodes), open_) for nodes in trees]


def location_numbers(model: FlowModel, arcs: Iterable[str]) -> Integers:
    """Numbers of the locations with these names."""
    number = {arc.name: index for index, arc in enumerate(model.locations)}
    return np.array([number[arc] for arc in arcs], dtype=np.int64)


def shedding_plan(
    name: str, model: FlowModel, rates: Floats, shedders: Sequence[Shedder], bounds: ScoreBounds
) -> Plan:
    """The plan that sheds only where a tree is overloaded."""
    unshed = model.unshed(rates)
    keep = np.ones(len(model.locations))
    if model.is_feasible(unshed, tolerance=0.0):
        score = unshed.score
        return Plan(name, Objective.THROUGHPUT, model, rates, keep, unshed, score, score)
    always = _without_load(model)
    crowded = [s for s in shedders if _over(model, unshed, s.place)]
    for shedder in crowded:
        keep[shedder.place.worthless] = 0.0
    keep[always] = 1.0
    useful = model.evaluate(rates, keep)
    bound, sheddings = useful.score, []
    for shedder in crowded:
        if _over(model, useful, shedder.place):
            shedding = shedder.shed(rates)
            sheddings.append(shedding)
            earned = (model.weights * useful.delivered)[shedder.place.queries]
            bound += shedding.bound - float(np.sum(earned))
    keep = _keep(model, rates, keep, sheddings, always)
    return plan_from(name, model, rates, keep, bound=min(bound, bounds.at(rates)))


def _place(model: FlowModel, nodes: frozenset[str], open_: NDArray[np.bool_]) -> TreePlace:
    network = model.network
    limits = [i for i, c in enumerate(model.constraints) if c.split("->")[0] in nodes]
    worthless = [
        i for i, arc in enumerate(model.locations) if _node_of(model, arc) in nodes and not open_[i]
    ]
    return TreePlace(
        np.array(limits, dtype=np.int64),
        np.array(worthless, dtype=np.int64),
        np.array([network.node_of(q.input) in nodes for q in network.queries], dtype=bool),
    )


def _node_of(model: FlowModel, arc: Arc) -> str | None:
    return model.network.node_of(arc.target) or model.network.node_of(arc.source)


def _over(model: FlowModel, flow: Flow, place: TreePlace) -> bool:
    return bool(np.any(flow.loads[place.limits] > model.capacities[place.limits]))


def _without_load(model: FlowModel) -> NDArray[np.bool_]:
    always = np.ones(len(model.locations), dtype=bool)
    always[model.load.columns[model.load.values > 0.0]] = False
    return always


def _keep(
    model: FlowModel,
    rates: Floats,
    keep: Floats,
    sheddings: Sequence[Shedding],
    always: NDArray[np.bool_],
) -> Floats:
    """Keep fractions from kept rates, in the order of flow.

    Gates without load stay open: what passes them is limited behind them.
    """
    target = np.full(len(keep), np.inf)
    for shedding in sheddings:
        keep[shedding.inputs] = shedding.keep
        target[shedding.splits] = shedding.kept
    keep[always], target[always] = 1.0, np.inf
    limited = np.isfinite(target)
    for level in model.levels[1:]:
        chosen = level[limited[level]]
        if len(chosen):
            offered = model.evaluate(rates, keep).offered[chosen]
            share = np.divide(target[chosen], offered, out=np.ones(len(chosen)), where=offered > 0)
            keep[chosen] = np.minimum(share, 1.0)
    return keep
