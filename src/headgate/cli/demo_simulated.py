"""`headgate demo --simulated`: what Headgate would decide, computed on a model, without Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headgate.cli.demo_picture import draw_demo
from headgate.cli.demo_steps import Step, shop_network, steps_at
from headgate.cli.demo_view import comparison_table, introduction, keep_table, live_view
from headgate.cli.plan_tables import locations_table, spaced, verdict
from headgate.cli.terminal import output
from headgate.network import Network
from headgate.reproduce.figures import new_figure, require_matplotlib, save_png

__all__ = ["simulated_demo"]

SHOWN_SCALES = (1.0, 2.0, 3.0)
PICTURE_SCALES = np.linspace(1.0, 3.0, 81)
FRAMES_PER_SECOND = 15


def simulated_demo(seconds: float, out: Path) -> None:
    """What is dropped, where and for whom, while the load of a shop triples.

    seconds: how long the live part takes; 0 leaves it out.
    """
    require_matplotlib()
    console, network = output(), shop_network()
    counts = len(network.streams), len(network.nodes), len(network.queries)
    console.print(introduction(network.name, *counts))
    if console.is_terminal and seconds > 0.0:
        _play(console, network, seconds)
    steps = list(steps_at(network, SHOWN_SCALES))
    console.print(Text(), _story(steps), sep="\n")
    picture = out / "overload.png"
    figure = new_figure(9.0, 5.6)
    draw_demo(figure, list(steps_at(network, PICTURE_SCALES.tolist())))
    save_png(figure, picture, dots_per_inch=100)
    console.print(_farewell(picture))


def _play(console: Console, network: Network, seconds: float) -> None:
    """The load grows before your eyes; each frame is a new plan."""
    frames = max(2, round(seconds * FRAMES_PER_SECOND))
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for step in steps_at(network, np.linspace(1.0, 3.0, frames).tolist()):
            live.update(live_view(step), refresh=True)
            time.sleep(1.0 / FRAMES_PER_SECOND)


def _story(steps: Sequence[Step]) -> Group:
    last = steps[-1]
    where = locations_table(last.plan)
    where.title = f"Where the plan drops at {last.scale:g}x load"
    return spaced([comparison_table(steps), keep_table(steps), where, verdict(last.plan), Text()])


def _farewell(picture: Path) -> Text:
    return Text.assemble(
        ("Picture: ", "bold"),
        f"{picture}\n",
        ("Next:    ", "bold"),
        "headgate plan examples/shop.yaml --scale 3 --objective fairness\n",
        "         headgate plan examples/table1.yaml --map map.png",
    )
