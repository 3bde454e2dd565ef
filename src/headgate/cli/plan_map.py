"""`headgate plan --map`: the plans for all rates of two streams, as a picture.

Shown: which rates fit without drops, which plan applies elsewhere (where it drops, and
what is full), the rates asked for, and where the drops at the input move them. The
rates of all other streams stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.cli.map_drawing import MapPicture, draw_map
from headgate.cli.numbers import number
from headgate.cli.plan_regions import Region, region_of, regions_on_grid
from headgate.errors import UsageError
from headgate.names import nearest
from headgate.network import Network
from headgate.planning import Plan, Planner
from headgate.reproduce.figures import new_figure, require_matplotlib, save_png

__all__ = ["MapRequest", "write_map"]

MOST_NAMED = 4
_MARGIN = 1.25
_ZOOM = 4.0  # an axis ends at most this many times the asked rate, times the margin
_BORDER_POINTS = 400


@dataclass(frozen=True)
class MapRequest:
    """The planner, its plan at the rates asked for, and the streams of the two axes.

    `x` and `y` may be None in a network with two streams.
    """

    planner: Planner
    plan: Plan
    x: str | None = None
    y: str | None = None

    @cached_property
    def rates_per_second(self) -> Mapping[str, float]:
        names = self.plan.model.network.stream_by_name
        return dict(zip(names, self.plan.rates.tolist(), strict=True))


def write_map(request: MapRequest, path: Path) -> None:
    """Compute the map and write it as a PNG file."""
    require_matplotlib()
    if path.suffix.lower() != ".png":
        raise UsageError(f"--map {path}: a map is a PNG picture; let the name end in .png")
    figure = new_figure(9.5, 5.6)
    draw_map(figure, _picture(request))
    save_png(figure, path)


def _picture(request: MapRequest) -> MapPicture:
    plan = request.plan
    x, y = _axes(request, plan.model.network)
    x_end, y_end = _axis_end(request, x), _axis_end(request, y)

    def region_at(x_rate: float, y_rate: float) -> Region:
        rates = {**request.rates_per_second, x: x_rate, y: y_rate}
        return region_of(request.planner.plan(rates))

    numbers, regions = regions_on_grid(region_at, x_end, y_end)
    return MapPicture(
        title=f"{plan.model.network.name}: who loses what, by the {plan.planner} planner",
        subtitle=_subtitle(request, (x, y)),
        drops_behind_splits=_drops_behind_splits(plan),
        streams=(x, y),
        ends=(x_end, y_end),
        numbers=numbers,
        regions=tuple(regions),
        utilisation=_utilisation(request, (x, y), (x_end, y_end)),
        asked=(request.rates_per_second[x], request.rates_per_second[y]),
        admitted=(_admitted(plan, x), _admitted(plan, y)),
    )


def _axes(request: MapRequest, network: Network) -> tuple[str, str]:
    names = list(network.stream_by_name)
    if len(names) < 2:
        raise UsageError(f"a map needs two streams; the network {network.name!r} has one")
    for flag, name in (("--x", request.x), ("--y", request.y)):
        if name is not None and name not in names:
            raise UsageError(f"{flag} {name}: unknown stream{nearest(name, names)}")
    if len(names) > 2 and (request.x is None or request.y is None):
        raise UsageError(
            f"a map shows two of the {len(names)} streams; choose them with --x and --y "
            f"from {', '.join(names)}"
        )
    x = request.x or next(name for name in names if name != request.y)
    y = request.y or next(name for name in names if name != x)
    if x == y:
        raise UsageError(f"--x and --y are both {x!r}; choose two different streams")
    return x, y


def _axis_end(request: MapRequest, stream: str) -> float:
    """Far enough to show the rate asked for and where the stream alone stops fitting."""
    rate = request.rates_per_second[stream]
    capacities = request.plan.model.capacities
    slope = _loads(request, {stream: 1.0})
    costly = slope > 0.0
    limit = float(np.min(capacities[costly] / slope[costly], initial=np.inf))
    if rate > 0.0:
        limit = min(limit, _ZOOM * rate)
    return _MARGIN * max(rate, limit if np.isfinite(limit) else 0.0) or 1.0


def _loads(request: MapRequest, rates_per_second: Mapping[str, float]) -> NDArray[np.float64]:
    """Loads without drops if only these streams send."""
    model = request.plan.model
    nothing = dict.fromkeys(model.network.stream_by_name, 0.0)
    return model.unshed(model.rates({**nothing, **rates_per_second})).loads


def _utilisation(
    request: MapRequest, streams: tuple[str, str], ends: tuple[float, float]
) -> NDArray[np.float64]:
    """How full the fullest node or link is without drops, over an even grid of the plane.

    Loads without drops are linear in the rates, so three evaluations give all.
    """
    x, y = streams
    others = {n: r for n, r in request.rates_per_second.items() if n not in streams}
    rest, by_x, by_y = _loads(request, others), _loads(request, {x: 1.0}), _loads(request, {y: 1.0})
    x_rates, y_rates = (np.linspace(0.0, end, _BORDER_POINTS) for end in ends)
    fullest = np.zeros((_BORDER_POINTS, _BORDER_POINTS))
    for row, capacity in enumerate(request.plan.model.capacities):
        load = rest[row] + by_x[row] * x_rates[np.newaxis, :] + by_y[row] * y_rates[:, np.newaxis]
        used = load / capacity if capacity > 0.0 else np.where(load > 0.0, 2.0, 0.0)
        np.maximum(fullest, used, out=fullest)
    return fullest


def _admitted(plan: Plan, stream: str) -> float:
    """What is left of the stream behind its gates; the largest if it has several."""
    kept = zip(plan.model.locations, plan.flow.kept, strict=True)
    return max(float(rate) for arc, rate in kept if arc.source == stream)


def _drops_behind_splits(plan: Plan) -> bool:
    streams = plan.model.network.stream_by_name
    fractions = zip(plan.model.locations, plan.keep_fraction.values(), strict=True)
    return any(keep < 1.0 for arc, keep in fractions if arc.source not in streams)


def _subtitle(request: MapRequest, streams: tuple[str, str]) -> str:
    """What is held fixed: the other streams by name, or how many there are."""
    others = {n: r for n, r in request.rates_per_second.items() if n not in streams}
    if len(others) > MOST_NAMED:
        return f"the other {len(others)} streams at their rates"
    return "with " + ", ".join(f"{n} {number(r)}/s" for n, r in others.items()) if others else ""
