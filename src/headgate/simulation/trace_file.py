"""A recorded load from CSV text: counts or rates by time. Reading the file is the caller's.

The first line names the columns. The first column is a time (`1998-06-24 21:40:00`) or a
running number; the other columns are values. Times give the length of a step.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import datetime

from headgate.errors import UsageError
from headgate.simulation.arrivals import Trace

__all__ = ["RecordedLoad", "parse_recorded_load"]


@dataclass(frozen=True)
class RecordedLoad:
    """values by column; `step_seconds` is None where the first column is not a time."""

    columns: dict[str, tuple[float, ...]]
    step_seconds: float | None

    def values(self, column: str | None = None) -> tuple[float, ...]:
        """One column; the first one with values unless it is named."""
        name = next(iter(self.columns)) if column is None else column
        if name not in self.columns:
            raise UsageError(f"no column {name!r}; the columns are {', '.join(self.columns)}")
        return self.columns[name]

    def trace(
        self,
        time_scale: float = 1.0,
        rate_factor: float = 1.0,
        step_seconds: float | None = None,
        column: str | None = None,
    ) -> Trace:
        """Values are counts in a step, so a rate is value / step; then times `rate_factor`."""
        step = self.step_seconds if step_seconds is None else step_seconds
        step = 1.0 if step is None else step
        if not (math.isfinite(step) and step > 0.0):
            raise UsageError(f"the step of a trace must be longer than 0 s, got {step!r}")
        rates = tuple(rate_factor * value / step for value in self.values(column))
        return Trace(rates, step, time_scale)


def parse_recorded_load(text: str, name: str = "trace") -> RecordedLoad:
    """Columns and step of a CSV text; UsageError names the line that is wrong."""
    lines = list(csv.reader(text.splitlines()))
    if len(lines) < 2 or len(lines[0]) < 2:
        raise UsageError(f"{name}: expected a header and lines of a time and at least one value")
    header = [column.strip() for column in lines[0]]
    values: dict[str, list[float]] = {column: [] for column in header[1:]}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        if len(line) != len(header):
            raise UsageError(f"{name}:{number}: expected {len(header)} values, got {len(line)}")
        for column, cell in zip(header[1:], line[1:], strict=True):
            values[column].append(_value(cell, f"{name}:{number}: {column}"))
    return RecordedLoad({column: tuple(v) for column, v in values.items()}, _step(lines))


def _value(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise UsageError(f"{where}: expected a number of at least 0, got {cell!r}")
    return value


def _step(lines: list[list[str]]) -> float | None:
    """Seconds between the first two times, if they are times."""
    try:
        first, second = (datetime.fromisoformat(line[0]) for line in lines[1:3])
    except (ValueError, TypeError):
        return None
    seconds = (second - first).total_seconds()
    return seconds if seconds > 0.0 else None
