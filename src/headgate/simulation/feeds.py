"""Streams into queues, drawn in blocks of a fixed length.

The blocks do not depend on who asks or when, so every controller meets the very same
tuples. A stream that feeds several arcs gives each of them all its tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headgate.errors import UsageError
from headgate.network import Network
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.tuples import ArcQueue, Tuples

__all__ = ["Feeds"]

_BLOCK_SECONDS = 1.0
_STREAMS = 7919  # keeps the streams' generators apart from those of the jobs


class Feeds:
    """All streams of a run."""

    def __init__(
        self,
        network: Network,
        load: Mapping[str, Arrivals],
        queues: Mapping[str, ArcQueue],
        seed: int,
        seconds: float,
    ) -> None:
        unknown = sorted(set(load) - set(network.stream_by_name))
        missing = sorted(set(network.stream_by_name) - set(load))
        if unknown or missing:
            what = f"unknown streams {unknown}" if unknown else f"no load for {missing}"
            raise UsageError(f"{what}; the streams are {', '.join(network.stream_by_name)}")
        self._seconds = seconds
        self._blocks = 0
        self._feeds = [
            (
                load[stream.name],
                np.random.default_rng((seed, _STREAMS, number)),
                [queues[a.name] for a in network.arcs_from[stream.name] if a.name in queues],
            )
            for number, stream in enumerate(network.streams)
        ]

    def draw_until(self, now_seconds: float) -> None:
        """See that all tuples up to `now_seconds` are in their queues; none after the end."""
        while self._blocks * _BLOCK_SECONDS <= min(now_seconds, self._seconds):
            start = self._blocks * _BLOCK_SECONDS
            end = min(start + _BLOCK_SECONDS, self._seconds)
            self._blocks += 1
            if end > start:
                self._draw(start, end)

    def _draw(self, start: float, end: float) -> None:
        feeds: Sequence[tuple[Arrivals, np.random.Generator, list[ArcQueue]]] = self._feeds
        for process, rng, queues in feeds:
            times = process.times(start, end, rng)
            for queue in queues:
                queue.put(Tuples(times, times))
