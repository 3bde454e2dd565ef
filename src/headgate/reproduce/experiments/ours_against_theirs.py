"""Our latency controller against the paper's and the baselines, on the same tuples.

Three loads on the paper's node: its pattern at 200 queries with all sources in step,
a step from a third of the capacity to three times the capacity, and the flash crowd
of the World Cup trace (a synthetic one where the trace is absent). Two ways to be
served: the paper's input buffer, and micro-batches as on Spark. Under micro-batches ours
also runs as one that is told how old the waiting tuples are ("model, told the age"), which no
count can tell: what is left then is the gate's random choice.

Errors are counted while the load is above the capacity, from the moment the latency
first reaches the target: before that nothing has to be dropped, and when the load is
gone nothing can be held. Tuples are counted over the whole run. The batch that is under way at
its end counts by the share that is done: otherwise whoever ends a batch just before would seem
to process more. So that its length is known, a run goes on for some seconds that count nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headgate.control import ServiceKind
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.latency_workload import (
    CAPACITY_QUERIES,
    MEAN_RATE_PER_QUERY,
    PERIOD_SECONDS,
    Scale,
    paper_load,
    run_node,
    scale_for,
)
from headgate.reproduce.figures import COLOURS
from headgate.simulation.arrivals import Arrivals, FlashCrowd, Steps
from headgate.simulation.record import SimulationResult
from headgate.simulation.trace_file import parse_recorded_load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CONTROLLERS", "LOADS", "OURS_AGAINST_THEIRS", "TOLD"]

TRACE_FILE = "worldcup98_requests_per_minute.csv"
TRACE_MINUTES = (400, 200)  # before and after the peak
CONTROLLERS = ("model", "paper")
TOLD = "model, told the age"
BASELINES = ("none", "tail-drop", "rate-cap", "spark-pid")
LOADS = ("pattern", "step", "trace")
REACHED = 0.95
NEAR = 0.10
TAIL_TARGETS = 5.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Case:
    """One load on one service at one target."""

    load_name: str
    load: Arrivals
    seconds: float
    service: ServiceKind
    target_seconds: float


@dataclass(frozen=True)
class _Course:
    """Latency over time of one run, for the picture."""

    case: _Case
    controller: str
    times: Floats
    latencies: Floats


def _run(request: Request, progress: Progress) -> Outcome:
    scale = scale_for(request)
    cases = _cases(request, scale)
    rows: list[Row] = []
    courses: list[_Course] = []
    total = sum(len(_controllers(case)) for case in cases)
    done = 0
    for case in cases:
        for controller in _controllers(case):
            what = f"{case.load_name}, {case.service.value}, {controller}"
            progress(done, total, what)
            done += 1
            result = _simulated(request, scale, case, controller)
            course = _course(case, controller, result)
            courses.append(course)
            rows.append(_row(course, result, scale))
    progress(total, total, "done")
    synthetic = _trace_path(request) is None
    return Outcome(rows, _findings(rows, synthetic), partial(_draw, courses))


def _simulated(request: Request, scale: Scale, case: _Case, controller: str) -> SimulationResult:
    return run_node(
        case.load,
        scale,
        seed=request.seed,
        controller="model" if controller == TOLD else controller,
        reports_waiting_age=controller == TOLD,
        controller_settings=_settings(controller, case, scale),
        target_seconds=case.target_seconds,
        seconds=case.seconds + TAIL_TARGETS * case.target_seconds,
        service=case.service,
    )


def _cases(request: Request, scale: Scale) -> list[_Case]:
    capacity = CAPACITY_QUERIES * MEAN_RATE_PER_QUERY / scale.copies
    trace, trace_seconds = _trace(request, capacity)
    loads: list[tuple[str, Arrivals, float]] = [
        ("pattern", paper_load(200, scale.copies, request.seed, in_step=True), scale.seconds),
        ("step", FlashCrowd(capacity / 3.0, 3.0 * capacity, 10.0, 1e6), 60.0),
        ("trace", trace, trace_seconds),
    ]
    targets = (1.0,) if request.quick else (1.0, 3.0)
    return [
        _Case(name, load, seconds, service, target)
        for name, load, seconds in loads
        for service in (ServiceKind.INPUT_BUFFER, ServiceKind.MICRO_BATCH)
        for target in targets
    ]


def _controllers(case: _Case) -> tuple[str, ...]:
    """Baselines stand beside on the buffer, at one target; one more of ours beside batches."""
    if case.service is ServiceKind.MICRO_BATCH:
        return (*CONTROLLERS, TOLD)
    return CONTROLLERS + BASELINES if case.target_seconds == 1.0 else CONTROLLERS


def _settings(controller: str, case: _Case, scale: Scale) -> dict[str, float]:
    """Baselines get the best fixed numbers: they are told the true capacity."""
    capacity = CAPACITY_QUERIES * MEAN_RATE_PER_QUERY / scale.copies
    if controller == "tail-drop":
        return {"buffer_tuples": round(capacity * case.target_seconds)}
    if controller == "rate-cap":
        return {"rate_per_second": capacity}
    return {}


# --- loads --------------------------------------------------------------------------------


def _trace_path(request: Request) -> Path | None:
    if request.data_directory is None:
        return None
    path = request.data_directory / TRACE_FILE
    return path if path.is_file() else None


def _trace(request: Request, capacity: float) -> tuple[Arrivals, float]:
    """Hours around the peak, a minute a second; twice the trace's mean is the capacity."""
    path = _trace_path(request)
    if path is None:
        before, after = TRACE_MINUTES
        seconds = 60.0 if request.quick else float(before + after)
        return _synthetic_crowd(seconds, capacity), seconds
    counts = np.array(parse_recorded_load(path.read_text(encoding="utf-8"), path.name).values())
    before, after = (30, 30) if request.quick else TRACE_MINUTES
    peak = int(counts.argmax())
    hours = counts[max(0, peak - before) : peak + after]
    rates = 0.5 * capacity * hours / counts.mean()
    return Steps(tuple(rates.tolist()), 1.0), float(len(hours))


