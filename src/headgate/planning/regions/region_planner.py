"""Plans for every rate, made in advance: what `solver` and `solver-w` have in common.

The rates of the planned streams span a box. It is divided into regions, worst first,
where the order is the only thing in which the two planners differ. A region's error
is (best score at its top - best score at its bottom) / best score at its top, and 0
when nothing need be dropped at its top. Every overloaded point of a region uses the
plan of the region's bottom, scaled to it: a gate never lets more through than the
bottom's plan does.

Guarantees. A load that fits is never shed. Every plan is feasible on every node and
link. Inside the box the score is at least (1 - error) of the best, for the error of
the point's region; `plan.gap` is often much smaller, since it is proven again at the
point itself, from the prices of all pieces met. Beyond the box the rates are cut to
it first. The default box ends at the useful rates (see `useful_flow`), where this
costs nothing and the guarantee holds for every rate. With `max_rates_per_second`
below that, only `plan.gap` says how good a plan beyond the box is.

Not guaranteed: that the wanted error is reached. Divisions stop at `max_regions`, at
a side of 2^-40, or when the caller says so; `error` is what was reached. Queries of
weight 0 get only what the others leave, in equal shares. `keep_at_least` is not kept
(with it a higher rate can lower the best score, so that corners bound nothing);
`plan.unmet_guarantees` says where.

Cost: 2^m regions a division for m planned streams: see `max_inputs`. A look-up
follows the quadtree, one step a level, and then evaluates one plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from headgate.errors import PlanningError, StatisticsError
from headgate.network import Network, Statistics
from headgate.planning.flow_model import Floats, FlowModel, compile_flow
from headgate.planning.keep import keep_from
from headgate.planning.plan import Objective, Plan, plan_from
from headgate.planning.regions.optimal_pieces import OptimalPieces
from headgate.planning.regions.region_quadtree import Ids, RegionQuadtree
from headgate.planning.regions.workload import Workload
from headgate.planning.useful_flow import Bools, useful_flow

__all__ = ["RegionPlanner", "RegionSettings", "Stop"]

Stop = Callable[[float, int], bool]  # told the error reached and the number of regions

_ROWS_AT_ONCE = 1 << 16  # new regions made in one vectorised step
_WORST = 0.5  # regions within this factor of the worst are divided together


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSettings:
    """Limits of advance planning.

    max_regions:          stop dividing at this many regions.
    max_inputs:           refuse networks with more planned streams (2^m children each).
    max_rates_per_second: the box, by stream; a stream that is not named takes its useful
                          rate, beyond which more tuples are of no use to any plan.
    time_limit_seconds:   for one run of the solver.
    """

    max_regions: int = 200_000
    max_inputs: int = 10
    max_rates_per_second: Mapping[str, float] | None = None
    time_limit_seconds: float = 10.0

    def check(self) -> None:
        """Raise PlanningError for a limit that no plan could keep."""
        if self.max_regions < 1 or self.max_inputs < 0 or not self.time_limit_seconds > 0.0:
            raise PlanningError(
                "max_regions must be at least 1, max_inputs at least 0 and time_limit_seconds "
                f"above 0; got {self.max_regions}, {self.max_inputs} and {self.time_limit_seconds}"
            )


class RegionPlanner(ABC):
    """See the module. A subclass says which region is worst and when it is enough."""

    name: ClassVar[str]

    def __init__(
        self,
        network: Network,
        statistics: Statistics | None,
        settings: RegionSettings,
        stop: Stop | None,
    ) -> None:
        settings.check()
        self._limits = settings
        self.model: FlowModel = compile_flow(network, statistics)
        self.useful = useful_flow(self.model)
        _refuse_many_inputs(network, self.useful.streams, settings.max_inputs, self.name)
        box = _box(network, settings.max_rates_per_second, self.useful.streams)
        box = np.where(np.isnan(box), self.useful.useful_rates, box)
        self._sides = box > 0.0  # a side of length 0 is not divided
        self._box = box
        self.tree = RegionQuadtree(box[self._sides])
        self.pieces = OptimalPieces(
            self.model, self.useful, np.where(self._sides, box, 1.0), settings.time_limit_seconds
        )
        self._priority = np.zeros(1)
        self._score(np.zeros(1, dtype=np.intp))
        if stop is None or not stop(self.error_reached, self.tree.count):
            self.improve(stop=stop)

    # -- advance planning

    @property
    @abstractmethod
    def error_reached(self) -> float:
        """What the planner has promised to make small, as far as it has come."""

    @property
    @abstractmethod
    def error_wanted(self) -> float:
        """Dividing ends when `error_reached` is no more than this."""

    @abstractmethod
    def _priorities(self, ids: Ids) -> Floats:
        """How much each region asks to be divided; at most that of its parent."""

    @property
    def error(self) -> float:
        """The largest error of any region: what holds at every point of the box."""
        return float(np.max(self.tree.error[self.tree.is_leaf], initial=0.0))

    def improve(self, divisions: int | None = None, stop: Stop | None = None) -> float:
        """Divide the worst regions until it is enough; return the error reached.

        divisions: at most this many now; None means until done.
        stop:      asked between steps with (error reached, regions); True ends it.
        """
        left = math.inf if divisions is None else divisions
        careful = divisions is not None or stop is not None
        while left > 0 and self.error_reached > self.error_wanted:
            worst = self._worst(left, careful=careful)
            if not len(worst):
                break
            self._score(self.tree.divide(worst))
            self._priority[worst] = 0.0
            left -= len(worst)
            if stop is not None and stop(self.error_reached, self.tree.count):
                break
        return self.error_reached

    def summary(self) -> dict[str, Any]:
        """Plain data for JSON: how large the plan is and what it is worth."""
        leaves = self.tree.is_leaf
        names = [self.model.network.streams[i].name for i in self.useful.streams]
        return {
            "planner": self.name,
            "planned_streams": names,
            "max_rates_per_second": dict(zip(names, self._box.tolist(), strict=True)),
            "regions": self.tree.count,
            "plans": int(np.sum(leaves & (self.tree.error > 0.0))),
            "depth": self.tree.depth,
            "corners": self.tree.distinct_corners(),
            "solver_runs": self.pieces.solver_runs,
            "pieces": self.pieces.count,
            "max_error": self.error,
            "error_reached": self.error_reached,
            "error_wanted": self.error_wanted,
            "met": self.error_reached <= self.error_wanted,
        }

    def probability(self, workload: Workload, ids: Ids) -> Floats:
        """How likely a rate is to be served by each of these regions.

        Regions at an end of the box serve what lies beyond it, where the box reaches
        the useful rate; a smaller box covers only what lies inside.
        """
        lower = np.zeros((len(ids), len(self.model.inputs)))
        upper = np.full_like(lower, np.inf)
        planned = self.useful.streams
        lower[:, planned] = self._points(self.tree.bottoms(ids))
        tops = self._points(self.tree.tops(ids))
        open_end = np.ones(tops.shape, dtype=bool)
        open_end[:, self._sides] = self.tree.touches_top(ids)
        open_end &= self._box >= self.useful.useful_rates
        upper[:, planned] = np.where(open_end, np.inf, tops)
        return workload.probability(lower, upper)

    def expected_error(self, workload: Workload) -> float:
        """The sum over all regions of probability x error (2007, section 5.2)."""
        leaves = np.flatnonzero(self.tree.is_leaf & (self.tree.error > 0.0))
        return float(self.probability(workload, leaves) @ self.tree.error[leaves])

    def _worst(self, most: float, *, careful: bool) -> Ids:
        """The regions to divide next, worst first, as many as there is room for.

        When the end may come at any time, only those near the worst: their children
        may well be worse than the rest.
        """
        fan = self.tree.children_per_region
        room = (self._limits.max_regions - self.tree.count) // fan
        most = int(min(most, room, max(1, _ROWS_AT_ONCE // fan)))
        priority = np.where(self.tree.is_divisible, self._priority[: self.tree.count], 0.0)
        chosen = np.flatnonzero(priority > self._floor())
        if most <= 0 or not len(chosen):
            return np.zeros(0, dtype=np.intp)
        if careful or len(chosen) > room // 16:
            chosen = chosen[priority[chosen] >= _WORST * np.max(priority)]
        chosen = chosen[np.argsort(-priority[chosen], kind="stable")][:most]
        return chosen[: self._enough(priority[chosen])]

    def _floor(self) -> float:
        """Regions of this priority or less are never divided."""
        return 0.0

    def _enough(self, priorities: Floats) -> int:
        """How many of these, worst first, must be divided whatever comes of it."""
        return len(priorities)

    def _score(self, ids: Ids) -> None:
        """Set error, probability and priority of new regions."""
        points = np.concatenate(
            [self._points(self.tree.bottoms(ids)), self._points(self.tree.tops(ids))]
        )
        scores = self.pieces.scores(points)
        bottom = scores.lower[: len(ids)]
        top, fits = scores.upper[len(ids) :], scores.fits[len(ids) :]
        error = np.divide(top - bottom, top, out=np.zeros(len(ids)), where=top > 0.0)
        self.tree.error[ids] = np.where(fits, 0.0, np.clip(error, 0.0, 1.0))
        if len(self._priority) < self.tree.count:
            self._priority = np.concatenate([self._priority, np.zeros(self.tree.count)])
        self._priority[ids] = self._priorities(ids)

    def _points(self, corners: Floats) -> Floats:
        """Corners of the tree as points of all planned streams."""
        points = np.zeros((len(corners), len(self._box)))
        points[:, self._sides] = corners
        return points

    # -- plan selection

    def plan(self, rates_per_second: Mapping[str, float]) -> Plan:
        """The plan for these rates, in tuples per second by stream."""
        return self.plan_rates(self.model.rates(rates_per_second))

    def plan_rates(self, rates: Floats) -> Plan:
        """`plan` for checked rates in the order of the network's streams."""
        model = self.model
        unshed = model.unshed(rates)
        if model.is_feasible(unshed, tolerance=0.0):
            nothing = np.ones(len(model.locations))
            score = unshed.score
            return Plan(
                self.name, Objective.THROUGHPUT, model, rates, nothing, unshed, score, score
            )
        keep = keep_from(model, rates, self._kept(rates))
        keep = self._with_worthless(rates, keep)
        return plan_from(self.name, model, rates, keep, bound=self.pieces.bound(rates))

    def region_of(self, rates: Floats) -> int:
        """The number of the region whose plan serves these rates."""
        point = np.minimum(rates[self.useful.streams], self._box)
        return self.tree.find(point[self._sides])

    def _kept(self, rates: Floats) -> Floats:
        """Kept rates: nowhere more than in the plan that serves the point."""
        point = np.minimum(rates[self.useful.streams], self._box)
        if self.pieces.fits(point):
            most = self.pieces.unshed(point)
        else:
            region = np.array([self.tree.find(point[self._sides])])
            most = self.pieces.kept(self._points(self.tree.bottoms(region))[0])
        most = np.where(self.useful.unlimited, np.inf, most)
        offered = self.model.input_rates(rates)
        kept = np.minimum(offered, most)
        for level in self.model.levels[1:]:
            kept[level] = np.minimum(self.model.feed.times(kept), most)[level]
        return kept

    def _with_worthless(self, rates: Floats, keep: Floats) -> Floats:
        """Give what is left of the capacities to the flow that earns nothing."""
        model = self.model
        worthless = ~self.useful.open & ~self.useful.shut
        if not np.any(worthless):
            return keep
        before = model.evaluate(rates, keep).loads
        extra = model.evaluate(rates, np.where(worthless, 1.0, keep)).loads - before
        spare = np.maximum(model.capacities - before, 0.0)
        shares = np.divide(spare, extra, out=np.ones_like(spare), where=extra > 0.0)
        share = float(np.clip(np.min(shares, initial=1.0), 0.0, 1.0))
        return np.where(worthless & self._entered, share, np.where(worthless, 1.0, keep))

    @property
    def _entered(self) -> Bools:
        """Worthless locations that are an input, or that something open feeds."""
        entered = self.model.input_of >= 0
        feed = self.model.feed
        entered[feed.rows[self.useful.open[feed.columns]]] = True
        return entered


def _refuse_many_inputs(network: Network, streams: Ids, most: int, planner: str) -> None:
    if len(streams) > most:
        raise PlanningError(
            f"{planner} divides a region of m inputs into 2^m, and network {network.name!r} has "
            f"{len(streams)} streams that cost something; the limit is {most} (max_inputs). "
            "Use the exact planner, or plan disjoint parts of the network apart"
        )


def _box(network: Network, asked: Mapping[str, float] | None, streams: Ids) -> Floats:
    """The wanted top of the box per planned stream; NaN where nothing is asked."""
    asked = asked or {}
    unknown = sorted(set(asked) - set(network.stream_by_name))
    if unknown:
        raise StatisticsError(
            f"max_rates_per_second names unknown streams {', '.join(unknown)}; "
            f"the streams are {', '.join(network.stream_by_name)}"
        )
    for name, rate in asked.items():
        if not (math.isfinite(rate) and rate >= 0.0):
            raise StatisticsError(
                f"max_rates_per_second of {name!r} must be a number of at least 0, got {rate!r}"
            )
    names = [network.streams[i].name for i in streams]
    return np.array([asked.get(name, math.nan) for name in names], dtype=np.float64)
