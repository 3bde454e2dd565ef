"""Several queries on one node: who gets how much of the server, and who loses what.

`share_node` decides each query's share of the server and its keep fraction, from the
rates and costs of all. `NodeController` closes the loop: one model-based controller
for each query with its own target, the shares between them, and each query's loss.

The rule is weighted max-min. One level rises for all queries; a query keeps the
fraction min(1, max(keep_at_least, weight * level)), and the level is as high as the
node's capacity allows. So equal weights lose the same fraction, a query that needs
little is not touched, and no query gains by asking for more. What maximises the total
score instead is the business of `planning`.

Looking cannot be shed: its cost is taken off the capacity first. If looking alone and
the guaranteed minimums do not fit, the minimums are scaled down by one factor and
`fits` is False.

Guarantees: the shares sum to at most 1; all of the capacity is used while any query
loses something. Non-guarantees: the sharing is of time, not of memory; a scheduler
must enforce it. Cost: O(q log q) for q queries. Paper: 2012, section 6 (future work).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.control.contract import KeepDecision, PeriodMeasurement
from headgate.control.model_based import ModelBasedController, ModelBasedSettings
from headgate.errors import UsageError

__all__ = [
    "NodeController",
    "NodeShares",
    "QueryDecision",
    "QueryDemand",
    "QueryLoss",
    "QueryShare",
    "share_node",
]

_SMALLEST_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class QueryDemand:
    """What one query asks of the node. Costs in server seconds per tuple."""

    query: str
    arrival_rate_per_second: float
    looking_seconds: float
    processing_seconds: float
    fixed_load: float = 0.0
    weight: float = 1.0
    keep_at_least: float = 0.0

    @property
    def unavoidable_load(self) -> float:
        return self.fixed_load + self.arrival_rate_per_second * self.looking_seconds

    @property
    def sheddable_load(self) -> float:
        return self.arrival_rate_per_second * self.processing_seconds


@dataclass(frozen=True, slots=True)
class QueryShare:
    """keep_fraction of the query's tuples fit into server_share of the node."""

    query: str
    server_share: float
    keep_fraction: float

    @property
    def loss_fraction(self) -> float:
        return 1.0 - self.keep_fraction


@dataclass(frozen=True, slots=True)
class NodeShares:
    """One share for each query, in the order given."""

    shares: tuple[QueryShare, ...]
    fits: bool


def share_node(capacity: float, demands: Sequence[QueryDemand]) -> NodeShares:
    """Share `capacity` (server seconds per second) over the queries.

    >>> shares = share_node(1.0, [QueryDemand("a", 100, 0.0, 0.001),
    ...                           QueryDemand("b", 100, 0.0, 0.018)])
    >>> [round(s.keep_fraction, 3) for s in shares.shares]   # 0.1 and 1.8 are asked for
    [0.526, 0.526]
    """
    if not (math.isfinite(capacity) and capacity > 0):
        raise UsageError(f"a node's capacity must be above 0, got {capacity!r}")
    left = capacity - sum(d.unavoidable_load for d in demands)
    promised = sum(d.keep_at_least * d.sheddable_load for d in demands)
    fits = left >= promised - 1e-12
    if fits:
        level = _level(demands, left)
        keeps = [min(1.0, max(d.keep_at_least, d.weight * level)) for d in demands]
    else:
        factor = max(0.0, left) / promised if promised > 0 else 0.0
        keeps = [factor * d.keep_at_least for d in demands]
    loads = [d.unavoidable_load + k * d.sheddable_load for d, k in zip(demands, keeps, strict=True)]
    total = max(capacity, sum(loads))
    return NodeShares(
        tuple(
            QueryShare(d.query, load / total, keep)
            for d, load, keep in zip(demands, loads, keeps, strict=True)
        ),
        fits,
    )


