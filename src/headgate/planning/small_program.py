"""The best plan of a small network, without the cost of setting up a solver.

A general solver needs longer to be made than a program of a few variables needs to be
solved. `solve_small` is the textbook simplex for bounded variables on a condensed table
of plain numbers. It starts from dropping everything, which is always feasible. The
program is that of `linear_program` without floors and levels, in shares of what is
offered without drops:

    maximise    sum reward[d] x_d                      as shares of the unshed score
    behind a split   x_d - sum share[d, d'] x_d' <= 0
    capacity         sum load[c, d] x_d / capacity_c <= 1
    input arcs       0 <= x_d <= 1

Guarantee: what is returned was checked against the program as it was written, not as
it was transformed: feasible to 1e-9, and its prices prove that no plan scores more
by 1e-9. Where this fails, after too many steps, and for anything but a small plain program
the answer is None and the caller asks the general solver.

Cost: some ten microseconds for three locations on two nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from headgate.planning.flow_model import Floats, Flow, FlowModel

__all__ = ["SmallProgram", "small_program"]

_LARGEST = 64  # locations times rows; beyond it the general solver, kept warm, is as quick
_EPSILON = 1e-11
_TOLERANCE = 1e-9
_STEPS = 60

Row = list[float]


@dataclass(frozen=True)
class SmallProgram:
    """The numbers of a flow model as plain lists. Make it with `small_program`."""

    locations: int
    weights: Row
    capacities: Row
    load: list[tuple[int, int, float]]
    feed: list[tuple[int, int, float]]
    delivered: list[tuple[int, int, float]]

    def solve(self, unshed: Flow) -> tuple[Floats, Floats] | None:
        """Kept rates and prices of the capacities at an optimum; None: ask the solver."""
        offered = unshed.offered.tolist()
        score = unshed.score
        if not 0.0 < score < inf:
            return None
        reward = [0.0] * self.locations
        for query, location, gain in self.delivered:
            reward[location] += self.weights[query] * gain * offered[location] / score
        rows, limits = self._rows(offered)
        found = _simplex(rows, limits, reward, self._upper)
        if found is None:
            return None
        shares, prices = found
        if not _proven(rows, limits, reward, shares, prices):
            return None
        kept = [share * rate for share, rate in zip(shares, offered, strict=True)]
        first = len(rows) - len(self.capacities)
        priced = [
            max(price, 0.0) * score / capacity
            for price, capacity in zip(prices[first:], self.capacities, strict=True)
        ]
        return np.array(kept), np.array(priced)

    @property
    def _upper(self) -> Row:
        upper = [1.0] * self.locations
        for location, _, _ in self.feed:
            upper[location] = inf  # its row is the limit
        return upper

    def _rows(self, offered: Row) -> tuple[list[Row], Row]:
        """The splits' rows, then those of the capacities, with their right sides."""
        splits: dict[int, Row] = {}
        for location, source, gain in self.feed:
            if offered[location] <= 0.0:
                continue
            row = splits.get(location)
            if row is None:
                row = splits[location] = [0.0] * self.locations
                row[location] = 1.0
            row[source] -= gain * offered[source] / offered[location]
        loads = [[0.0] * self.locations for _ in self.capacities]
        for constraint, location, cost in self.load:
            loads[constraint][location] = cost * offered[location] / self.capacities[constraint]
        return [*splits.values(), *loads], [0.0] * len(splits) + [1.0] * len(loads)


def small_program(model: FlowModel) -> SmallProgram | None:
    """The small program of a model; None where it is not small, or a capacity is zero."""
    splits = len(model.locations) - len(model.levels[0])
    if len(model.locations) * (len(model.constraints) + splits) > _LARGEST:
        return None
    capacities = model.capacities.tolist()
    if min(capacities, default=0.0) <= 0.0:
        return None
    load, feed, delivered = (
        list(zip(m.rows.tolist(), m.columns.tolist(), m.values.tolist(), strict=True))
        for m in (model.load, model.feed, model.delivered)
    )
    return SmallProgram(
        len(model.locations), model.weights.tolist(), capacities, load, feed, delivered
    )