def _synthetic_crowd(seconds: float, capacity: float) -> Steps:
    """A crowd that comes within a tenth of the time and goes slowly: 0.5 to 4.5 times capacity."""
    time = np.arange(seconds)
    begin, rise = 0.3 * seconds, 0.1 * seconds
    rising = np.clip((time - begin) / rise, 0.0, 1.0)
    falling = np.exp(-np.maximum(0.0, time - begin - rise) / (0.25 * seconds))
    rates = capacity * (0.5 + 4.0 * rising * falling)
    return Steps(tuple(rates.tolist()), 1.0)


# --- numbers ------------------------------------------------------------------------------


def _course(case: _Case, controller: str, result: SimulationResult) -> _Course:
    known = [
        row
        for row in result.rows
        if row.latency_mean_seconds is not None and row.time_seconds <= case.seconds
    ]
    return _Course(
        case,
        controller,
        np.array([row.time_seconds for row in known]),
        np.array([row.latency_mean_seconds for row in known], dtype=np.float64),
    )


def _held(course: _Course, capacity: float) -> NDArray[np.bool_]:
    """Where the target could be held: see the module."""
    case = course.case
    held = np.zeros(len(course.times), dtype=bool)
    reached = False
    for i, (time, latency) in enumerate(zip(course.times, course.latencies, strict=True)):
        if case.load.rate_at(time - 0.5 * PERIOD_SECONDS) < capacity:
            reached = False
        elif latency >= REACHED * case.target_seconds:
            reached = True
        held[i] = reached
    return held


def _row(course: _Course, result: SimulationResult, scale: Scale) -> Row:
    case = course.case
    processed, looked_at, arrived = _counts(result, case.seconds)
    target = case.target_seconds
    held = _held(course, CAPACITY_QUERIES * MEAN_RATE_PER_QUERY / scale.copies)
    errors = course.latencies[held] - target
    some = len(errors) > 0
    return {
        "load": case.load_name,
        "service": case.service.value,
        "target_seconds": target,
        "controller": course.controller,
        "mean_error": float(errors.mean()) / target if some else None,
        "p95_error": float(np.percentile(np.abs(errors), 95)) / target if some else None,
        "deviation": float(np.sqrt(np.mean(errors**2))) / target if some else None,
        "longest_outside_seconds": _longest_outside(course, held) if some else None,
        "overshoot": float(course.latencies.max()) / target - 1.0,
        "kept_tuples": round(processed * scale.copies),
        "kept_share": processed / arrived,
        "looked_at": round(looked_at * scale.copies),
        "periods": int(held.sum()),
    }


