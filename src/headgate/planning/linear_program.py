"""The warm linear program behind the exact planner: HiGHS, kept between calls.

Variables are the kept rates k_d of the flow model, divided by a reference rate so
that they lie near 1; one more variable `t` is the fairness level. Rows, each
block only where it is asked for:

    behind a split   k_d - sum feed[d, d'] k_d' <= 0  (= 0 where all is to be kept)
    capacity         sum load[c, d] k_d / capacity_c <= 1
    floor            delivered_q >= floor_q unshed_q   (with guarantees only)
    level            delivered_q - unshed_q t >= 0     (for fairness only)

A change of rates moves bounds (and the level rows' scale), so the simplex starts
from the last basis. Every run has a time limit; what it cannot solve in time
raises PlanningTimeoutError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from headgate.errors import PlanningError, PlanningTimeoutError
from headgate.planning.flow_model import Floats, FlowModel

__all__ = [
    "AT_UPPER",
    "BASIC",
    "FlowProgram",
    "Solution",
    "closed_locations",
    "quiet_solver",
    "solve",
]

_INFINITY = highspy.kHighsInf
_BY_ROW = int(highspy.MatrixFormat.kRowwise)
_MINIMISE = int(highspy.ObjSense.kMinimize)
_TOLERANCE = 1e-9
BASIC = int(highspy.HighsBasisStatus.kBasic)
AT_UPPER = int(highspy.HighsBasisStatus.kUpper)


@dataclass(frozen=True)
class Solution:
    """An optimum: kept rates, fairness level, and the prices of the rows (all >= 0)."""

    kept: Floats
    level: float
    capacity_prices: Floats
    floor_prices: Floats
    level_prices: Floats


class FlowProgram:
    """One program for one flow model; `reference` are kept rates of the usual size."""

    def __init__(
        self,
        model: FlowModel,
        reference: Floats,
        time_limit_seconds: float,
        *,
        floors: bool = True,
        levels: bool = True,
        whole: NDArray[np.bool_] | None = None,
    ) -> None:
        """whole: locations that are to keep everything."""
        self.model = model
        self._count = len(model.locations)
        self._blocked = closed_locations(model)
        self._time_limit_seconds = time_limit_seconds
        self._solver = quiet_solver(time_limit_seconds)
        self._splits = np.flatnonzero(model.input_of < 0)
        queries = len(model.outputs)
        self._first_capacity = len(self._splits)
        self._has_floors, self._has_levels = floors, levels
        self._first_floor = self._first_capacity + len(model.constraints)
        self._first_level = self._first_floor + queries * floors
        self._row_count = self._first_level + queries * levels
        self._floors = slice(self._first_floor, self._first_level)
        self._levels = slice(self._first_level, self._row_count)
        inputs = model.entering
        self._columns = np.arange(self._count + 1, dtype=np.int32)
        self._input_columns = self._columns[:-1][inputs]
        self._input_of = model.input_of[inputs]
        self._input_closed = self._blocked[inputs]
        self._whole = np.zeros(self._count, dtype=bool) if whole is None else whole
        self._input_whole = self._whole[inputs]
        self._input_lower = np.zeros(len(self._input_columns))
        self._nothing = np.zeros(queries)
        self._cost: Floats | None = None
        self._write(reference)

    def rescale(self, reference: Floats) -> None:
        """Write the program anew for rates of another size; the last basis stays.

        Floors and levels have to be set again.
        """
        basis = self._solver.getBasis()
        self._write(reference)
        if basis.valid:
            self._solver.setBasis(basis)

    def _write(self, reference: Floats) -> None:
        model = self.model
        self.scale = np.where(reference > 0.0, reference, 1.0)
        self._row_scale = _row_scale(model, self.scale)
        self._input_scale = self.scale[model.entering]
        self._score_reward = self._reward(model.weights, 0.0)
        self._pass_model(self._splits)

    def set_rates(self, rates: Floats) -> None:
        """Move the bounds of the input arcs to new rates."""
        upper = rates[self._input_of] / self._input_scale
        lower = self._input_lower
        if self._input_whole.any():
            lower = np.where(self._input_whole, upper, 0.0)
        upper[self._input_closed] = 0.0
        self._solver.changeColsBounds(len(upper), self._input_columns, lower, upper)

    def set_floors(self, floor_rates: Floats) -> None:
        """Require delivered_q >= floor_rates_q, in tuples per second; 0 asks for nothing."""
        lower = np.where(floor_rates > 0.0, floor_rates, -_INFINITY)
        self._set_lower(self._floors, lower)

    def set_level(self, unshed_rates: Floats) -> None:
        """Require delivered_q >= t unshed_rates_q; 0 leaves the query out."""
        for row, rate in enumerate(unshed_rates.tolist(), self._first_level):
            self._solver.changeCoeff(row, self._count, -rate)
        self._set_lower(self._levels, np.where(unshed_rates > 0.0, 0.0, -_INFINITY))

    def maximise(self, weights: Floats, level_weight: float = 0.0) -> Solution | None:
        """The optimum for these query weights (and t); None where nothing is feasible."""
        return self._maximise(self._reward(weights, level_weight))

    def maximise_score(self) -> Solution | None:
        """`maximise` for the weights of the model, whose rewards are known already."""
        return self._maximise(self._score_reward)

    def maximise_holding(self, weights: Floats, held: Floats, score: float) -> Solution | None:
        """The optimum for `weights` among the plans whose score for `held` stays at `score`."""
        reward = self.model.delivered.transposed_times(held) * self.scale / score
        columns = np.flatnonzero(reward).astype(np.int32)
        self._solver.addRow(1.0 - 1e-9, _INFINITY, len(columns), columns, reward[columns])
        solution = self.maximise(weights)
        self._solver.deleteRows(1, np.array([self._row_count], dtype=np.int32))
        return solution

    def basis(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Status of every variable and row after the last run: BASIC, AT_UPPER or other."""
        basis = self._solver.getBasis()
        columns = np.array([int(status) for status in basis.col_status], dtype=np.intp)
        rows = np.array([int(status) for status in basis.row_status], dtype=np.intp)
        return columns, rows

    def _reward(self, weights: Floats, level_weight: float) -> tuple[Floats, float]:
        """Costs of the variables for the solver, and the factor that they were divided by."""
        cost = np.empty(self._count + 1)
        cost[:-1] = self.model.delivered.transposed_times(weights) * self.scale
        cost[-1] = level_weight
        top = float(cost.max(initial=0.0)) or 1.0
        cost /= -top
        return cost, top

    def _maximise(self, reward: tuple[Floats, float]) -> Solution | None:
        cost, top = reward
        solver = self._solver
        known = self._cost
        if known is None or (cost is not known and not np.array_equal(cost, known)):
            solver.changeColsCost(self._count + 1, self._columns, cost)
            self._cost = cost
        if not solve(solver, self._time_limit_seconds):
            return None
        solution = solver.getSolution()
        values = np.asarray(solution.col_value)
        duals = np.asarray(solution.row_dual) * top
        capacity = slice(self._first_capacity, self._first_floor)
        nothing = self._nothing
        return Solution(
            kept=np.maximum(values[:-1], 0.0) * self.scale,
            level=float(values[-1]),
            capacity_prices=np.maximum(-duals[capacity], 0.0) * self._row_scale,
            floor_prices=np.maximum(duals[self._floors], 0.0) if self._has_floors else nothing,
            level_prices=np.maximum(duals[self._levels], 0.0) if self._has_levels else nothing,
        )

    def _set_lower(self, block: slice, lower: Floats) -> None:
        rows = np.arange(block.start, block.stop, dtype=np.int32)
        self._solver.changeRowsBounds(len(rows), rows, lower, np.full(len(rows), _INFINITY))

    def _pass_model(self, splits: NDArray[np.intp]) -> None:
        columns, rows = self._count + 1, self._row_count
        row, column, value = self._matrix(splits)
        if not value.all():
            keep = value != 0.0
            row, column, value = row[keep], column[keep], value[keep]
        upper = np.full(columns, _INFINITY)
        upper[:-1][self._blocked] = 0.0
        upper[-1] = 1.0
        row_upper = np.full(rows, _INFINITY)
        row_upper[: self._first_capacity] = 0.0
        row_lower = np.full(rows, -_INFINITY)
        row_lower[: self._first_capacity][self._whole[splits]] = 0.0
        row_upper[self._first_capacity : self._first_floor] = (
            self.model.capacities * self._row_scale
        )
        self._cost = self._score_reward[0]
        self._solver.passModel(
            columns,
            rows,
            len(value),
            _BY_ROW,
            _MINIMISE,
            0.0,
            self._cost,
            np.zeros(columns),
            upper,
            row_lower,
            row_upper,
            row.searchsorted(np.arange(rows + 1)).astype(np.int32),
            column.astype(np.int32),
            value,
            np.zeros(columns, dtype=np.int32),  # no variable is an integer
        )

    def _matrix(
        self, splits: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """All coefficients, in the order of the rows."""
        model, scale = self.model, self.scale
        load, delivered = model.load, model.delivered
        parts = [
            (
                load.rows + self._first_capacity,
                load.columns,
                load.values * scale[load.columns] * self._row_scale[load.rows],
            ),
            *(
                (
                    delivered.rows + first,
                    delivered.columns,
                    delivered.values * scale[delivered.columns],
                )
                for first, asked in (
                    (self._first_floor, self._has_floors),
                    (self._first_level, self._has_levels),
                )
                if asked
            ),
        ]
        if len(splits):
            parts.insert(0, self._split_rows(splits))
        if len(parts) == 1:
            return parts[0]
        row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return row, column, value

    def _split_rows(
        self, splits: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        feed, scale = self.model.feed, self.scale
        number = np.zeros(self._count, dtype=np.intp)
        number[splits] = np.arange(len(splits))
        row = np.concatenate([number[splits], number[feed.rows]])
        column = np.concatenate([splits, feed.columns])
        value = np.concatenate([scale[splits], -feed.values * scale[feed.columns]])
        order = row.argsort(kind="stable")
        return row[order], column[order], value[order]


def quiet_solver(time_limit_seconds: float) -> highspy.Highs:
    """HiGHS for small programs that are solved again and again: warm, silent, one thread."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("primal_feasibility_tolerance", _TOLERANCE)
    solver.setOptionValue("dual_feasibility_tolerance", _TOLERANCE)
    solver.setOptionValue("time_limit", time_limit_seconds)
    return solver


def solve(solver: highspy.Highs, time_limit_seconds: float) -> bool:
    """Run the solver; False means that nothing is feasible, everything else raises.

    A warm start can end in numerical trouble. Then the program is solved again from
    nothing, and once more with presolve and the solver's usual tolerances.
    """
    good = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    for attempt in (_warm, _cold, _loose):
        status = attempt(solver)
        if status in good:
            return bool(status == highspy.HighsModelStatus.kOptimal)
        if status == highspy.HighsModelStatus.kTimeLimit:
            raise PlanningTimeoutError(
                f"the solver did not finish within {time_limit_seconds:g} s; raise the time "
                "limit or use a planner that can stop early (solver, fit)"
            )
    raise PlanningError(
        f"the solver stopped with {solver.modelStatusToString(status)!r}; "
        "check the network for extreme costs, weights or rates"
    )


def _warm(solver: highspy.Highs) -> Any:
    solver.run()
    return solver.getModelStatus()


def _cold(solver: highspy.Highs) -> Any:
    solver.clearSolver()
    return _warm(solver)


def _loose(solver: highspy.Highs) -> Any:
    solver.setOptionValue("presolve", "on")
    for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(name, 1e-7)
    status = _cold(solver)
    solver.setOptionValue("presolve", "off")
    for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(name, _TOLERANCE)
    return status


def closed_locations(model: FlowModel) -> NDArray[np.bool_]:
    """Locations whose tuples cost something on a node or link without any capacity."""
    blocked = np.zeros(len(model.locations), dtype=bool)
    if (model.capacities > 0.0).all():
        return blocked
    closed = model.capacities[model.load.rows] <= 0.0
    blocked[model.load.columns[closed & (model.load.values > 0.0)]] = True
    return blocked


def _row_scale(model: FlowModel, scale: Floats) -> Floats:
    """One over the capacity, or over the largest coefficient where there is no capacity."""
    if (model.capacities > 0.0).all():
        return 1.0 / model.capacities
    largest = np.zeros(len(model.constraints))
    np.maximum.at(largest, model.load.rows, model.load.values * scale[model.load.columns])
    size = np.where(model.capacities > 0.0, model.capacities, np.where(largest > 0, largest, 1.0))
    return 1.0 / size
