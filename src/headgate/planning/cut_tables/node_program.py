"""One node's linear program, with its children's tables in place of its children.

The node chooses what to keep at its own drop locations. Behind the arcs that leave
it stand its children's tables (see `headgate.planning.cut_tables.cuts`): one variable a table,
bounded by every row. Inputs of a table that this node does not decide about (a
child's own streams, or arcs from another parent of the child) are *open*: given
numbers, like the node's own input rates. An arc that no table speaks of yet counts as
much as the best result of the node.

The answer at given rates is exact for the tables it was given; its prices make a
new row of the node's own table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from headgate.errors import PlanningError
from headgate.planning.cut_tables.cuts import CutTable
from headgate.planning.flow_model import Floats, FlowModel
from headgate.planning.linear_program import closed_locations, quiet_solver, solve

__all__ = ["NodeDecision", "NodeProgram", "rates_for"]

_INFINITY = highspy.kHighsInf


@dataclass(frozen=True)
class _Places:
    """Where the inputs of a table are found: outputs of the part, or open inputs."""

    decided: NDArray[np.bool_]  # per input of the table
    outputs: NDArray[np.intp]
    open_inputs: NDArray[np.intp]


@dataclass(frozen=True)
class NodeDecision:
    """What the node keeps, the score it expects with its children, and a row of its table."""

    kept: Floats
    score: float
    intercept: float
    slopes: Floats  # over `NodeProgram.inputs`


class NodeProgram:
    """The program of one part of a network and the tables of the nodes behind it.

    `inputs` names what the node's own table is over: the part's inputs, then the
    open inputs, in a fixed order.
    """

    def __init__(
        self, part: FlowModel, tables: Sequence[CutTable] = (), time_limit_seconds: float = 10.0
    ) -> None:
        self.part = part
        self.tables = tuple(tables)
        outputs = {name: index for index, name in enumerate(part.outputs)}
        named = {name for table in tables for name in table.inputs}
        self.open_inputs = tuple(sorted(named - set(outputs) - set(part.inputs)))
        self.inputs = (*part.inputs, *self.open_inputs)
        self._weights = _weights(part, named)
        self._outputs = outputs
        self._places = [self._places_of(table) for table in self.tables]
        self._scale = _natural_scale(part)
        self._closed = closed_locations(part)
        self._time_limit_seconds = time_limit_seconds
        self._solver = quiet_solver(time_limit_seconds)
        self._row_start: list[int] = []
        self._build()

    def decide(self, rates: Floats, *, sparing: bool = False) -> NodeDecision:
        """The best decision at rates for `inputs`.

        With `sparing`, of all equally good decisions one that keeps and sends the
        least, so that no child gets tuples that it would only drop.
        """
        count = len(self.part.locations)
        self._set_rates(rates)
        reward = self._reward()
        solution = self._run(-reward)
        best, duals = np.asarray(solution.col_value), np.asarray(solution.row_dual)
        whole = self._everything(rates) if sparing else None
        values = self._spare(best, reward) if sparing and whole is None else best
        intercept, slopes = self._row(duals)
        score = float(reward @ best) * self._unit
        kept = np.maximum(values[:count], 0.0) * self._scale if whole is None else whole
        return NodeDecision(kept, score, intercept, slopes)

    def row_at(self, rates: Floats) -> tuple[float, float, Floats]:
        """The best score at these rates, and the row of the table that is exact there."""
        decision = self.decide(rates)
        return decision.score, decision.intercept, decision.slopes

    def _everything(self, rates: Floats) -> Floats | None:
        """All that is offered, if it fits here and no table asks for less.

        The rows without an intercept are a table at price 0: as long as one of them is
        the smallest, nothing behind it is full.
        """
        flow = self.part.unshed(rates[: len(self.part.inputs)])
        if not self.part.is_feasible(flow, tolerance=0.0):
            return None
        given = rates[len(self.part.inputs) :]
        for table, places in zip(self.tables, self._places, strict=True):
            arriving = np.zeros(len(table.inputs))
            arriving[places.decided] = flow.delivered[places.outputs]
            arriving[~places.decided] = given[places.open_inputs]
            free = table.slopes[table.intercepts <= 0.0] @ arriving
            if not len(free) or np.max(free) > table.value(arriving) * (1.0 + 1e-9):
                return None
        return flow.kept

    def _reward(self) -> Floats:
        part = self.part
        own = part.delivered.transposed_times(self._weights) * self._scale / self._unit
        others = len(self.tables) + len(self.open_inputs)
        reward = np.concatenate([own, np.zeros(others)])
        reward[len(own) : len(own) + len(self.tables)] = 1.0
        return reward

    def _set_rates(self, rates: Floats) -> None:
        part, count = self.part, len(self.part.locations)
        total = count + len(self.tables) + len(self.open_inputs)
        lower, upper = np.zeros(total), np.full(total, _INFINITY)
        entering = part.input_of >= 0
        offered = rates[part.input_of[entering]] / self._scale[entering]
        upper[:count][entering] = offered
        upper[:count][self._closed] = 0.0
        if self.open_inputs:
            fixed = rates[len(part.inputs) :]
            lower[-len(fixed) :] = upper[-len(fixed) :] = fixed
        self._solver.changeColsBounds(total, np.arange(total, dtype=np.int32), lower, upper)

    def _run(self, cost: Floats) -> Any:
        columns = np.arange(len(cost), dtype=np.int32)
        self._solver.changeColsCost(len(cost), columns, cost)
        if not solve(self._solver, self._time_limit_seconds):
            raise PlanningError(f"the program of node {self.part.constraints[0]} is infeasible")
        return self._solver.getSolution()

    def _spare(self, best: Floats, reward: Floats) -> Floats:
        """Hold the score and keep as little as possible (shares of capacity weighed alike)."""
        score = float(reward @ best)
        if score <= 0.0:
            return np.zeros_like(best)
        columns = np.flatnonzero(reward).astype(np.int32)
        solver = self._solver
        solver.addRow(score * (1 - 1e-10), _INFINITY, len(columns), columns, reward[columns])
        cost = np.zeros_like(reward)
        cost[: len(self._scale)] = 1.0
        try:
            return np.asarray(self._run(cost).col_value)
        except PlanningError:
            return best
        finally:
            last = solver.getNumRow() - 1
            solver.deleteRows(1, np.array([last], dtype=np.int32))

    def _row(self, row_dual: Floats) -> tuple[float, Floats]:
        """A row of the table from the solver's prices; valid whatever their accuracy."""
        part = self.part
        splits = int(np.sum(part.input_of < 0))
        prices = np.maximum(-row_dual[splits : splits + len(part.constraints)], 0.0)
        prices *= self._unit * self._row_scale
        intercept = float(part.capacities @ prices)
        weights = self._weights.copy()
        open_slopes = np.zeros(len(self.open_inputs))
        for table, start, places in zip(self.tables, self._row_start, self._places, strict=True):
            mix = np.maximum(-row_dual[start : start + table.rows], 0.0)
            total = float(np.sum(mix))
            mix = mix / total if total > 0.0 else np.full(table.rows, 1.0 / table.rows)
            intercept += float(mix @ table.intercepts)
            slopes = mix @ table.slopes
            weights[places.outputs] += slopes[places.decided]
            open_slopes[places.open_inputs] += slopes[~places.decided]
        slopes = part.input_worth(part.worth(prices, weights))
        return intercept, np.concatenate([slopes, open_slopes])

    def _build(self) -> None:
        part, count = self.part, len(self.part.locations)
        tops = [float(np.max(t.intercepts, initial=0.0)) for t in self.tables]
        own = part.delivered.transposed_times(self._weights) * self._scale
        self._unit = max([float(np.max(own, initial=0.0)), *tops]) or 1.0
        self._row_scale = 1.0 / np.where(part.capacities > 0.0, part.capacities, 1.0)
        solver = self._solver
        for _ in range(count):
            solver.addVar(0.0, _INFINITY)
        top_bounds = [(-_INFINITY, _INFINITY)] * len(self.tables)
        for lower, upper in [*top_bounds, *([(0.0, 0.0)] * len(self.open_inputs))]:
            solver.addVar(lower, upper)
        self._add_splits()
        for index, capacity in enumerate(part.capacities.tolist()):
            entries = part.load.rows == index
            columns = part.load.columns[entries].astype(np.int32)
            values = part.load.values[entries] * self._scale[columns] * self._row_scale[index]
            limit = capacity * self._row_scale[index]
            solver.addRow(-_INFINITY, limit, len(columns), columns, values)
        for position, table in enumerate(self.tables):
            self._row_start.append(solver.getNumRow())
            self._add_table(count + position, table, self._places[position])

    def _add_splits(self) -> None:
        part = self.part
        for location in np.flatnonzero(part.input_of < 0).tolist():
            entries = part.feed.rows == location
            columns = np.append(part.feed.columns[entries], location).astype(np.int32)
            values = np.append(-part.feed.values[entries], 1.0) * self._scale[columns]
            self._solver.addRow(-_INFINITY, 0.0, len(columns), columns, values)

    def _add_table(self, column: int, table: CutTable, places: _Places) -> None:
        """Rows  v - slopes . flows <= intercept, in units of `_unit`."""
        flows = self._flows(places)
        coefficients = -(table.slopes @ flows) / self._unit
        for intercept, row in zip(table.intercepts.tolist(), coefficients, strict=True):
            used = np.flatnonzero(row)
            columns = np.append(used, column).astype(np.int32)
            values = np.append(row[used], 1.0)
            self._solver.addRow(-_INFINITY, intercept / self._unit, len(columns), columns, values)

    def _places_of(self, table: CutTable) -> _Places:
        decided = np.array([name in self._outputs for name in table.inputs], dtype=bool)
        outputs = [self._outputs[name] for name in table.inputs if name in self._outputs]
        others = [self.open_inputs.index(n) for n in table.inputs if n not in self._outputs]
        return _Places(decided, np.array(outputs, dtype=np.intp), np.array(others, dtype=np.intp))

    def _flows(self, places: _Places) -> Floats:
        """Each input of a table as a combination of the program's variables."""
        count = len(self.part.locations)
        first_open = count + len(self.tables)
        flows = np.zeros((len(places.decided), first_open + len(self.open_inputs)))
        delivered = self.part.delivered.dense
        flows[places.decided, :count] = delivered[places.outputs] * self._scale
        flows[np.flatnonzero(~places.decided), first_open + places.open_inputs] = 1.0
        return flows


def _weights(part: FlowModel, told: set[str]) -> Floats:
    """What a tuple at each output is worth by itself.

    An arc whose worth no table has told yet counts as much as the best result of the
    node: until a child has spoken it is not starved, and sheds for itself.
    """
    weights = part.weights.copy()
    best = float(np.max(weights, initial=0.0)) or 1.0
    for index, name in enumerate(part.outputs):
        if "->" in name and name not in told:
            weights[index] = best
    return weights


def rates_for(inputs: Sequence[str], rates: Mapping[str, float]) -> Floats:
    """The rates of named inputs in order; 0 for what nobody has told yet."""
    return np.array([rates.get(name, 0.0) for name in inputs], dtype=np.float64)


def _natural_scale(part: FlowModel) -> Floats:
    """By location: the largest rate that its own constraints let pass, or 1."""
    scale = np.full(len(part.locations), np.inf)
    limit = part.capacities[part.load.rows] / part.load.values
    np.minimum.at(scale, part.load.columns, limit)
    return np.where(np.isfinite(scale) & (scale > 0.0), scale, 1.0)