def _proven(rows: list[Row], limits: Row, reward: Row, shares: Row, prices: Row) -> bool:
    """Feasible, and the prices leave nothing to gain (weak duality; no share is above 1)."""
    bound = 0.0
    left = reward.copy()
    for row, limit, price in zip(rows, limits, prices, strict=True):
        used = sum(a * x for a, x in zip(row, shares, strict=True))
        if used > limit + _TOLERANCE:
            return False
        if price > 0.0:
            bound += price * limit
            left = [r - price * a for r, a in zip(left, row, strict=True)]
    bound += sum(r for r in left if r > 0.0)
    value = sum(r * x for r, x in zip(reward, shares, strict=True))
    return bound - value <= _TOLERANCE * value


def _simplex(rows: list[Row], limits: Row, reward: Row, upper: Row) -> tuple[Row, Row] | None:
    """The optimum of max reward.x with rows.x <= limits, 0 <= x <= upper, and the prices."""
    table = _Table(rows, limits, reward, upper)
    for _ in range(_STEPS):
        best = max(table.gain, default=0.0)
        if best <= _EPSILON:
            return table.shares_and_prices()
        if not table.step(table.gain.index(best)):
            break
    return None


class _Table:
    """A condensed simplex table: one column for each variable that is not in the basis.

    A variable that stands at its upper bound is *turned*: written as what is missing to
    the bound. So all variables outside the basis are zero.
    """

    def __init__(self, rows: list[Row], limits: Row, reward: Row, upper: Row) -> None:
        self.rows = [row.copy() for row in rows]
        self.value, self.gain = limits.copy(), reward.copy()
        self.columns = len(reward)
        self.bounds = upper + [inf] * len(rows)
        self.turned = [False] * len(self.bounds)
        self.outside = list(range(self.columns))
        self.basis = list(range(self.columns, len(self.bounds)))

    def step(self, enters: int) -> bool:
        """Raise one variable as far as it goes; False where nothing stops it."""
        bound = self.bounds[self.outside[enters]]
        leaves, length = self._first_to_stop(enters)
        if length >= bound:
            if bound == inf:
                return False
            self._turn_outside(enters, bound)
            return True
        if self.rows[leaves][enters] < 0.0:
            self._turn_basic(leaves)
        self._pivot(leaves, enters)
        return True

    def _first_to_stop(self, enters: int) -> tuple[int, float]:
        """The row whose variable reaches a bound first, and after how much."""
        leaves, shortest, largest = -1, inf, 0.0
        for i, row in enumerate(self.rows):
            a = row[enters]
            if a > _EPSILON:
                length = self.value[i] / a
            elif a < -_EPSILON:
                length = (self.value[i] - self.bounds[self.basis[i]]) / a
                a = -a
            else:
                continue
            if length < shortest or (length == shortest and a > largest):
                leaves, shortest, largest = i, length, a
        return leaves, shortest

    def _turn_outside(self, column: int, bound: float) -> None:
        for i, row in enumerate(self.rows):
            self.value[i] -= row[column] * bound
            row[column] = -row[column]
        self.gain[column] = -self.gain[column]
        self.turned[self.outside[column]] ^= True

    def _turn_basic(self, i: int) -> None:
        variable = self.basis[i]
        self.rows[i] = [-a for a in self.rows[i]]
        self.value[i] = self.bounds[variable] - self.value[i]
        self.turned[variable] ^= True

    def _pivot(self, leaves: int, enters: int) -> None:
        pivot = self.rows[leaves][enters]
        source = [a / pivot for a in self.rows[leaves]]
        source[enters] = 1.0 / pivot
        height = self.value[leaves] / pivot
        for i, row in enumerate(self.rows):
            factor = row[enters]
            if i == leaves or factor == 0.0:
                continue
            row[enters] = 0.0
            self.rows[i] = [a - factor * b for a, b in zip(row, source, strict=True)]
            self.value[i] -= factor * height
        factor, self.gain[enters] = self.gain[enters], 0.0
        self.gain = [a - factor * b for a, b in zip(self.gain, source, strict=True)]
        self.rows[leaves], self.value[leaves] = source, height
        self.outside[enters], self.basis[leaves] = self.basis[leaves], self.outside[enters]

    def shares_and_prices(self) -> tuple[Row, Row]:
        """What the variables are worth now, each within its bounds, and the rows' prices."""
        at = [0.0] * len(self.bounds)
        for variable, value in zip(self.basis, self.value, strict=True):
            at[variable] = value
        shares = [
            min(max(self.bounds[j] - at[j] if self.turned[j] else at[j], 0.0), 1.0)
            for j in range(self.columns)
        ]
        prices = [0.0] * len(self.bounds)
        for variable, gain in zip(self.outside, self.gain, strict=True):
            prices[variable] = -gain
        return shares, prices[self.columns :]
