"""The answer of a planner: what to keep at each drop location, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from headgate.planning.drop_kinds import Drop, drops_of
from headgate.planning.flow_model import Floats, Flow, FlowModel

__all__ = ["WHOLE", "Objective", "Plan", "Planner", "Prices", "plan_from"]


WHOLE = 1.0 - 1e-6  # a share above this is everything but for a solver's tolerance


class Objective(StrEnum):
    """What a plan makes as large as possible."""

    THROUGHPUT = "throughput"  # total weighted tuples per second over all queries
    FAIRNESS = "fairness"  # the smallest keep fraction of a query, then the next, and so on


@dataclass(frozen=True)
class Prices:
    """What proves a bound on the score: prices of the capacities and of the guarantees.

    They are kept instead of the bound because a decision needs the plan at once and the
    proof only when somebody asks. floors: guaranteed rates by query, in tuples per second.
    """

    capacities: Floats
    floor_prices: Floats
    floors: Floats

    def score_bound(self, model: FlowModel, rates: Floats) -> float:
        """No plan at these rates scores more (weak duality)."""
        weights = model.weights + self.floor_prices
        bound = model.score_bound(rates, self.capacities, weights)
        return bound - float(self.floor_prices @ self.floors)


@dataclass(frozen=True)
class Plan:
    """Keep fractions by drop location, with the loads and rates they lead to.

    score:           weighted tuples per second over all queries.
    objective_value: what the planner maximised (equal to `score` for throughput).
    proof:           the bound that the planner has proven, or the prices that prove it.
    spared:          mixed locations that keep everything though the best plan drops there.
    """

    planner: str
    objective: Objective
    model: FlowModel = field(repr=False)
    rates: Floats = field(repr=False)
    keep: Floats = field(repr=False)
    flow: Flow = field(repr=False)
    objective_value: float
    proof: float | Prices = field(repr=False)
    spared: tuple[str, ...] = ()

    @cached_property
    def objective_bound(self) -> float:
        """No plan whatsoever reaches more. Computed when it is first asked for."""
        proof = self.proof
        bound = proof.score_bound(self.model, self.rates) if isinstance(proof, Prices) else proof
        return max(bound, self.objective_value)

    @property
    def score(self) -> float:
        return self.flow.score

    @property
    def gap(self) -> float:
        """How far from optimal the plan can be, as a fraction of the bound."""
        if self.objective_bound <= 0.0:
            return 0.0
        return max(0.0, (self.objective_bound - self.objective_value) / self.objective_bound)

    @property
    def sheds(self) -> bool:
        return bool(np.any(self.keep < 1.0))

    @property
    def unmet_guarantees(self) -> tuple[str, ...]:
        """Queries that get less than their guaranteed minimum (never under `exact`)."""
        return tuple(
            q.name
            for q in self.model.network.queries
            if self.query_keep_fraction[q.name] < q.keep_at_least - 1e-6
        )

    @cached_property
    def keep_fraction(self) -> Mapping[str, float]:
        """By drop location; 1 where nothing arrives."""
        return dict(
            zip((arc.name for arc in self.model.locations), self.keep.tolist(), strict=True)
        )

    @cached_property
    def drops(self) -> Mapping[str, Drop]:
        """Which tuples to drop, by drop location, so that answers stay right."""
        return drops_of(self.model.network)

    @cached_property
    def mixed_drops(self) -> Mapping[str, str]:
        """What is wrong with answers, by the location where tuples of it fall at random."""
        return {
            name: drop.conflict
            for name, drop in self.drops.items()
            if drop.mixed and self.keep_fraction.get(name, 1.0) < WHOLE
        }

    @cached_property
    def node_load(self) -> Mapping[str, float]:
        """CPU seconds per second by node."""
        count = self.model.node_count
        return dict(
            zip(self.model.constraints[:count], self.flow.loads[:count].tolist(), strict=True)
        )

    @cached_property
    def link_load(self) -> Mapping[str, float]:
        """Bytes per second by link."""
        count = self.model.node_count
        return dict(
            zip(self.model.constraints[count:], self.flow.loads[count:].tolist(), strict=True)
        )

    @cached_property
    def query_rate_per_second(self) -> Mapping[str, float]:
        names = (q.name for q in self.model.network.queries)
        return dict(zip(names, self.flow.delivered.tolist(), strict=True))

    @cached_property
    def query_keep_fraction(self) -> Mapping[str, float]:
        """Delivered rate over the rate without any drop; 1 where there is nothing to lose."""
        full = self.model.unshed(self.rates).delivered
        fraction = np.divide(self.flow.delivered, full, out=np.ones_like(full), where=full > 0.0)
        names = (q.name for q in self.model.network.queries)
        return dict(zip(names, fraction.tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        network = self.model.network
        return {
            "network": network.name,
            "planner": self.planner,
            "objective": str(self.objective),
            "rates_per_second": dict(zip(network.stream_by_name, self.rates.tolist(), strict=True)),
            "keep_fraction": dict(self.keep_fraction),
            "drops": {name: drop.to_dict() for name, drop in self.drops.items()},
            "wrong_answers": dict(self.mixed_drops),
            "spared_for_right_answers": list(self.spared),
            "node_load": dict(self.node_load),
            "link_load_bytes_per_second": dict(self.link_load),
            "query_rate_per_second": dict(self.query_rate_per_second),
            "query_keep_fraction": dict(self.query_keep_fraction),
            "score": self.score,
            "objective_value": self.objective_value,
            "objective_bound": self.objective_bound,
            "gap": self.gap,
            "unmet_guarantees": list(self.unmet_guarantees),
        }


class Planner(Protocol):
    """Turns input rates into a plan. A planner holds one network and its statistics."""

    model: FlowModel

    def plan(self, rates_per_second: Mapping[str, float]) -> Plan: ...


def plan_from(
    planner: str,
    model: FlowModel,
    rates: Floats,
    keep: Floats,
    *,
    bound: float | Prices,
    objective: Objective = Objective.THROUGHPUT,
    value: float | None = None,
) -> Plan:
    """A plan with everything that follows from `keep` computed from the network.

    Keep fractions are clipped to 0..1, and are 1 where nothing arrives. If the
    loads are over a capacity by a solver's tolerance, all inputs are scaled
    down by that much, so that the plan is feasible as computed.
    """
    keep = keep.clip(0.0, 1.0)
    flow = model.evaluate(rates, keep)
    over = model.fullest(flow)
    if 1.0 < over <= 1.0 + 1e-6:
        less = 1.0 / (over * (1.0 + 1e-15))
        keep[model.entering] *= less
        flow = flow.thinned(less, model.entering)
    idle = flow.offered <= 0.0
    if idle.any():
        keep[idle] = 1.0
    score = flow.score if value is None else value
    return Plan(planner, objective, model, rates, keep, flow, score, bound)
