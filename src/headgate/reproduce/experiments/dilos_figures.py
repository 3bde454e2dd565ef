"""Figures 2 to 8 of the classes paper: one run each, second by second.

Response times stand over the arrival of the input tuple, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.dilos_runs import (
    NAMES,
    TARGETS_MS,
    Scheme,
    by_second,
    constant_run,
    seeds,
    size_for,
    step_run,
)
from headgate.reproduce.figures import COLOURS
from headgate.simulation.operator_record import OperatorRecord
from headgate.simulation.operator_workload import S_STEPS_CLASS1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DILOS_FIGURE_2",
    "DILOS_FIGURE_3",
    "DILOS_FIGURE_4",
    "DILOS_FIGURE_5",
    "DILOS_FIGURE_6",
    "DILOS_FIGURE_7",
    "DILOS_FIGURE_8",
]

Findings = Callable[[Sequence[Row], Request], list[Finding]]
_LABELS = {
    "response_ms": "response time, ms",
    "headroom": "estimated headroom",
    "shed_percent": "shed, %",
    "rate_per_second": "tuples/s on each stream",
}


def _run_figure(
    record_of: Callable[[int, bool], OperatorRecord],
    columns: tuple[str, ...],
    findings: Findings,
    request: Request,
    progress: Progress,
) -> Outcome:
    progress(0, 1, "one run")
    rows = by_second(record_of(seeds(request)[0], request.quick))
    progress(1, 1, "done")
    return Outcome(rows, findings(rows, request), partial(_draw, rows, columns))


def _values(
    rows: Sequence[Row], column: str, number: int, since: float = 0.0, until: float = 1e9
) -> list[float]:
    """The values of one class, by second."""
    return [
        float(row[column] or 0.0)
        for row in rows
        if row["class"] == f"class {number}"
        and row.get(column) is not None
        and since <= float(row["second"] or 0.0) < until
    ]


def _draw(rows: Sequence[Row], columns: tuple[str, ...], figure: Figure) -> None:
    plots = figure.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
    for axes, column in zip(plots, columns, strict=True):
        only_first = column == "rate_per_second"
        for colour, (name, label) in zip(COLOURS, NAMES.items(), strict=False):
            if only_first and name != "class1":
                continue
            mine = [r for r in rows if r["class"] == label and r.get(column) is not None]
            axes.plot(
                [float(r["second"] or 0.0) + 0.5 for r in mine],
                [float(r[column] or 0.0) for r in mine],
                color=colour,
                label=label,
                linewidth=1.2,
                linestyle="--" if name == "class2" else "-",  # classes 1 and 2 often coincide
            )
        axes.set_ylabel(_LABELS[column])
        if column == "response_ms":
            _draw_target(axes)
        else:
            axes.set_ylim(bottom=0.0)
    handles, labels = plots[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    what = "arrival of the input tuple" if columns[0] == "response_ms" else "time"
    plots[-1].set_xlabel(f"{what}, s (simulated)")


def _draw_target(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.axhline(TARGETS_MS["class3"], color=COLOURS[7], linestyle=":", label="target of class 3")


def _unbounded(rows: Sequence[Row], request: Request) -> list[Finding]:
    third = _values(rows, "response_ms", 3)
    end = size_for(request.quick).seconds
    last = fmean(_values(rows, "response_ms", 3, end - 3.0, end))
    first_two = fmean(_values(rows, "response_ms", 1) + _values(rows, "response_ms", 2))
    return [
        Finding("classes 1 and 2: mean response, ms", first_two, 3.0, "read off: around 3 ms"),
        Finding("class 3: longest response, ms", max(third), note="the paper: grows unboundedly"),
        Finding("class 3: leaves its target far behind", max(third) > 10 * TARGETS_MS["class3"]),
        Finding(
            "class 3: falls for the last tuples, which have the node to themselves",
            last < max(third),
            True,
        ),
    ]


def _controlled(rows: Sequence[Row], request: Request) -> list[Finding]:
    since = size_for(request.quick).warm_up_seconds
    return [
        Finding(
            f"class {n}: mean response, ms",
            fmean(_values(rows, "response_ms", n, since)),
            note="one run; the table averages several",
        )
        for n in (1, 2, 3)
    ]


def _with_headrooms(
    paper: tuple[float | None, float | None, float | None], rows: Sequence[Row], request: Request
) -> list[Finding]:
    since = size_for(request.quick).warm_up_seconds
    notes = (
        "begins at 0.6 and has no reason to move",
        "begins at 0.3; grows to the load of the class, which in our model is 0.4",
        "begins at 0.1; what classes 1 and 2 do not use of their turns falls to class 3, less "
        "of it here because they use 0.4 each",
    )
    return _controlled(rows, request) + [
        Finding(
            f"class {n}: headroom at the end", fmean(_values(rows, "headroom", n, since)), value,
            note if value is not None else "",
        )
        for n, value, note in zip((1, 2, 3), paper, notes, strict=True)
    ]  # fmt: skip


def _rates(rows: Sequence[Row], request: Request) -> list[Finding]:
    length = size_for(request.quick).step_seconds
    return [
        Finding(
            f"class 1, step {i + 1}: tuples/s",
            fmean(_values(rows, "rate_per_second", 1, i * length, (i + 1) * length)),
            note=f"our choice, {rate:g}; the paper's text gives no numbers",
        )
        for i, rate in enumerate(S_STEPS_CLASS1)
    ]


def _steps(column: str, rows: Sequence[Row], request: Request) -> list[Finding]:
    """Means of the second half of each step, when what was lent has moved."""
    length = size_for(request.quick).step_seconds
    return [
        Finding(
            f"step {i + 1}, class 1 at {rate:g} tuples/s: class {n}, {_LABELS[column]}",
            fmean(_values(rows, column, n, (i + 0.5) * length, (i + 1) * length)),
        )
        for i, rate in enumerate(S_STEPS_CLASS1)
        for n in (1, 2, 3)
    ]


def _lent(rows: Sequence[Row], request: Request) -> list[Finding]:
    length = size_for(request.quick).step_seconds
    before, after = (
        fmean(_values(rows, "portion", 1, since * length, until * length))
        for since, until in ((1.5, 2.0), (2.5, 3.0))
    )
    return [
        *_steps("shed_percent", rows, request),
        *_steps("headroom", rows, request),
        Finding("class 1 has lent capacity before the third step", before < 0.59, True),
        Finding("and has more again in the third step", after > before, True),
    ]


def _figure(
    number: int,
    title: str,
    record_of: Callable[[int, bool], OperatorRecord],
    columns: tuple[str, ...],
    findings: Findings,
) -> Experiment:
    return Experiment(
        f"dilos-figure-{number}",
        title,
        f"DILoS (2011), figure {number}",
        partial(_run_figure, record_of, columns, findings),
        simulated=True,
    )


DILOS_FIGURE_2 = _figure(
    2,
    "Response times under S_c without load shedding",
    partial(constant_run, Scheme.NONE),
    ("response_ms",),
    _unbounded,
)
DILOS_FIGURE_3 = _figure(
    3,
    "Response times under S_c with one common load shedder",
    partial(constant_run, Scheme.COMMON),
    ("response_ms",),
    _controlled,
)
DILOS_FIGURE_4 = _figure(
    4,
    "Response times and headrooms under S_c with one load shedder per class",
    partial(constant_run, Scheme.PER_CLASS),
    ("response_ms", "headroom"),
    partial(_with_headrooms, (0.6, 0.3, 0.25)),
)
DILOS_FIGURE_5 = _figure(
    5,
    "Response times and headrooms under S_c with DILoS",
    partial(constant_run, Scheme.DILOS),
    ("response_ms", "headroom"),
    partial(_with_headrooms, (None, None, None)),
)
DILOS_FIGURE_6 = _figure(
    6, "Input rate of class 1 in S_steps", step_run, ("rate_per_second",), _rates
)
DILOS_FIGURE_7 = _figure(
    7,
    "Response times under S_steps with DILoS",
    step_run,
    ("response_ms",),
    partial(_steps, "response_ms"),
)
DILOS_FIGURE_8 = _figure(
    8,
    "Shedding and headrooms under S_steps with DILoS",
    step_run,
    ("shed_percent", "headroom"),
    _lent,
)
