"""The warm linear program behind the exact planner: HiGHS, kept between calls.

Variables are the kept rates k_d of the flow model, divided by a reference rate so
that they lie near 1; one more variable `t` is the fairness level. Rows, each
block only where it is asked for:

    behind a split   k_d - sum feed[d, d'] k_d' <= 0
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
    ) -> None:
        self.model = model
        self.scale = np.where(reference > 0.0, reference, 1.0)
        self._count = len(model.locations)
        self._blocked = closed_locations(model)
        self._row_scale = _row_scale(model, self.scale)
        self._time_limit_seconds = time_limit_seconds
        self._solver = quiet_solver(time_limit_seconds)
        splits = np.flatnonzero(model.input_of < 0)
        queries = len(model.outputs)
        self._first_capacity = len(splits)
        self._first_floor = self._first_capacity + len(model.constraints)
        self._first_level = self._first_floor + queries * floors
        self._row_count = self._first_level + queries * levels
        self._columns = np.arange(self._count + 1, dtype=np.int32)
        self._input_columns = np.flatnonzero(model.input_of >= 0).astype(np.int32)
        self._input_of = model.input_of[self._input_columns]
        self._input_scale = self.scale[self._input_columns]
        self._input_closed = self._blocked[self._input_columns]
        self._cost: Floats | None = None
        self._floor_rows = np.arange(self._first_floor, self._first_level, dtype=np.int32)
        self._level_rows = np.arange(self._first_level, self._row_count, dtype=np.int32)
        self._pass_model(splits)

    def set_rates(self, rates: Floats) -> None:
        """Move the bounds of the input arcs to new rates."""
        upper = rates[self._input_of] / self._input_scale
        upper[self._input_closed] = 0.0
        self._solver.changeColsBounds(len(upper), self._input_columns, np.zeros(len(upper)), upper)

    def set_floors(self, floor_rates: Floats) -> None:
        """Require delivered_q >= floor_rates_q, in tuples per second; 0 asks for nothing."""
        lower = np.where(floor_rates > 0.0, floor_rates, -_INFINITY)
        self._set_lower(self._floor_rows, lower)

    def set_level(self, unshed_rates: Floats) -> None:
        """Require delivered_q >= t unshed_rates_q; 0 leaves the query out."""
        for row, rate in zip(self._level_rows.tolist(), unshed_rates.tolist(), strict=True):
            self._solver.changeCoeff(row, self._count, -rate)
        self._set_lower(self._level_rows, np.where(unshed_rates > 0.0, 0.0, -_INFINITY))

    def maximise(self, weights: Floats, level_weight: float = 0.0) -> Solution | None:
        """The optimum for these query weights (and t); None where nothing is feasible."""
        reward = self.model.delivered.transposed_times(weights) * self.scale
        return self._maximise(np.append(reward, level_weight))

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

    def _maximise(self, reward: Floats) -> Solution | None:
        top = float(np.max(reward, initial=0.0)) or 1.0
        solver = self._solver
        cost = -reward / top
        if self._cost is None or not np.array_equal(cost, self._cost):
            solver.changeColsCost(self._count + 1, self._columns, cost)
            self._cost = cost
        if not solve(solver, self._time_limit_seconds):
            return None
        solution = solver.getSolution()
        values = np.asarray(solution.col_value)
        duals = -np.asarray(solution.row_dual) * top
        capacity = slice(self._first_capacity, self._first_floor)
        queries = len(self.model.outputs)
        nothing = np.zeros(queries)
        return Solution(
            kept=np.maximum(values[:-1], 0.0) * self.scale,
            level=float(values[-1]),
            capacity_prices=np.maximum(duals[capacity], 0.0) * self._row_scale,
            floor_prices=np.maximum(-duals[self._floor_rows], 0.0)
            if len(self._floor_rows)
            else nothing,
            level_prices=np.maximum(-duals[self._level_rows], 0.0)
            if len(self._level_rows)
            else nothing,
        )

    def _set_lower(self, rows: NDArray[np.int32], lower: Floats) -> None:
        self._solver.changeRowsBounds(len(rows), rows, lower, np.full(len(rows), _INFINITY))

    def _pass_model(self, splits: NDArray[np.intp]) -> None:
        model, scale = self.model, self.scale
        rows = self._row_count
        split_row = np.zeros(self._count, dtype=np.int32)
        split_row[splits] = np.arange(len(splits), dtype=np.int32)
        parts = [
            (split_row[splits], splits.astype(np.int32), scale[splits]),
            (
                split_row[model.feed.rows],
                model.feed.columns,
                -model.feed.values * scale[model.feed.columns],
            ),
            (
                model.load.rows + self._first_capacity,
                model.load.columns,
                model.load.values * scale[model.load.columns] * self._row_scale[model.load.rows],
            ),
            *(
                (
                    model.delivered.rows + first,
                    model.delivered.columns,
                    model.delivered.values * scale[model.delivered.columns],
                )
                for first, block in (
                    (self._first_floor, self._floor_rows),
                    (self._first_level, self._level_rows),
                )
                if len(block)
            ),
        ]
        row = np.concatenate([p[0] for p in parts])
        column = np.concatenate([p[1] for p in parts])
        value = np.concatenate([p[2] for p in parts])
        keep = value != 0.0
        row, column, value = row[keep], column[keep], value[keep]
        order = np.lexsort((row, column))
        starts = np.searchsorted(column[order], np.arange(self._count + 2))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self._count + 1, rows
        lp.col_cost_ = np.zeros(self._count + 1)
        lp.col_lower_ = np.zeros(self._count + 1)
        upper = np.full(self._count + 1, _INFINITY)
        upper[:-1][self._blocked] = 0.0
        upper[-1] = 1.0
        lp.col_upper_ = upper
        lower = np.full(rows, -_INFINITY)
        upper = np.full(rows, _INFINITY)
        upper[: self._first_capacity] = 0.0
        upper[self._first_capacity : self._first_floor] = model.capacities * self._row_scale
        lp.row_lower_, lp.row_upper_ = lower, upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = starts.astype(np.int32)
        lp.a_matrix_.index_ = row[order].astype(np.int32)
        lp.a_matrix_.value_ = value[order]
        self._solver.passModel(lp)


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
    closed = model.capacities[model.load.rows] <= 0.0
    blocked[model.load.columns[closed & (model.load.values > 0.0)]] = True
    return blocked


def _row_scale(model: FlowModel, scale: Floats) -> Floats:
    """One over the capacity, or over the largest coefficient where there is no capacity."""
    largest = np.zeros(len(model.constraints))
    np.maximum.at(largest, model.load.rows, model.load.values * scale[model.load.columns])
    size = np.where(model.capacities > 0.0, model.capacities, np.where(largest > 0, largest, 1.0))
    return 1.0 / size