def _level(demands: Sequence[QueryDemand], capacity: float) -> float:
    """The highest level at which the sheddable loads fit into `capacity`."""
    # the load is piecewise linear in the level; it bends where a query starts and stops to rise
    bends: list[tuple[float, float]] = []
    used = 0.0
    for d in demands:
        used += d.keep_at_least * d.sheddable_load
        if d.weight > 0.0 and d.sheddable_load > 0.0 and d.keep_at_least < 1.0:
            slope = d.weight * d.sheddable_load
            bends += [(d.keep_at_least / d.weight, slope), (1.0 / d.weight, -slope)]
    level, slope = 0.0, 0.0
    for bend, change in sorted(bends):
        reached = used + slope * (bend - level)
        if reached > capacity:
            return level + (capacity - used) / slope
        level, used, slope = bend, reached, slope + change
    return math.inf


@dataclass(slots=True)
class QueryLoss:
    """What one query was offered and what it kept, since the start."""

    offered_tuples: int = 0
    kept_tuples: int = 0

    @property
    def dropped_tuples(self) -> int:
        return self.offered_tuples - self.kept_tuples

    @property
    def loss_fraction(self) -> float:
        return self.dropped_tuples / self.offered_tuples if self.offered_tuples else 0.0


@dataclass(frozen=True, slots=True)
class QueryDecision:
    """For one query: how much to keep, its share of the server, its loss so far."""

    decision: KeepDecision
    server_share: float
    loss_fraction: float


class NodeController:
    """Latency control for heterogeneous queries on one node.

    `queries` gives each query its settings (target, percentile, service). `weights`
    and `keep_at_least` bound the sharing; a query that is not named has 1 and 0. Busy
    times are measured in seconds of the whole node, whatever its capacity is.

    While the node has room every query sees the whole server, as a scheduler that
    never idles gives it. Under overload each plans with its own share.
    """

    def __init__(
        self,
        queries: Mapping[str, ModelBasedSettings],
        weights: Mapping[str, float] | None = None,
        keep_at_least: Mapping[str, float] | None = None,
    ) -> None:
        self.losses = {query: QueryLoss() for query in queries}
        self._controllers = {
            query: ModelBasedController(settings) for query, settings in queries.items()
        }
        self._weights = dict(weights or {})
        self._keep_at_least = dict(keep_at_least or {})

    def decide_all(self, measurements: Mapping[str, PeriodMeasurement]) -> dict[str, QueryDecision]:
        """One decision for each measured query. Unknown queries raise UsageError."""
        for query in measurements:
            if query not in self._controllers:
                known = ", ".join(self._controllers)
                raise UsageError(f"no query {query!r} on this node; its queries are {known}")
        for query, measurement in measurements.items():
            usable = measurement.cleaned()
            self._controllers[query].learn(usable)
            self.losses[query].offered_tuples += usable.offered_tuples
            self.losses[query].kept_tuples += usable.kept_tuples
        shares = self._shares()
        decisions: dict[str, QueryDecision] = {}
        for query, measurement in measurements.items():
            share = shares.get(query, 1.0)
            decision = self._controllers[query].choose(
                measurement.cleaned()._replace(server_share=share)
            )
            decisions[query] = QueryDecision(decision, share, self.losses[query].loss_fraction)
        return decisions

    def _shares(self) -> dict[str, float]:
        """Server share by query; empty while there is room for all or too little is known."""
        demands = []
        for query, controller in self._controllers.items():
            costs, rate = controller.costs, controller.arrival_rate_per_second
            if costs is not None and rate is not None:
                demands.append(
                    QueryDemand(
                        query,
                        rate,
                        costs.looking_seconds,
                        costs.processing_seconds,
                        weight=self._weights.get(query, 1.0),
                        keep_at_least=self._keep_at_least.get(query, 0.0),
                    )
                )
        asked = sum(d.unavoidable_load + d.sheddable_load for d in demands)
        if not demands or asked <= 1.0:
            return {}
        shared = share_node(1.0, demands)
        return {s.query: min(1.0, max(_SMALLEST_SHARE, s.server_share)) for s in shared.shares}
