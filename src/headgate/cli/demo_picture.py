"""The demo's picture: what the load asks of the nodes, and what each query keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.cli.demo_steps import Step
from headgate.reproduce.figures import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_demo"]

_INK = "#222222"


def draw_demo(figure: Figure, steps: Sequence[Step]) -> None:
    """`steps` are in the order of growing load, evenly spaced."""
    name = steps[0].plan.model.network.name
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.25])
    figure.suptitle(
        f"{name}: the load triples, and the plan decides who loses what",
        x=0.01,
        ha="left",
        fontsize=13,
        fontweight="bold",
        color=_INK,
    )
    _draw_nodes(above, steps)
    _draw_queries(figure, below, steps)
    below.set_xlabel("load, times the usual (a model, not a run on Spark)")
    below.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")


def _draw_nodes(axes: Any, steps: Sequence[Step]) -> None:
    scales = [step.scale for step in steps]
    for index, node in enumerate(steps[0].nodes):
        asked = [100.0 * step.nodes[index].asked for step in steps]
        used = [100.0 * step.nodes[index].used for step in steps]
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(scales, asked, "--", color=colour, linewidth=1.3)
        axes.plot(scales, used, color=colour, linewidth=2.2, label=node.name)
    axes.axhline(100.0, color=_INK, linewidth=1.0)
    axes.set_ylim(0.0, None)
    axes.set_ylabel("CPU, % of capacity")
    axes.set_title("dashed: without drops, solid: with the plan", loc="left", fontsize=9)
    axes.legend(loc="upper left", frameon=False, fontsize=9, ncols=len(steps[0].nodes))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_queries(figure: Figure, axes: Any, steps: Sequence[Step]) -> None:
    queries = sorted(steps[0].plan.model.network.queries, key=lambda query: -query.weight)
    keeps = np.array([[s.plan.query_keep_fraction[q.name] for s in steps] for q in queries])
    half = (steps[1].scale - steps[0].scale) / 2
    image = axes.imshow(
        100.0 * keeps,
        aspect="auto",
        cmap="YlGnBu",
        vmin=0.0,
        vmax=100.0,
        interpolation="nearest",
        extent=(steps[0].scale - half, steps[-1].scale + half, len(queries) - 0.5, -0.5),
    )
    axes.set_yticks(range(len(queries)), [f"{q.name} (weight {q.weight:g})" for q in queries])
    axes.set_yticks(np.arange(len(queries) - 1) + 0.5, minor=True)
    axes.grid(which="minor", axis="y", color="white", linewidth=2)
    axes.tick_params(which="both", left=False)
    axes.set_xlim(steps[0].scale, steps[-1].scale)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.colorbar(image, ax=axes, label="kept, %", pad=0.01)
