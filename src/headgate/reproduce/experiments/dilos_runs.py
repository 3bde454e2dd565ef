"""The runs behind the tables and figures of the classes paper (DILoS, 2011).

Every run is made once for each seed and shared by the table and the figure that show it.
A full run of S_c takes 120 virtual seconds, of which the tables leave out the first 30 (the
paper does not say how it treats the start); S_steps takes five steps of 50 s and counts
from the beginning. Quick: 40 s without the first 20, five steps of 12 s, one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from headgate.reproduce.experiment import Request, Row
from headgate.simulation.operator_managers import (
    ClassManager,
    CommonShedder,
    LoadManager,
    NoShedding,
)
from headgate.simulation.operator_record import OperatorRecord
from headgate.simulation.operator_run import simulate_operators
from headgate.simulation.operator_workload import (
    CLASSES,
    class_settings,
    constant_load,
    paper_setup,
    step_load,
)

__all__ = [
    "NAMES",
    "TARGETS_MS",
    "Scheme",
    "Size",
    "by_second",
    "constant_run",
    "seeds",
    "size_for",
    "step_run",
]

NAMES: Mapping[str, str] = {name: f"class {i}" for i, name in enumerate(CLASSES, 1)}
TARGETS_MS: Mapping[str, float] = {
    name: 1e3 * seconds for name, seconds in class_settings().delay_targets_seconds.items()
}


class Scheme(StrEnum):
    """Who sheds: nobody, one shedder for all, one for each class, or DILoS."""

    NONE = "no load shedder"
    COMMON = "one common load shedder"
    PER_CLASS = "one load shedder per class"
    DILOS = "DILoS"

    def manager(self) -> LoadManager:
        if self is Scheme.NONE:
            return NoShedding()
        if self is Scheme.COMMON:
            return CommonShedder(class_settings(0))
        return ClassManager(class_settings(10 if self is Scheme.DILOS else 0))


@dataclass(frozen=True, slots=True)
class Size:
    """How much is simulated, in virtual seconds, and how often."""

    seconds: float
    warm_up_seconds: float
    step_seconds: float
    runs: int


def size_for(quick: bool) -> Size:
    return Size(40.0, 20.0, 12.0, 1) if quick else Size(120.0, 30.0, 50.0, 5)


def seeds(request: Request) -> list[int]:
    """One seed for each run; different requests share none."""
    return [1000 * request.seed + run for run in range(size_for(request.quick).runs)]


@lru_cache(maxsize=32)
def constant_run(scheme: Scheme, seed: int, quick: bool) -> OperatorRecord:
    """S_c; without a shedder the node goes on until its queues are empty."""
    load = constant_load(seconds=size_for(quick).seconds)
    drain = scheme is Scheme.NONE
    return simulate_operators(paper_setup(), load, scheme.manager(), seed, drain)


@lru_cache(maxsize=32)
def step_run(seed: int, quick: bool) -> OperatorRecord:
    """S_steps under DILoS."""
    load = step_load(size_for(quick).step_seconds)
    return simulate_operators(paper_setup(), load, Scheme.DILOS.manager(), seed)


def by_second(record: OperatorRecord) -> list[Row]:
    """A row for each class and second: response by arrival, and the load manager's view."""
    rows: list[Row] = []
    for name in record.classes:
        times, seconds = record.responses_by_arrival(name, 1.0)
        responses = dict(zip((times - 0.5).tolist(), (1e3 * seconds).tolist(), strict=True))
        cycles = {float(int(c.time_seconds - 1e-9)): c for c in record.cycles[name]}
        for second in sorted(responses.keys() | cycles.keys()):
            row: dict[str, float | str | None] = {
                "second": second,
                "class": NAMES[name],
                "response_ms": responses.get(second),
            }
            if second in cycles:  # the last load cycle of the second
                c = cycles[second]
                row["rate_per_second"] = c.offered / (2 * record.cycle_seconds)
                row["load"] = c.load
                row["headroom"] = c.headroom
                row["portion"] = c.portion
                row["shed_percent"] = 100.0 * (1.0 - c.keep_fraction)
            rows.append(row)
    return rows
