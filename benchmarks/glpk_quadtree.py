"""The papers' own solver method, as a reader of the paper would write it: the baseline.

The region quadtree of 2007, section 5.1, worked from a priority queue, worst error
first. At each corner the linear program of section 3 is built and handed to GLPK's
simplex, once a corner (neighbours share it), and not at all where the load fits. It
divides exactly as `headgate.planning.SolverPlanner` does for the same box, so the two
are compared at equal guaranteed error. `solver_seconds` is the time inside GLPK alone,
model building included, so that the ratio does not rest on Python's own slowness.

Example: `GlpkQuadtree(network, {"r1": 100.0, "r2": 100.0}).divide(0.05)`.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import swiglpk as glpk

from headgate.network import Network
from headgate.planning import FlowModel, compile_flow
from headgate.planning.flow_model import Floats

__all__ = ["GlpkProgram", "GlpkQuadtree"]

Cell = tuple[int, ...]  # the corner of a region in units of 2^-level of the box


class GlpkProgram:
    """The best score at one point, from a program built for this point alone."""

    def __init__(self, model: FlowModel) -> None:
        self.model = model
        self.runs = 0
        self.seconds = 0.0
        splits = np.flatnonzero(model.input_of < 0)
        rows = (np.eye(len(model.locations)) - model.feed.dense)[splits]
        self._matrix = np.vstack([rows, model.load.dense])
        self._limits = np.concatenate([np.zeros(len(splits)), model.capacities])
        self._reward = model.delivered.transposed_times(model.weights)
        self._inputs = model.input_of >= 0
        glpk.glp_term_out(glpk.GLP_OFF)
        self._quiet = glpk.glp_smcp()
        glpk.glp_init_smcp(self._quiet)
        self._quiet.msg_lev = glpk.GLP_MSG_OFF

    def score(self, rates: Floats) -> tuple[float, bool]:
        """The best score, and whether the load fits without a drop."""
        unshed = self.model.unshed(rates)
        if self.model.is_feasible(unshed):
            return unshed.score, True
        started = perf_counter()
        best = self._solve(rates)
        self.seconds += perf_counter() - started
        self.runs += 1
        return best, False

    def _solve(self, rates: Floats) -> float:
        problem = glpk.glp_create_prob()
        glpk.glp_set_obj_dir(problem, glpk.GLP_MAX)
        rows, columns = self._matrix.shape
        glpk.glp_add_rows(problem, rows)
        glpk.glp_add_cols(problem, columns)
        for i, limit in enumerate(self._limits.tolist(), start=1):
            glpk.glp_set_row_bnds(problem, i, glpk.GLP_UP, 0.0, limit)
        offered = self.model.input_rates(rates).tolist()
        for j, reward in enumerate(self._reward.tolist(), start=1):
            glpk.glp_set_obj_coef(problem, j, reward)
            _set_column(problem, j, offered[j - 1] if self._inputs[j - 1] else None)
        self._load(problem)
        status = glpk.glp_simplex(problem, self._quiet)
        best = float(glpk.glp_get_obj_val(problem))
        optimal = status == 0 and glpk.glp_get_status(problem) == glpk.GLP_OPT
        glpk.glp_delete_prob(problem)
        if not optimal:
            raise RuntimeError(f"GLPK found no optimum at {rates.tolist()}")
        return best

    def _load(self, problem: object) -> None:
        at_row, at_column = np.nonzero(self._matrix)
        count = len(at_row)
        rows, columns = glpk.intArray(count + 1), glpk.intArray(count + 1)
        values = glpk.doubleArray(count + 1)
        entries = zip(
            at_row.tolist(),
            at_column.tolist(),
            self._matrix[at_row, at_column].tolist(),
            strict=True,
        )
        for k, (row, column, value) in enumerate(entries, start=1):
            rows[k], columns[k], values[k] = row + 1, column + 1, value
        glpk.glp_load_matrix(problem, count, rows, columns, values)


def _set_column(problem: object, column: int, upper: float | None) -> None:
    if upper is None:
        glpk.glp_set_col_bnds(problem, column, glpk.GLP_LO, 0.0, 0.0)
    elif upper > 0.0:
        glpk.glp_set_col_bnds(problem, column, glpk.GLP_DB, 0.0, upper)
    else:
        glpk.glp_set_col_bnds(problem, column, glpk.GLP_FX, 0.0, 0.0)


@dataclass
class GlpkQuadtree:
    """The quadtree over the box [0, max_rates]; `divide` runs until an error is met."""

    network: Network
    max_rates_per_second: Mapping[str, float]
    regions: int = 0
    error: float = 1.0
    _scores: dict[tuple[float, ...], tuple[float, bool]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.model = compile_flow(self.network)
        self.program = GlpkProgram(self.model)
        self._top = np.array([self.max_rates_per_second[s.name] for s in self.network.streams])

    @property
    def solver_runs(self) -> int:
        return self.program.runs

    @property
    def solver_seconds(self) -> float:
        return self.program.seconds

    @property
    def corners(self) -> int:
        return len(self._scores)

    def divide(self, max_error: float, max_regions: int = 1_000_000) -> float:
        """Divide the worst region until no error is above `max_error`; the error reached."""
        queue: list[tuple[float, int, int, Cell]] = []
        number = itertools.count()
        self._push(queue, number, 0, (0,) * len(self._top))
        while queue and -queue[0][0] > max_error and self.regions < max_regions:
            _, _, level, cell = heapq.heappop(queue)
            for step in itertools.product((0, 1), repeat=len(cell)):
                child = tuple(2 * c + s for c, s in zip(cell, step, strict=True))
                self._push(queue, number, level + 1, child)
        self.error = -queue[0][0]
        return self.error

    def _push(
        self,
        queue: list[tuple[float, int, int, Cell]],
        number: itertools.count[int],
        level: int,
        cell: Cell,
    ) -> None:
        side = 2.0**-level
        bottom, _ = self._score(tuple(c * side for c in cell))
        top, fits = self._score(tuple((c + 1) * side for c in cell))
        error = 0.0 if fits or top <= 0.0 else (top - bottom) / top
        heapq.heappush(queue, (-error, next(number), level, cell))
        self.regions += 1

    def _score(self, corner: tuple[float, ...]) -> tuple[float, bool]:
        found = self._scores.get(corner)
        if found is None:
            found = self.program.score(np.array(corner) * self._top)
            self._scores[corner] = found
        return found
