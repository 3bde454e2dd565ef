"""Which drop locations can earn or cost anything, and how much of a rate is of use.

Four facts that hold for a network whatever its rates are:

    open      some tuple kept here can reach a query that has a weight, without
              passing a node or link of zero capacity. What is not open earns nothing.
    shut      a tuple kept here is work for a node or link of zero capacity: it can
              only be dropped.
    costly    open, and some of the work behind it falls on a node or link.
    useful    no plan gains from keeping more tuples per second than this. The work of
              the stretch right behind the gate alone fills a node or link.

So a score depends only on the rates of the *planned* streams (those with a costly
input arc), and on those only up to their useful rate: score(r) = score(min(r, useful))
plus what the free streams bring. Advance planning needs no more than that box.

Cost: linear in the coefficients of the flow model, once per network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.planning.flow_model import Floats, FlowModel
from headgate.planning.linear_program import closed_locations

__all__ = ["Bools", "UsefulFlow", "useful_flow"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class UsefulFlow:
    """See the module. `open`, `shut`, `unlimited` are per location, `useful_rates` per stream.

    unlimited:      open, and without work of its own: never a reason to drop here.
    streams:        indices of the planned streams.
    useful_rates:   tuples per second, in the order of `streams`; finite and positive.
    shut_prices:    prices under which nothing shut is worth a thing. They cost nothing in
                    a bound, because the capacities they belong to are zero.
    free_worths:    score of one tuple more beyond the useful rate, in the order of
                    `streams`: what branches without any work earn; mostly 0.
    """

    open: Bools
    shut: Bools
    unlimited: Bools
    streams: NDArray[np.intp]
    useful_rates: Floats
    shut_prices: Floats
    free_worths: Floats

    def cut(self, rates: Floats) -> tuple[Floats, float]:
        """Rates cut to the useful ones, and the score that the rest still earns for free.

        The best score at `rates` is that at the cut rates plus this.
        """
        cut = rates.copy()
        cut[self.streams] = np.minimum(rates[self.streams], self.useful_rates)
        return cut, float(self.free_worths @ (rates - cut)[self.streams])


def useful_flow(model: FlowModel) -> UsefulFlow:
    """The facts about one flow model."""
    shut = closed_locations(model)
    work = model.load.values > 0.0
    closing = _closing_prices(model, work & (model.capacities[model.load.rows] <= 0.0))
    open_ = (model.worth(closing, model.weights) > 0.0) & ~shut
    loaded = np.zeros(len(model.locations), dtype=bool)
    loaded[model.load.columns[work]] = True
    streams, rates = _planned_streams(model, _useful_limits(model, open_))
    free = model.worth(_closing_prices(model, work), model.weights)
    return UsefulFlow(
        open_, shut, open_ & ~loaded, streams, rates, closing, model.input_worth(free)[streams]
    )


def _closing_prices(model: FlowModel, entries: Bools) -> Floats:
    """Prices under which no location with one of these loads is worth anything."""
    prices = np.zeros(len(model.constraints))
    gross = model.worth(prices, model.weights)
    asked = 2.0 * gross[model.load.columns[entries]] / model.load.values[entries]
    np.maximum.at(prices, model.load.rows[entries], asked)
    return prices


def _useful_limits(model: FlowModel, open_: Bools) -> Floats:
    """The useful kept rate of every open location; 0 where nothing behind it costs anything.

    Where a branch behind is free, any rate is of use to that branch; the limit is
    then the largest rate of use to the others.
    """
    count = len(model.locations)
    own = np.full(count, np.inf)
    work = model.load.values > 0.0
    rows, columns = model.load.rows[work], model.load.columns[work]
    np.minimum.at(own, columns, model.capacities[rows] / model.load.values[work])
    feeds = np.zeros(count, dtype=bool)
    feeds[model.feed.columns] = True
    use, limits = np.zeros(count), np.zeros(count)
    for level in reversed(model.levels):
        level = level[open_[level]]
        asked = np.where(feeds, _largest_asked(model, use), np.inf)
        use[level] = np.minimum(own, asked)[level]
        behind = _largest_asked(model, limits)
        limits[level] = np.where(np.isfinite(use), use, behind)[level]
    return limits


def _largest_asked(model: FlowModel, wanted: Floats) -> Floats:
    """What each location must keep so that the hungriest it feeds gets what it wants."""
    asked = np.zeros(len(model.locations))
    np.maximum.at(asked, model.feed.columns, wanted[model.feed.rows] / model.feed.values)
    return asked


def _planned_streams(model: FlowModel, limits: Floats) -> tuple[NDArray[np.intp], Floats]:
    useful = np.zeros(len(model.network.streams))
    inputs = model.input_of >= 0
    np.maximum.at(useful, model.input_of[inputs], limits[inputs])
    streams = np.flatnonzero(useful > 0.0)
    return streams, useful[streams]
