"""What the options of `headgate run` say: loads, priorities, settings of Spark."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headgate.errors import UsageError
from headgate.names import nearest
from headgate.network import Network, Source
from headgate.quantities import DURATION
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.load_text import parse_load
from headgate.simulation.trace_file import RecordedLoad, parse_recorded_load

__all__ = ["aiming_at", "fed", "parse_priorities", "parse_settings", "read_loads", "replay_options"]

_REPLAYED_SECONDS = 3600


def parse_priorities(text: str) -> dict[str, float]:
    """Priorities by class.

    >>> parse_priorities("gold=6, bronze=1")
    {'gold': 6.0, 'bronze': 1.0}
    """
    priorities = {}
    for entry in text.split(","):
        name, equals, number = (part.strip() for part in entry.partition("="))
        try:
            priority = float(number)
        except ValueError:
            priority = math.nan
        if not (name and equals and 0.0 < priority < math.inf):
            raise UsageError(f"--classes {entry.strip()}: expected class=priority, such as gold=6")
        priorities[name] = priority
    return priorities


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """Settings of Spark."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"--conf {text}: expected key=value, such as spark.driver.memory=4g")
        settings[key.strip()] = value.strip()
    return settings


def aiming_at(network: Network, target: str | None) -> Network:
    """The network with one latency target for all queries."""
    if target is None:
        return network
    try:
        seconds = DURATION.parse(target)
    except ValueError as error:
        raise UsageError(f"--target {target}: {error}") from None
    if not 0.0 < seconds < math.inf:
        raise UsageError(f"--target {target}: expected a time above 0")
    queries = (replace(query, latency_target_seconds=seconds) for query in network.queries)
    return replace(network, queries=tuple(queries))


def read_loads(texts: list[str]) -> dict[str, Arrivals]:
    """Loads by stream, from ``--load``; every wrong one is reported at once."""
    loads: dict[str, Arrivals] = {}
    wrong: list[str] = []
    for text in texts:
        name, equals, load = text.partition("=")
        try:
            if not equals or not name.strip():
                raise UsageError("expected stream=load, for example orders=constant:100")
            if name.strip() in loads:
                raise UsageError(f"the stream {name.strip()!r} is given twice; keep one")
            loads[name.strip()] = parse_load(load.strip(), _read_trace)
        except UsageError as error:
            wrong.append(f"--load {text}: {error}")
    if wrong:
        raise UsageError("\n".join(wrong))
    return loads


def fed(network: Network, loads: Mapping[str, Arrivals], stand_ins: bool = False) -> Network:
    """The network with loads in the place of sources; with stand-ins, of no source."""
    for name in loads:
        if name not in network.stream_by_name:
            hint = nearest(name, network.stream_by_name)
            raise UsageError(f"--load {name}=...: unknown stream {name!r}{hint}")
    source = None if stand_ins else Source("replay")
    streams = tuple(
        replace(s, source=source, rate_per_second=s.rate_per_second or 1.0)
        if s.name in loads
        else s
        for s in network.streams
    )
    return replace(network, streams=streams)


def replay_options(arrivals: Arrivals, path: Path) -> dict[str, str]:
    """A load as a trace of the replay source: the mean rate of every second of an hour."""
    profile = arrivals.profile_until(float(_REPLAYED_SECONDS))
    arrived = [profile.expected_before(float(second)) for second in range(_REPLAYED_SECONDS + 1)]
    rates = [f"{later - now:.6f}" for now, later in itertools.pairwise(arrived)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rates) + "\n", encoding="utf-8")
    return {"pattern": "trace", "file": str(path), "step": "1s"}


def _read_trace(file: str) -> RecordedLoad:
    path = Path(file)
    try:
        return parse_recorded_load(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the trace {file!r}: {error}") from None
