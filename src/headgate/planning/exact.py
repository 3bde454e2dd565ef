"""The exact planner: the linear program of the 2007 paper, solved on demand.

Decides the keep fraction of every drop location so that the objective is as large
as any plan can make it. Each plan carries a proof: the prices that the solver
returns are turned into an upper bound by `FlowModel.score_bound`, which holds
whatever the solver's tolerances were (weak duality), so `plan.gap` is certified.

Guarantees: feasible on every node and link; a load that fits is never shed; a
guaranteed minimum is met or GuaranteesCollideError names a smallest set that
cannot be. Not guaranteed: which of several equally good plans is returned, and
anything about queues or latency (that is the control layer's).

Where different kinds of drop are wanted behind one location, a drop there makes answers
wrong (`drop_kinds`). So where the best plan drops at such a mixed location, a second plan
keeps everything there and drops on the branches. It is taken unless it loses more than
`most_lost_for_right_answers` of the objective or nothing fits; then as many of these
locations as possible are spared, one after the other. The bound stays that of all plans, so
`plan.gap` says what right answers cost.

Cost: one warm simplex run, or the plain one of `small_program` for a small network; see
benchmarks/results/planning.json. One more, seldom several, where a mixed location is spared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.errors import GuaranteesCollideError, PlanningError
from headgate.network import Network, Statistics
from headgate.planning.drop_kinds import drops_of
from headgate.planning.flow_model import Floats, Flow, FlowModel, compile_flow
from headgate.planning.keep import keep_from
from headgate.planning.linear_program import FlowProgram, Solution, closed_locations
from headgate.planning.plan import WHOLE, Objective, Plan, Prices, plan_from
from headgate.planning.small_program import small_program

__all__ = ["ExactPlanner", "ExactSettings"]

_MINOR = 1e-7  # a query that adds less than this share of the score is placed by the tie-break
# The program is written anew when a rate has left its reference by one of these factors.
# Upwards the solver's tolerance grows into the score, downwards only into the stream's own
# share. The new reference is at most this far away.
_MOST_SPARED_ALONE = 16  # mixed locations that are tried one after the other
_RISEN, _RISEN_REFERENCE = 1e3, 30.0
_FALLEN, _FALLEN_REFERENCE = 1e4, 1e3


@dataclass(frozen=True, slots=True)
class ExactSettings:
    """objective: what to maximise. time_limit_seconds: for one run of the solver.

    most_lost_for_right_answers: the share of the objective that may go so that nothing falls where
    any drop makes answers wrong; 0 takes the best plan whatever it does to answers.
    """

    objective: Objective = Objective.THROUGHPUT
    time_limit_seconds: float = 10.0
    most_lost_for_right_answers: float = 0.25


class ExactPlanner:
    """Plans for one network; call `plan` whenever the rates move.

    Example: `ExactPlanner(network).plan({"orders": 3000.0}).keep_fraction`.
    Reference: 2007, sections 3.1 to 3.3.
    """

    name = "exact"

    def __init__(
        self,
        network: Network,
        statistics: Statistics | None = None,
        settings: ExactSettings | None = None,
    ) -> None:
        self._begin(compile_flow(network, statistics), settings or ExactSettings())

    def _begin(
        self, model: FlowModel, settings: ExactSettings, whole: NDArray[np.bool_] | None = None
    ) -> None:
        """whole: locations that keep everything, in a planner that another one asks."""
        network = model.network
        self.settings, self.model, self._whole = settings, model, whole
        self._floors = np.array([q.keep_at_least for q in network.queries])
        self._guarantees = any(q.keep_at_least > 0.0 for q in network.queries)
        plain = not self._guarantees and self.settings.objective is Objective.THROUGHPUT
        self._small = small_program(self.model) if plain and whole is None else None
        self._program: FlowProgram | None = None
        self._sparing: dict[bytes, ExactPlanner] = {}  # by the locations that are spared
        self._reference = np.zeros(0)  # the rates of its scale

    def plan(self, rates_per_second: Mapping[str, float]) -> Plan:
        """The best plan at these rates, in tuples per second by stream."""
        return self.plan_rates(self.model.rates(rates_per_second))

    def plan_rates(self, rates: Floats) -> Plan:
        """`plan` for checked rates in the order of the network's streams."""
        best = self._best(rates)
        if self._whole is not None or not best.sheds or not self._mixed.any():
            return best
        dropping = self._mixed & (best.keep < 1.0)
        if not dropping.any():
            return best
        right = self._sparing_all(best, self._mixed)
        if right is None and np.count_nonzero(dropping) > 1:
            spared = np.zeros_like(dropping)
            for place in np.flatnonzero(dropping)[:_MOST_SPARED_ALONE]:
                spared[place] = True
                found = self._sparing_all(best, spared)
                right = right if found is None else found
                spared[place] = found is not None
        if right is None:
            return best
        names = (self.model.locations[i].name for i in np.flatnonzero(dropping))
        keeps = right.keep_fraction
        spared_names = tuple(name for name in names if keeps[name] >= WHOLE)
        return replace(right, proof=best.proof, spared=spared_names)

    @cached_property
    def _mixed(self) -> NDArray[np.bool_]:
        """Locations where every kind of drop is wrong for something behind."""
        network, locations = self.model.network, self.model.locations
        if all(o.key is None and o.window_seconds is None for o in network.operators):
            return np.zeros(len(locations), dtype=bool)
        drops = drops_of(network)
        return np.array([drops[arc.name].mixed for arc in locations], dtype=bool)

    def _sparing_all(self, best: Plan, whole: NDArray[np.bool_]) -> Plan | None:
        """The best plan that keeps everything at these locations, if it is good enough."""
        closed = closed_locations(self.model)
        if np.any(whole & closed & (self.model.unshed(best.rates).offered > 0.0)):
            return None
        key = whole.tobytes()
        if key not in self._sparing:
            if len(self._sparing) > _MOST_SPARED_ALONE:
                self._sparing.clear()
            planner = self._sparing[key] = ExactPlanner.__new__(ExactPlanner)
            planner._begin(self.model, self.settings, whole.copy())
        try:
            found = self._sparing[key]._best(best.rates)
        except PlanningError:  # nothing fits
            return None
        least = (1.0 - self.settings.most_lost_for_right_answers) * best.objective_value
        return found if found.objective_value >= least - 1e-9 * abs(least) else None

    def _best(self, rates: Floats) -> Plan:
        """The best plan, whatever kind of drop is wanted where."""
        model = self.model
        unshed = model.unshed(rates)
        fair = self.settings.objective is Objective.FAIRNESS
        if model.is_feasible(unshed, tolerance=0.0):
            value = 1.0 if fair else unshed.score
            return Plan(
                self.name,
                self.settings.objective,
                model,
                rates,
                np.ones(len(model.locations)),
                unshed,
                value,
                value,
            )
        plan = self._small_plan(rates, unshed)
        if plan is not None:
            return plan
        program = self._program_for(rates, unshed)
        program.set_rates(rates)
        floors = self._floors
        if self._guarantees:
            floors = floors * unshed.delivered
            program.set_floors(floors)
        if fair:
            return self._fair_plan(program, rates, unshed, floors)
        return self._throughput_plan(program, rates, unshed, floors)

    def _small_plan(self, rates: Floats, unshed: Flow) -> Plan | None:
        """The plan of a small network; None where the general program is asked."""
        if self._small is None or self._minor_queries(unshed).any():
            return None
        found = self._small.solve(unshed)
        if found is None:
            return None
        kept, prices = found
        bound = Prices(prices, self._floors, self._floors)  # there are no guarantees
        model = self.model
        return plan_from(self.name, model, rates, keep_from(model, rates, kept), bound=bound)

    def _minor_queries(self, unshed: Flow) -> NDArray[np.bool_]:
        """Queries that would add next to nothing to the score."""
        shares = self.model.weights * unshed.delivered
        minor: NDArray[np.bool_] = (shares < _MINOR * shares.max(initial=0.0)) & (
            unshed.delivered > 0.0
        )
        return minor

    def _throughput_plan(
        self, program: FlowProgram, rates: Floats, unshed: Flow, floors: Floats
    ) -> Plan:
        model = self.model
        solution = program.maximise_score()
        if solution is None:
            raise self._collision(rates, unshed, floors)
        bound = Prices(solution.capacity_prices, solution.floor_prices, floors)
        kept = self._with_minor_queries(program, solution, unshed)
        return plan_from(self.name, model, rates, self._keep(rates, kept), bound=bound)

    def _keep(self, rates: Floats, kept: Floats) -> Floats:
        return keep_from(self.model, rates, kept, self._whole)

    def _with_minor_queries(self, program: FlowProgram, solution: Solution, unshed: Flow) -> Floats:
        """Use what is left for queries whose weight is too small for the solver to see.

        The score of the first run is held; zero weights come after small ones.
        """
        minor = self._minor_queries(unshed)
        if not minor.any():
            return solution.kept
        weights, full = self.model.weights, unshed.delivered
        shares = weights * full
        score = float(weights @ self.model.delivered.times(solution.kept))
        if score <= 0.0:
            return solution.kept
        top = float(np.max(shares[minor])) or 1.0
        worth = np.where(minor, shares / top + 1e-4, 0.0)
        worth = np.divide(worth, full, out=np.zeros_like(full), where=minor)
        second = program.maximise_holding(worth, weights, score)
        return solution.kept if second is None else second.kept

    def _fair_plan(self, program: FlowProgram, rates: Floats, unshed: Flow, floors: Floats) -> Plan:
        """Lexicographic max-min: raise all together, fix those that cannot rise, go on."""
        model, full = self.model, unshed.delivered
        raised = full > 0.0
        no_weight = np.zeros(len(full))
        kept, bound = np.zeros(len(model.locations)), 1.0
        rounds = 0
        while np.any(raised):
            program.set_floors(floors)
            program.set_level(np.where(raised, full, 0.0))
            solution = program.maximise(no_weight, level_weight=1.0)
            if solution is None:
                raise self._collision(rates, unshed, floors)
            kept = solution.kept
            if rounds == 0:
                bound = self._level_bound(rates, solution, floors, full)
            if solution.level >= 1.0 - 1e-12:
                break
            shares = solution.level_prices * full
            stuck = raised & (shares > 1e-9 * np.sum(shares))
            floors = np.where(stuck, np.maximum(floors, solution.level * (1 - 1e-9) * full), floors)
            raised = raised & ~stuck
            rounds += 1
        program.set_level(no_weight)
        program.set_floors(no_weight)
        keep = self._keep(rates, kept)
        delivered = model.evaluate(rates, keep).delivered
        lowest = float(np.min(delivered[full > 0.0] / full[full > 0.0], initial=1.0))
        return plan_from(
            self.name, model, rates, keep, bound=bound, objective=Objective.FAIRNESS, value=lowest
        )

    def _level_bound(
        self, rates: Floats, solution: Solution, floors: Floats, full: Floats
    ) -> float:
        """No plan lifts every query above this keep fraction (weak duality again)."""
        norm = float(solution.level_prices @ full)
        if norm <= 1e-12:
            return 1.0
        weights = (solution.level_prices + solution.floor_prices) / norm
        bound = self.model.score_bound(rates, solution.capacity_prices / norm, weights)
        return min(1.0, bound - float(solution.floor_prices @ floors) / norm)

    def _collision(self, rates: Floats, unshed: Flow, floors: Floats) -> GuaranteesCollideError:
        """Leave out every guarantee that is not needed for the collision; name the rest."""
        if self._whole is not None:  # the planner that asked tries something else
            return GuaranteesCollideError([], [])
        program = FlowProgram(self.model, unshed.offered, self.settings.time_limit_seconds)
        program.set_rates(rates)
        nothing = np.zeros(len(floors))
        program.set_level(nothing)
        needed = floors.copy()
        for query in np.flatnonzero(floors > 0.0):
            trial = needed.copy()
            trial[query] = 0.0
            program.set_floors(trial)
            if program.maximise(nothing) is None:
                needed = trial
        program.set_floors(nothing)
        program.set_level(needed)  # how much of the colliding guarantees fits, and what is full
        solution = program.maximise(nothing, level_weight=1.0)
        names = [q.name for q in self.model.network.queries]
        full = np.zeros(0) if solution is None else solution.capacity_prices
        return GuaranteesCollideError(
            [names[i] for i in np.flatnonzero(needed > 0.0)],
            [self.model.constraints[i] for i in np.flatnonzero(full > 0.0)]
            or [self.model.constraints[i] for i in np.flatnonzero(self.model.capacities <= 0.0)],
        )

    def _program_for(self, rates: Floats, unshed: Flow) -> FlowProgram:
        """The warm program, written anew when rates have left its scale.

        The scale of a stream then moves no further than it must. So a stream that
        comes and goes is soon within the scale at both ends.
        """
        if self._program is None:
            fair = self.settings.objective is Objective.FAIRNESS
            self._reference = rates
            self._program = FlowProgram(
                self.model,
                unshed.offered,
                self.settings.time_limit_seconds,
                floors=fair or self._guarantees,
                levels=fair,
                whole=self._whole,
            )
            return self._program
        reference = self._reference
        usual = (rates > reference / _FALLEN) & (rates < reference * _RISEN)
        if usual.all() or (usual | (rates <= 0.0)).all():
            return self._program
        near = np.clip(reference, rates / _RISEN_REFERENCE, rates * _FALLEN_REFERENCE)
        self._reference = np.where(usual | (rates <= 0.0), reference, near)
        self._program.rescale(self.model.unshed(self._reference).offered)
        return self._program
