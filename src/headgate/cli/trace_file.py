"""Observed rates from a CSV file, for planners that weigh rates by how likely they are.

A column named like a stream holds that stream's rates in tuples per second, one row an
observation. A file with a single column of numbers (others may hold dates or text) is
a shape: each stream takes it in an order of its own, scaled to the stream's usual rate.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from headgate.errors import UsageError
from headgate.network import Network
from headgate.planning import EmpiricalRates

__all__ = ["read_trace"]

_MAX_ROWS = 1_000_000
_SEED = 1


def read_trace(path: Path, network: Network) -> EmpiricalRates:
    """The distribution of rates that the file shows; UsageError says what is wrong with it."""
    columns = _columns(path)
    streams = list(network.stream_by_name)
    if all(name in columns for name in streams):
        return EmpiricalRates(np.column_stack([columns[name] for name in streams]))
    if len(columns) != 1:
        missing = [name for name in streams if name not in columns]
        raise UsageError(
            f"{path} has no column for {', '.join(missing)}; give a column for each stream, "
            "or a single column of numbers that is the shape for all"
        )
    [shape] = columns.values()
    mean = float(np.mean(shape))
    unknown = [s.name for s in network.streams if s.rate_per_second is None]
    if unknown or mean <= 0.0:
        raise UsageError(
            f"cannot scale {path}: "
            + (f"no usual rate for {', '.join(unknown)}" if unknown else "its mean is 0")
        )
    rng = np.random.default_rng(_SEED)
    usual = [s.rate_per_second or 0.0 for s in network.streams]
    return EmpiricalRates(np.column_stack([rng.permutation(shape) * u / mean for u in usual]))


def _columns(path: Path) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The columns that hold nothing but numbers, by their header."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines)
            header = next(reader, [])
            rows = [row for _, row in zip(range(_MAX_ROWS + 1), reader, strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read the trace {str(path)!r}: {error}") from None
    if len(rows) > _MAX_ROWS:
        raise UsageError(f"{path} has more than {_MAX_ROWS:,} rows; give a shorter trace")
    found = {}
    for index, name in enumerate(header):
        try:
            values = np.array([float(row[index]) for row in rows if row], dtype=np.float64)
        except (ValueError, IndexError):
            continue
        if len(values):
            found[name.strip()] = values
    if not found:
        raise UsageError(f"{path} has no column of numbers; its first line must name the columns")
    return found
