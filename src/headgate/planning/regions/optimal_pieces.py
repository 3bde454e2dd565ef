"""Optimal scores and plans at many points, from few runs of the solver.

The best score is a concave, piecewise linear function of the rates: as long as one
basis of the linear program stays feasible it stays optimal, and the kept rates are
an affine function of the input rates,

    kept(r) = kept_0 + K r.

So each run of the solver gives a *piece*: this affine plan, the inequalities on r
under which it is feasible, and the upper bound `constant + worth . r` that its prices
prove at every r (weak duality). Points are first looked up in the pieces found so
far, all at once; only where no piece fits is the solver run again. A network with a
handful of bottlenecks needs a handful of runs for any number of points.

Guarantees: `upper` is a proven bound on the best score, `lower` the score of a plan
that is feasible up to a relative 1e-9. Not guaranteed: that the two meet; they do
except where the solver's tolerances keep them apart.

Cost: points x pieces x planned streams, plus a run of the solver for each new piece.
At most `MAX_PIECES` are kept; after that every point that fits none costs a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats, FlowModel
from headgate.planning.linear_program import AT_UPPER, BASIC, FlowProgram
from headgate.planning.useful_flow import Bools, UsefulFlow

__all__ = ["MAX_PIECES", "OptimalPieces", "Scores"]

Rows = NDArray[np.intp]

MAX_PIECES = 2048
_FIT = 1e-9  # relative tolerance of "feasible"


@dataclass(frozen=True)
class Scores:
    """Per point: a plan reaches `lower`, none passes `upper`; `fits`: nothing need be dropped."""

    lower: Floats
    upper: Floats
    fits: Bools


@dataclass(frozen=True)
class _Piece:
    """An affine plan with the inequalities margin_0 + margin . r >= 0 under which it holds."""

    kept_0: Floats
    kept: Floats
    margin_0: Floats
    margin: Floats
    score_0: float
    score: Floats

    def holds_at(self, points: Floats) -> Bools:
        slack = self.margin_0[:, None] + self.margin @ points.T
        return np.asarray(np.all(slack >= -_FIT, axis=0))


@dataclass(frozen=True)
class _Run:
    """Kept rates of an optimum, and the bound constant + worth . rates of its prices."""

    kept: Floats
    constant: float
    worth: Floats


class OptimalPieces:
    """The pieces of one flow model that have been met so far.

    Points have one column for each planned stream; the other streams are at rate 0.
    `top` is the highest point that will be asked for (it sets the solver's scale).
    """

    def __init__(
        self, model: FlowModel, useful: UsefulFlow, top: Floats, time_limit_seconds: float
    ) -> None:
        self.model = model
        self.useful = useful
        self.solver_runs = 0
        self._time_limit_seconds = time_limit_seconds
        reference = model.unshed(self._all_rates(top)).offered
        self._scale = np.where(reference > 0.0, reference, 1.0)
        self._program: FlowProgram | None = None
        self._pieces: list[_Piece | None] = []  # None: a bound without a clean basis
        self._constants = np.zeros(0)
        self._worths = np.zeros((0, len(model.network.streams)))
        self._unshed = self._unshed_piece()
        self._add(self._unshed, *self._bound_of(useful.shut_prices))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_program": None}  # the solver's memory stays behind

    @property
    def count(self) -> int:
        return len(self._pieces)

    def scores(self, points: Floats) -> Scores:
        """Best scores at many points, one row each."""
        lower = np.full(len(points), -np.inf)
        proven = np.full(len(points), np.inf)
        waiting, first = np.arange(len(points)), 0
        while len(waiting := self._settle(points, waiting, lower, first)):
            first, row = self.count, waiting[0]
            run = self._run(points[row])
            piece = self._pieces[-1] if self.count > first else None
            if piece is None or not piece.holds_at(points[row : row + 1])[0]:
                lower[row] = self._feasible_score(run.kept)
                proven[row] = run.constant + run.worth[self.useful.streams] @ points[row]
        upper = np.minimum(proven, np.min(self._bounds(points), axis=0))
        return Scores(lower, upper, self._unshed.holds_at(points))

    def kept(self, point: Floats) -> Floats:
        """The kept rates of a best plan at one point."""
        row = point[None, :]
        for index in np.argsort(self._bounds(row)[:, 0], kind="stable").tolist():
            piece = self._pieces[index]
            if piece is not None and piece.holds_at(row)[0]:
                kept: Floats = np.maximum(piece.kept_0 + piece.kept @ point, 0.0)
                return kept
        return self._run(point).kept

    def fits(self, point: Floats) -> bool:
        """True when nothing that earns anything need be dropped at this point."""
        return bool(self._unshed.holds_at(point[None, :])[0])

    def unshed(self, point: Floats) -> Floats:
        """The kept rates when nothing that earns anything is dropped."""
        return self._unshed.kept @ point

    def bound(self, rates: Floats) -> float:
        """No plan scores more at these rates (of all streams, inside the box or not)."""
        cut, free = self.useful.cut(rates)
        return free + float(np.min(self._constants + self._worths @ cut))

    def _bounds(self, points: Floats) -> Floats:
        """What each piece (row) proves at each point (column)."""
        return self._constants[:, None] + self._worths[:, self.useful.streams] @ points.T

    def _settle(self, points: Floats, waiting: Rows, lower: Floats, first: int) -> Rows:
        """Score the waiting points with the pieces from `first` on; return what remains.

        Only a piece whose bound is the lowest at a point can be optimal there.
        """
        waiting = waiting[np.isneginf(lower[waiting])]
        bounds = self._bounds(points[waiting])
        near = bounds <= np.min(bounds, axis=0) * (1.0 + _FIT)
        for index in range(first, self.count):
            piece = self._pieces[index]
            rows = waiting[near[index] & np.isneginf(lower[waiting])]
            if piece is not None and len(rows):
                rows = rows[piece.holds_at(points[rows])]
                lower[rows] = piece.score_0 + points[rows] @ piece.score
        return waiting[np.isneginf(lower[waiting])]

    def _run(self, point: Floats) -> _Run:
        """One run of the solver; its piece and its bound join the others."""
        if self._program is None:
            self._program = FlowProgram(
                self.model, self._scale, self._time_limit_seconds, floors=False, levels=False
            )
        self._program.set_rates(self._all_rates(point))
        solution = self._program.maximise_score()
        self.solver_runs += 1
        if solution is None:  # dropping everything is always feasible
            raise PlanningError("the solver found no plan at all; check for extreme costs or rates")
        prices = np.maximum(solution.capacity_prices, self.useful.shut_prices)
        run = _Run(solution.kept, *self._bound_of(prices))
        if self.count < MAX_PIECES:
            self._add(self._piece_of(self._program), run.constant, run.worth)
        return run

    def _bound_of(self, prices: Floats) -> tuple[float, Floats]:
        """The constant and the worth of each stream's tuple in the bound of these prices."""
        worth = self.model.worth(prices, self.model.weights)
        return float(self.model.capacities @ prices), self.model.input_worth(worth)

    def _add(self, piece: _Piece | None, constant: float, worth: Floats) -> None:
        self._pieces.append(piece)
        self._constants = np.append(self._constants, constant)
        self._worths = np.vstack([self._worths, worth])

    def _unshed_piece(self) -> _Piece:
        """The piece that needs no solver: everything that can earn anything is kept."""
        open_ = self.useful.open.astype(np.float64)
        columns = [
            self.model.evaluate(self._all_rates(unit), open_).kept
            for unit in np.eye(len(self.useful.streams))
        ]
        kept = np.array(columns).reshape(-1, len(open_)).T
        return self._piece(np.zeros(len(open_)), kept)

    def _piece_of(self, program: FlowProgram) -> _Piece | None:
        """The affine plan of the solver's last basis; None where it is no clean basis."""
        columns, rows = program.basis()
        count, splits = len(self.model.locations), np.flatnonzero(self.model.input_of < 0)
        matrix = np.vstack([self._split_rows(splits), self.model.load.dense])
        basic = columns[:count] == BASIC
        active = rows[: len(matrix)] != BASIC
        if np.any(rows[len(matrix) :] != BASIC) or np.sum(basic) != np.sum(active):
            return None
        fixed = self._rate_columns() * ((columns[:count] == AT_UPPER) & ~self.useful.shut)[:, None]
        limits = np.concatenate([np.zeros(len(splits)), self.model.capacities])[active]
        right = np.column_stack([limits, -matrix[active] @ fixed])
        try:
            solved = np.linalg.solve(matrix[np.ix_(active, basic)], right)
        except np.linalg.LinAlgError:
            return None
        kept_0, kept = np.zeros(count), fixed
        kept_0[basic], kept[basic] = solved[:, 0], solved[:, 1:]
        return self._piece(kept_0, kept)

    def _piece(self, kept_0: Floats, kept: Floats) -> _Piece:
        """Attach the inequalities and the score to an affine plan."""
        model, scale = self.model, self._scale
        affine = np.column_stack([kept_0, kept])
        offered = np.column_stack([np.zeros(len(kept_0)), self._rate_columns()])
        offered = offered + model.feed.dense @ affine
        limited = model.capacities > 0.0
        spare = -model.load.dense[limited] @ affine
        spare[:, 0] += model.capacities[limited]
        margins = np.vstack(
            [
                affine / scale[:, None],
                (offered - affine) / scale[:, None],
                spare / model.capacities[limited][:, None],
            ]
        )
        margins = margins[~np.all(margins >= 0.0, axis=1)]  # rates are never negative
        reward = model.delivered.transposed_times(model.weights) @ affine
        return _Piece(kept_0, kept, margins[:, 0], margins[:, 1:], float(reward[0]), reward[1:])

    def _rate_columns(self) -> Floats:
        """offered = this matrix times the point, at input arcs."""
        return np.asarray(
            self.model.input_of[:, None] == self.useful.streams[None, :], dtype=np.float64
        )

    def _split_rows(self, splits: Rows) -> Floats:
        rows = np.eye(len(self.model.locations)) - self.model.feed.dense
        return np.asarray(rows[splits])

    def _feasible_score(self, kept: Floats) -> float:
        """The score of the solver's own plan, scaled down by what it is over."""
        limited = self.model.capacities > 0.0
        loads = self.model.load.times(kept)[limited] / self.model.capacities[limited]
        over = max(1.0, float(np.max(loads, initial=0.0)))
        return float(self.model.weights @ self.model.delivered.times(kept)) / over

    def _all_rates(self, point: Floats) -> Floats:
        rates = np.zeros(len(self.model.network.streams))
        rates[self.useful.streams] = point
        return rates