def _counts(result: SimulationResult, seconds: float) -> tuple[float, float, float]:
    """Tuples processed, looked at and arrived in the first `seconds`; see the module."""
    rows = result.rows
    ends = np.array([row.time_seconds for row in rows])
    lengths = np.array([row.duration_seconds for row in rows])
    done = np.clip((seconds - (ends - lengths)) / lengths, 0.0, 1.0)
    processed = float(np.dot(done, [row.processed for row in rows]))
    looked_at = float(np.dot(done, [row.offered for row in rows]))
    arrived = float(np.interp(seconds, ends, np.cumsum([row.arrived for row in rows])))
    return processed, looked_at, arrived


def _longest_outside(course: _Course, held: NDArray[np.bool_]) -> float:
    """Longest time further than 10 % from the target; after a step this is the settling time."""
    target = course.case.target_seconds
    longest, since = 0.0, None
    for time, latency, counts in zip(course.times, course.latencies, held, strict=True):
        if counts and abs(latency - target) > NEAR * target:
            since = time if since is None else since
            longest = max(longest, float(time - since) + PERIOD_SECONDS)
        else:
            since = None
    return longest


def _findings(rows: Sequence[Row], synthetic: bool) -> list[Finding]:
    """Ours in the column of ours, the paper's controller in the column of the paper."""
    found = []
    by_key = {
        (row["load"], row["service"], row["target_seconds"], row["controller"]): row for row in rows
    }
    for load, service, target, controller in by_key:
        if controller != "model":
            continue
        ours, theirs = (by_key[load, service, target, c] for c in CONTROLLERS)
        note = "synthetic flash crowd: the trace is absent" if load == "trace" and synthetic else ""
        name = f"{load}, {service}, {1e3 * float(target or 0.0):g} ms"
        for column, what in _COLUMNS.items():
            found.append(Finding(f"{name}: {what}", ours[column], theirs[column], note))
        told = by_key.get((load, service, target, TOLD))
        if told is not None:
            what = f"{_COLUMNS['deviation']}, if the age were known"
            found.append(Finding(f"{name}: {what}", told["deviation"], None, note))
    return found


_COLUMNS = {
    "deviation": "standard deviation around the target, share of it",
    "mean_error": "mean error, share of the target",
    "p95_error": "95th percentile of the error, share of the target",
    "longest_outside_seconds": "longest time outside 10 %, seconds",
    "overshoot": "overshoot, share of the target",
    "kept_tuples": "tuples processed",
    "looked_at": "tuples looked at, once for each time",
}


def _draw(courses: Sequence[_Course], figure: Figure) -> None:
    chosen = [c for c in courses if c.case.target_seconds == 1.0 and c.controller in CONTROLLERS]
    services = (ServiceKind.INPUT_BUFFER, ServiceKind.MICRO_BATCH)
    grid = figure.subplots(len(LOADS), len(services), sharey="row", squeeze=False)
    for line, load in enumerate(LOADS):
        for column, service in enumerate(services):
            axes = grid[line][column]
            axes.axhline(1.0, color="0.7", linewidth=0.8)
            for course in chosen:
                if course.case.load_name == load and course.case.service is service:
                    number = CONTROLLERS.index(course.controller)
                    axes.plot(
                        course.times,
                        course.latencies,
                        color=COLOURS[number],
                        linewidth=1.0,
                        zorder=3 - number,
                        label=("ours", "the paper's")[number],
                    )
            axes.set_title(f"{load}, {service.value}", fontsize=9)
    grid[0][0].legend(fontsize=8)
    figure.supxlabel("time, seconds")
    figure.supylabel("mean latency, seconds; target 1 s (simulated)")


OURS_AGAINST_THEIRS = Experiment(
    "ours-against-theirs",
    "Our latency controller against the paper's and the baselines",
    "Latency control (2012), its controller as the other side",
    _run,
    simulated=True,
)
