"""Observed rates from a CSV file, for planners that weigh rates by how likely they are.

The file is a recorded load (see `headgate.simulation.trace_file`): a column of times, then
columns of counts. A column named like a stream holds that stream's counts. A file with
one column of counts is a shape: each stream takes it in an order of its own, scaled to
the stream's usual rate.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headgate.errors import UsageError
from headgate.network import Network
from headgate.planning import EmpiricalRates
from headgate.simulation.trace_file import RecordedLoad, parse_recorded_load

__all__ = ["read_trace"]

_SEED = 1


def read_trace(path: Path, network: Network) -> EmpiricalRates:
    """The distribution of rates that the file shows; UsageError says what is wrong with it."""
    try:
        load = parse_recorded_load(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the trace {str(path)!r}: {error}") from None
    streams = list(network.stream_by_name)
    if all(name in load.columns for name in streams):
        columns = [np.array(load.trace(column=name).rates_per_second) for name in streams]
        return EmpiricalRates(np.column_stack(columns))
    if len(load.columns) != 1:
        missing = [name for name in streams if name not in load.columns]
        raise UsageError(
            f"{path} has no column for {', '.join(missing)}; give a column for each stream, "
            "or a single column that is the shape for all"
        )
    return _from_shape(load, path, network)


def _from_shape(load: RecordedLoad, path: Path, network: Network) -> EmpiricalRates:
    shape = np.array(load.values())
    mean = float(np.mean(shape))
    unknown = [s.name for s in network.streams if s.rate_per_second is None]
    if unknown or mean <= 0.0:
        why = f"no usual rate for {', '.join(unknown)}" if unknown else "its mean is 0"
        raise UsageError(f"cannot scale {path}: {why}")
    rng = np.random.default_rng(_SEED)
    usual = [s.rate_per_second or 0.0 for s in network.streams]
    return EmpiricalRates(np.column_stack([rng.permutation(shape) * u / mean for u in usual]))
