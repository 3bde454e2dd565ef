"""The demo's three charts as SVG, without a library. Colours come from CSS, light and dark.

Pure: numbers in, text out. A chart in the page takes the page's style; `standalone` puts
the style in, so that the file can be looked at by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headgate.demo.axes import Plot, nice_ticks
from headgate.demo.recording import WITH, WITHOUT, Recording, Run, per_second
from headgate.demo.scenario import Scenario

__all__ = ["COLOURS", "latency_chart", "shedding_chart", "standalone", "waiting_chart"]

COLOURS = """
.headgate-chart{--paper:#fff;--ink:#1f2933;--dim:#5b6770;--line:#d9dee3;--crowd:#f3ede0;
--ours:#0072b2;--theirs:#d55e00;--dropped:#e9b384;--target:#1f2933;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
@media (prefers-color-scheme:dark){.headgate-chart{--paper:#14191f;--ink:#e6eaee;--dim:#a3afba;
--line:#323b45;--crowd:#2b2820;--ours:#56b4e9;--theirs:#ff8c42;--dropped:#8a5a33;--target:#e6eaee}}
.headgate-chart .paper{fill:var(--paper)}
.headgate-chart .crowd{fill:var(--crowd)}
.headgate-chart text{fill:var(--ink);font-size:13px}
.headgate-chart .dim{fill:var(--dim)}
.headgate-chart .title{font-size:17px;font-weight:600}
.headgate-chart .grid{stroke:var(--line);stroke-width:1}
.headgate-chart .ours{stroke:var(--ours)}
.headgate-chart .theirs{stroke:var(--theirs)}
.headgate-chart .target{stroke:var(--target);stroke-dasharray:6 5;stroke-width:1.5}
.headgate-chart .arriving{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:2 4}
.headgate-chart path.line{fill:none;stroke-width:3;stroke-linejoin:round;stroke-linecap:round}
.headgate-chart path.thin{fill:none;stroke-width:1.5}
.headgate-chart circle.ours{fill:var(--ours);stroke:none}
.headgate-chart circle.theirs{fill:var(--theirs);stroke:none}
.headgate-chart text.ours{fill:var(--ours);stroke:none;font-weight:600}
.headgate-chart text.theirs{fill:var(--theirs);stroke:none;font-weight:600}
.headgate-chart rect.kept{fill:var(--ours)}
.headgate-chart rect.dropped{fill:var(--dropped)}
"""

_WIDTH, _HEIGHT = 920.0, 400.0
_SMALL = 280.0
_BARS = 20
_STYLES = {WITH: "ours", WITHOUT: "theirs"}

Points = Sequence[tuple[float, float]]


def latency_chart(recording: Recording, scenario: Scenario, title: str) -> str:
    """Two curves on one axis, the target, and the crowd behind them."""
    curves = {name: _latencies(run) for name, run in recording.runs.items()}
    top = max([scenario.target_seconds, *(y for c in curves.values() for _, y in c)])
    plot = _plot(_HEIGHT, recording, scenario, 1.12 * top, "mean age of results, s", title)
    target = scenario.target_seconds
    plot.path([(0.0, target), (plot.right_value, target)], "target")
    plot.text(plot.right_value, target, f"target {target:g} s", "dim", "start", 8.0, 4.0)
    for name, curve in curves.items():
        style = _STYLES[name]
        plot.path(curve, f"line {style}")
        plot.dots(curve, style)
        if curve:
            _name_curve(plot, name, style, curve, target)
    return plot.svg("Latency over time, with and without Headgate")


def _name_curve(plot: Plot, name: str, style: str, curve: Points, target: float) -> None:
    """Beside the end of the curve; not on top of the target's own label."""
    x, y = curve[-1]
    if name == WITHOUT:
        plot.text(x, y, name, style, "end", -10.0, -10.0)
        return
    inside = [(u, v) for u, v in curve if u < 0.6 * plot.right_value]
    x, y = inside[-1] if inside else (x, y)
    plot.text(x, min(y, target), name, style, "middle", 0.0, 24.0)


def shedding_chart(recording: Recording, scenario: Scenario) -> str:
    """With Headgate: what was kept and dropped, beside what arrived."""
    edges = [scenario.run_seconds * i / _BARS for i in range(_BARS + 1)]
    run = recording.runs.get(WITH, Run(WITH))
    rates = per_second(run.batches, edges)
    arriving = _arriving(scenario)
    top = max([y for _, y in arriving] + [kept + dropped for kept, dropped in rates])
    title = "With Headgate: rows per second, kept and dropped"
    plot = _plot(_SMALL, recording, scenario, 1.12 * top, "rows per second", title)
    for (low, high), (kept, dropped) in zip(pairwise(edges), rates, strict=True):
        plot.bar(low, high, 0.0, kept, "kept")
        plot.bar(low, high, kept, kept + dropped, "dropped")
    plot.path(arriving, "thin arriving")
    plot.text(plot.right_value, scenario.calm_per_second, "arriving", "", "start", 8.0, 4.0)
    plot.legend([("kept", "kept"), ("dropped", "dropped")])
    return plot.svg("Rows kept and dropped per second with Headgate")


def waiting_chart(recording: Recording, scenario: Scenario) -> str:
    """Rows that have arrived and are in no finished batch."""
    curves = {name: _waiting(run, scenario) for name, run in recording.runs.items()}
    top = max([1.0, *(y for c in curves.values() for _, y in c)])
    title = "Rows that wait for their result"
    plot = _plot(_SMALL, recording, scenario, 1.12 * top, "rows", title)
    for name, curve in curves.items():
        plot.path(curve, f"line {_STYLES[name]}")
        if curve:
            x, y = max(curve, key=lambda point: point[1]) if name == WITHOUT else curve[-1]
            anchor = "end" if x > 0.8 * scenario.run_seconds else "middle"
            plot.text(x, y, name, _STYLES[name], anchor, 0.0, -12.0)
    return plot.svg("Waiting rows over time, with and without Headgate")


def standalone(svg: str) -> str:
    """The same chart as a file of its own."""
    head, body = svg.split(">", 1)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><style>{COLOURS}</style>{body}\n'


def _plot(
    height: float, recording: Recording, scenario: Scenario, top: float, unit: str, title: str
) -> Plot:
    ends = [batch.end_seconds for run in recording.runs.values() for batch in run.batches]
    right = max([scenario.run_seconds, *ends])
    plot = Plot(_WIDTH, height, right, top)
    plot.band(scenario.crowd_begins, scenario.crowd_ends, "crowd")
    plot.grid(nice_ticks(top, 5), unit)
    plot.times(nice_ticks(right, 8), "seconds since the stream began")
    middle = (scenario.crowd_begins + scenario.crowd_ends) / 2.0
    factor = scenario.crowd_per_second / scenario.capacity_per_second
    plot.text(middle, top, f"flash crowd: {factor:g} x capacity", "dim", "middle", 0.0, 16.0)
    plot.title(title)
    return plot


def _latencies(run: Run) -> list[tuple[float, float]]:
    return [
        (b.end_seconds, b.latency_mean_seconds)
        for b in run.batches
        if b.latency_mean_seconds is not None
    ]


def _waiting(run: Run, scenario: Scenario) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = [(0.0, 0.0)] if run.batches else []
    offered = 0
    for batch in run.batches:
        arrived = scenario.arrived_before(batch.end_seconds)
        points.append((batch.end_seconds, max(0.0, arrived - offered)))
        offered += batch.offered
        points.append((batch.end_seconds, max(0.0, arrived - offered)))
    return points


def _arriving(scenario: Scenario) -> list[tuple[float, float]]:
    calm, crowd = scenario.calm_per_second, scenario.crowd_per_second
    begin, end = scenario.crowd_begins, scenario.crowd_ends
    corners = [(0.0, calm), (begin, calm), (begin, crowd), (end, crowd), (end, calm)]
    return [*corners, (scenario.run_seconds, calm)]
