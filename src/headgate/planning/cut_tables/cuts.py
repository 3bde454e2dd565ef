"""Exact tables: a node's best score as a function of its input rates, in a few rows.

The best score V(r) that a node (and everything behind it) can reach at input rates
r is concave and piecewise linear. A row of the table is one linear piece, a cut:

    V(r) <= intercept + slopes . r        for all r >= 0

and V(r) is the smallest row. Where a sampled table grows exponentially with the
number of inputs, the rows grow with the number of places where a plan changes its
mind. A row is made from prices of capacity: at prices p, the intercept is
capacities . p and the slopes are the worth of one tuple of each input at these
prices, so every row is a valid upper bound by itself (weak duality); a table that
was cut short is still an upper bound, only not the smallest.

Guarantees: rows are valid bounds; `error_bound` (score units) says how far the
smallest row can be above the truth for rates inside `box`; 0 means exact for all
rates. Not guaranteed: a smallest number of rows; rows that are nowhere the
smallest may remain.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from headgate.errors import PlanningError
from headgate.planning.flow_model import Floats, FlowModel

__all__ = [
    "CutTable",
    "chain_table",
    "count_chain_systems",
    "single_price_table",
    "table_of_prices",
]

_HEADER = struct.Struct("<II")
_SAME = 1e-12


@dataclass(frozen=True)
class CutTable:
    """Rows of intercept and slopes over named inputs (tuples per second).

    Example: `table.value(rates)` is the best score at these rates.
    """

    inputs: tuple[str, ...]
    intercepts: Floats
    slopes: Floats  # rows x inputs
    error_bound: float = 0.0

    @property
    def rows(self) -> int:
        return len(self.intercepts)

    def value(self, rates: Floats) -> float:
        """The smallest row at these rates."""
        return float(np.min(self.intercepts + self.slopes @ rates))

    def values(self, points: Floats) -> Floats:
        """`value` for many points (points x inputs) at once."""
        return np.asarray(np.min(self.intercepts[:, None] + self.slopes @ points.T, axis=0))

    def encoded(self) -> bytes:
        """Eight bytes a number, row by row; `decoded` is the inverse."""
        body = np.column_stack([self.intercepts, self.slopes]).astype("<f8")
        return _HEADER.pack(self.rows, len(self.inputs)) + body.tobytes()

    @classmethod
    def decoded(cls, data: bytes, inputs: Sequence[str], error_bound: float = 0.0) -> CutTable:
        """Read what `encoded` wrote; raises PlanningError on anything else."""
        if len(data) < _HEADER.size:
            raise PlanningError("a table message is shorter than its header")
        rows, width = _HEADER.unpack_from(data)
        if width != len(inputs) or len(data) != _HEADER.size + 8 * rows * (width + 1):
            raise PlanningError(
                f"a table message for {len(inputs)} inputs does not fit: {rows} rows of "
                f"{width} inputs in {len(data)} bytes"
            )
        body = np.frombuffer(data, dtype="<f8", offset=_HEADER.size).reshape(rows, width + 1)
        if rows == 0 or not np.all(np.isfinite(body)) or np.any(body < 0.0):
            raise PlanningError("a table message holds no rows, or numbers that are not finite")
        return cls(tuple(inputs), body[:, 0].copy(), body[:, 1:].copy(), error_bound)

    def pruned(self) -> CutTable:
        """Without rows that repeat another or lie above another one everywhere."""
        rows = np.column_stack([self.intercepts, self.slopes])
        size = np.maximum(np.abs(rows).max(axis=0), 1e-300)
        scaled = rows / size
        rounded = np.round(scaled / _SAME)
        first: dict[bytes, int] = {}
        for index, row in enumerate(rounded):
            first.setdefault(row.tobytes(), index)
        chosen = list(first.values())
        rows, scaled = rows[chosen], scaled[chosen]
        alive = np.ones(len(rows), dtype=bool)
        for index in (-scaled.sum(axis=1)).argsort().tolist():
            below = (scaled <= scaled[index] + _SAME).all(axis=1)
            alive[index] = np.count_nonzero(below & alive) == 1  # itself alone
        return CutTable(self.inputs, rows[alive, 0], rows[alive, 1:], self.error_bound)


def table_of_prices(model: FlowModel, prices: Floats, error_bound: float = 0.0) -> CutTable:
    """One row for each vector of prices (vectors x constraints), pruned."""
    if len(model.levels) == 1:
        reward = model.delivered.transposed_times(model.weights)
        worth = np.maximum(0.0, reward - prices @ model.load.dense)
    else:
        _, _, worth = _worths(model, prices)
    membership = np.zeros((len(model.locations), len(model.inputs)))
    entering = np.flatnonzero(model.input_of >= 0)
    membership[entering, model.input_of[entering]] = 1.0
    table = CutTable(model.inputs, prices @ model.capacities, worth @ membership, error_bound)
    return table.pruned()


def single_price_table(model: FlowModel) -> CutTable:
    """The exact table where one constraint limits everything: a leaf node.

    Each drop location has one threshold: the price of capacity at which a tuple
    there stops being worth its load. Between thresholds the best score is linear
    in the price, so the thresholds and price 0 give all rows. Splits, unions and
    joins included. Cost: a few dense passes of locations x locations.
    """
    if len(model.constraints) != 1:
        raise PlanningError("single_price_table needs a model with exactly one constraint")
    prices = np.unique(np.append(_thresholds(model), 0.0))
    return table_of_prices(model, prices[:, None])


def _thresholds(model: FlowModel) -> Floats:
    """By location: the price at which the worth of a tuple there reaches zero.

    The worth falls with the price and is convex in it, so Newton's steps from price
    0 never pass the threshold and reach it after as many steps as it has kinks.
    Locations whose tuples cost nothing have no threshold and are left out.
    """
    price = np.zeros(len(model.locations))
    for _ in range(len(model.locations) + 1):
        reward, load, _ = _worths(model, price[:, None])
        own_reward, own_load = np.diagonal(reward), np.diagonal(load)
        step = np.divide(own_reward, own_load, out=price.copy(), where=own_load > 0.0)
        if np.all(step <= price * (1.0 + 1e-15)):
            break
        price = np.maximum(price, step)
    return price[np.diagonal(_worths(model, price[:, None])[1]) > 0.0]


def _worths(model: FlowModel, prices: Floats) -> tuple[Floats, Floats, Floats]:
    """Reward, priced load and worth of a tuple at each location, for many prices at once.

    Each is vectors x locations. Reward and load count what is worth its price
    downstream; the load is per unit of price where there is one constraint.
    """
    feed = model.feed.dense
    reward = np.tile(model.delivered.transposed_times(model.weights), (len(prices), 1))
    load = prices @ model.load.dense
    unit_load = np.tile(np.sum(model.load.dense, axis=0), (len(prices), 1))
    worth = np.zeros_like(reward)
    for level in reversed(model.levels):
        worth[:, level] = np.maximum(0.0, reward[:, level] - load[:, level])
        passed = np.zeros_like(worth)
        passed[:, level] = worth[:, level] > 0.0
        reward += (passed * reward) @ feed
        load += (passed * load) @ feed
        unit_load += (passed * unit_load) @ feed
    return reward, unit_load, worth


def count_chain_systems(model: FlowModel) -> int:
    """How many small systems `chain_table` would have to solve."""
    return math.comb(len(model.locations) + len(model.constraints), len(model.constraints))


def chain_table(model: FlowModel) -> CutTable:
    """The exact table of a model without splits, over any number of constraints.

    With load factors a_j, weights w_j and capacities z, the best score is the
    minimum over prices p >= 0 of  z.p + sum_j r_j max(0, w_j - a_j.p), and it is
    taken where as many of the planes a_j.p = w_j and p_i = 0 meet as there are
    constraints. All such corners are solved in batches.

    Cost: `count_chain_systems` systems of at most constraints x constraints.
    """
    if len(model.levels) > 1:
        raise PlanningError("chain_table needs a model without splits")
    load = model.load.dense
    weights = model.delivered.transposed_times(model.weights)
    corners = [np.zeros((1, len(model.constraints))), _single_corners(load, weights)]
    for size in range(2, min(load.shape) + 1):
        corners.append(_corners(load, weights, size))
    return table_of_prices(model, np.concatenate(corners))


def _single_corners(load: Floats, weights: Floats) -> Floats:
    """Prices of one constraint at which one location is just worth its load."""
    rows, columns = load.nonzero()
    prices = np.zeros((len(rows), load.shape[0]))
    prices[np.arange(len(rows)), rows] = weights[columns] / load[rows, columns]
    return prices


def _corners(load: Floats, weights: Floats, size: int) -> Floats:
    """Prices of `size` constraints at which `size` locations are just worth their load."""
    constraint_count, location_count = load.shape
    rows = np.array(list(combinations(range(constraint_count), size)))
    columns = np.array(list(combinations(range(location_count), size)))
    found = []
    for chosen in rows:
        matrices = load[chosen][:, columns].transpose(1, 2, 0)  # systems x locations x prices
        largest = np.abs(matrices).max(axis=(1, 2))
        solvable = np.abs(np.linalg.det(matrices)) > 1e-13 * largest**size
        if not solvable.any():
            continue
        right = weights[columns[solvable]][:, :, None]
        solved = np.linalg.solve(matrices[solvable], right)[:, :, 0]
        prices = np.zeros((len(solved), constraint_count))
        prices[:, chosen] = solved
        found.append(prices[(solved >= 0.0).all(axis=1)])
    return np.concatenate(found) if found else np.zeros((0, constraint_count))
