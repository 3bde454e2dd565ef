"""Draw the plane of two streams' rates: regions, border, and what the plan moves where."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headgate.cli.numbers import number
from headgate.cli.plan_regions import COLLISION, FITS, Region

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MapPicture", "draw_map"]

MOST_REGIONS = 7
_INK = "#222222"
_RED = "#C1272D"
_GREEN = "#1B6E3C"
_FITS = "#DCEFD8"
_SMALL = "#DDDDDD"
_TINTS = ("#FAD7AE", "#B5D3EC", "#E4C3DF", "#FFF0A3", "#C7C1E8", "#F2BCBC", "#BDE4E0", "#E0CFB6")


@dataclass(frozen=True)
class MapPicture:
    """Everything the drawing needs, in tuples per second.

    numbers:     the region of each pixel, [row from below, column].
    utilisation: how full the fullest node or link is without drops; 1 is the border.
    admitted:    what of the `asked` rates is left behind the gates at the input.
    """

    title: str
    subtitle: str
    drops_behind_splits: bool
    streams: tuple[str, str]
    ends: tuple[float, float]
    numbers: NDArray[np.int_]
    regions: tuple[Region, ...]
    utilisation: NDArray[np.float64]
    asked: tuple[float, float]
    admitted: tuple[float, float]


def draw_map(figure: Figure, picture: MapPicture) -> None:
    axes = figure.add_subplot()
    regions = _draw_regions(axes, picture)
    handles = [*_draw_move(axes, picture), *_draw_border(axes, picture), *regions]
    figure.suptitle(picture.title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=_INK)
    axes.set_title(picture.subtitle, loc="left", fontsize=9, color="#555555")
    axes.set_xlabel(f"{picture.streams[0]} (tuples/s)")
    axes.set_ylabel(f"{picture.streams[1]} (tuples/s)")
    axes.set_xlim(0.0, picture.ends[0])
    axes.set_ylim(0.0, picture.ends[1])
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.yaxis.set_major_formatter(lambda value, _: number(value))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(
        handles=handles,
        loc="outside right upper",
        fontsize=9,
        frameon=False,
        labelspacing=0.9,
        handleheight=1.2,
    )


def _draw_regions(axes: Any, picture: MapPicture) -> list[Any]:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours, listed = _colours(picture.numbers, picture.regions)
    axes.imshow(
        picture.numbers,
        origin="lower",
        extent=(0.0, picture.ends[0], 0.0, picture.ends[1]),
        aspect="auto",
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=len(colours) - 0.5,
        interpolation="nearest",
    )
    handles = [Patch(color=colours[i], label=_describe(picture.regions[i])) for i in listed]
    small = len(picture.regions) - len(listed)
    if small:
        handles.append(Patch(color=_SMALL, label=f"{small} smaller regions"))
    return handles


def _colours(
    numbers: NDArray[np.int_], regions: Sequence[Region]
) -> tuple[list[str], tuple[int, ...]]:
    """A colour for each region, and the regions that the legend lists, the largest first."""
    sizes = np.bincount(numbers.ravel(), minlength=len(regions))
    fitting = [i for i, region in enumerate(regions) if region == FITS]
    losing = [i for i, region in enumerate(regions) if region != FITS]
    largest = sorted(losing, key=lambda i: -int(sizes[i]))[:MOST_REGIONS]
    colours = [_SMALL] * len(regions)
    for index, tint in zip(largest, _TINTS, strict=False):
        colours[index] = tint
    for index in fitting:
        colours[index] = _FITS
    return colours, (*fitting, *largest)


def _draw_border(axes: Any, picture: MapPicture) -> list[Any]:
    from matplotlib.lines import Line2D

    if not (np.min(picture.utilisation) <= 1.0 < np.max(picture.utilisation)):
        return []
    points = picture.utilisation.shape[0]
    x, y = (np.linspace(0.0, end, points) for end in picture.ends)
    axes.contour(x, y, picture.utilisation, levels=[1.0], colors=_INK, linewidths=2.2)
    return [Line2D([], [], color=_INK, linewidth=2.2, label="as much as fits without drops")]


def _draw_move(axes: Any, picture: MapPicture) -> list[Any]:
    """The point asked for and, if it moves, the point that is let in."""
    asked, admitted = picture.asked, picture.admitted
    apart = zip(asked, admitted, picture.ends, strict=True)
    if max(abs(a - b) / end for a, b, end in apart) < 1e-6:
        return _mark(axes, asked, "o", _GREEN, "asked for, and let in")
    axes.annotate(
        "",
        xy=admitted,
        xytext=asked,
        arrowprops={"arrowstyle": "-|>", "color": _INK, "shrinkA": 6, "shrinkB": 6},
        annotation_clip=False,
    )
    behind = "\n(more is dropped behind splits)" if picture.drops_behind_splits else ""
    return [
        *_mark(axes, asked, "o", _RED, "asked for"),
        *_mark(axes, admitted, "D", _GREEN, "let in by the plan", behind),
    ]


def _mark(
    axes: Any, point: tuple[float, float], shape: str, colour: str, meaning: str, more: str = ""
) -> list[Any]:
    x, y = point
    lines: list[Any] = axes.plot(
        [x],
        [y],
        shape,
        color=colour,
        markersize=9,
        markeredgecolor="white",
        label=f"{meaning}: {number(x)}, {number(y)}{more}",
        clip_on=False,
        zorder=5,
    )
    return lines


def _describe(region: Region) -> str:
    if region == FITS:
        return "fits: nothing is dropped"
    if region == COLLISION:
        return "guaranteed minimums collide: no plan"
    who = textwrap.fill("less of " + _some(region.losing), 42)
    return who + (f"\n{_some(region.full)} full" if region.full else "")


def _some(names: Sequence[str], most: int = 4) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
