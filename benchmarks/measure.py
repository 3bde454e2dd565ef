"""How things are timed: both sides in turn, several rounds, median and spread.

The machines are noisy, so a claim is a ratio within one run: the sides are
interleaved round by round, and the ratio of each round is kept.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

__all__ = [
    "Comparison",
    "Timing",
    "compare",
    "percentiles_ms",
    "time_of",
    "write_results",
    "write_section",
]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one thing over several rounds."""

    median_seconds: float
    least_seconds: float
    most_seconds: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides in one run; `ratio` is theirs over ours, so above 1 means ours is faster."""

    ours: Timing
    theirs: Timing
    ratio_median: float
    ratio_least: float
    ratio_most: float


def time_of(run: Callable[[], object]) -> float:
    """Wall seconds of one call, with garbage collection out of the way."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    finally:
        gc.enable()


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 5
) -> Comparison:
    """Run both in turn, `rounds` times; the order swaps from round to round."""
    pairs: list[tuple[float, float]] = []
    for number in range(rounds):
        if number % 2 == 0:
            mine, other = time_of(ours), time_of(theirs)
        else:
            other, mine = time_of(theirs), time_of(ours)
        pairs.append((mine, other))
    ratios = [other / max(mine, 1e-12) for mine, other in pairs]
    return Comparison(
        _timing([mine for mine, _ in pairs]),
        _timing([other for _, other in pairs]),
        median(ratios),
        min(ratios),
        max(ratios),
    )


def percentiles_ms(calls: Sequence[Callable[[], object]]) -> dict[str, float]:
    """Milliseconds of single calls: median, 99th percentile and the slowest."""
    gc.collect()
    gc.disable()
    seconds = []
    try:
        for call in calls:
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    finally:
        gc.enable()
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1e3
    return {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(most), "calls": len(calls)}


def write_results(name: str, command: str, results: Mapping[str, Any]) -> Path:
    """Write benchmarks/results/NAME.json with the command and the versions that made it."""
    made_by = _made_by(command, "numpy", "highspy")
    return _write(name, {"made_by": made_by, "results": _plain(results)})


def write_section(name: str, section: str, command: str, results: Mapping[str, Any]) -> Path:
    """Replace one section of benchmarks/results/NAME.json; each says what made it."""
    path = RESULTS / f"{name}.json"
    document = json.loads(path.read_text()) if path.is_file() else {}
    made_by = _made_by(command, "pyspark")
    document[section] = {"made_by": made_by, "results": _plain(results)}
    return _write(name, document)


def _made_by(command: str, *packages: str) -> dict[str, Any]:
    return {
        "command": command,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {_cores()} cores",
        **{name: version(name) for name in ("headgate", *packages)},
    }


def _write(name: str, document: Mapping[str, Any]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(f"wrote {path.relative_to(Path.cwd())}", file=sys.stderr)
    return path


def _timing(seconds: Sequence[float]) -> Timing:
    return Timing(median(seconds), min(seconds), max(seconds), len(seconds))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries, numbers rounded to what is worth reading."""
    if isinstance(value, Timing | Comparison):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value
