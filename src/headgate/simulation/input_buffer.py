"""The input buffer of one node, served in order and thinned once a period (DISSP).

Tuples wait as columns in chunks. The server takes them first in, first out; finish
times of a whole chunk are one cumulative maximum. A tuple is charged the mean cost of
its way through the job. Shedding looks at every waiting tuple and keeps exactly the
asked share of each gate, chosen at random.

Cost: O(served) for a period without shedding, O(waiting) with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.coordinator import GateCount
from headgate.simulation.links import finish_times

__all__ = ["InputBuffer", "Served"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Waiting tuples: when each came here, its oldest arrival, and the number of its gate."""

    entered: Floats
    origin: Floats
    gate: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.entered)

    def part(self, chosen: slice | NDArray[np.bool_]) -> _Chunk:
        entered = self.entered[chosen]
        origin = entered if self.origin is self.entered else self.origin[chosen]
        return _Chunk(entered, origin, self.gate[chosen])


@dataclass(frozen=True, slots=True)
class Served:
    """Tuples that were finished: columns as in the buffer, and when each was done."""

    entered: Floats
    origin: Floats
    gate: NDArray[np.int16]
    done: Floats

    def __len__(self) -> int:
        return len(self.entered)


class InputBuffer:
    """cost_seconds: server seconds for one tuple of each gate (CPU seconds over capacity)."""

    def __init__(self, gates: Sequence[str], cost_seconds: Sequence[float]) -> None:
        self.gates = tuple(gates)
        self._costs = np.array(cost_seconds, dtype=np.float64)
        self._chunks: deque[_Chunk] = deque()
        self.waiting = 0
        self.free_at_seconds = 0.0

    def put(self, arrivals: Sequence[tuple[Floats, Floats]]) -> None:
        """New tuples of each gate, as (entered, origin), all later than those before."""
        counts = [len(entered) for entered, _ in arrivals]
        if sum(counts) == 0:
            return
        numbers = np.repeat(np.arange(len(counts), dtype=np.int16), counts)
        if len(arrivals) == 1:
            self._append(_Chunk(*arrivals[0], numbers))
            return
        entered = np.concatenate([entered for entered, _ in arrivals])
        origin = np.concatenate([origin for _, origin in arrivals])
        order = np.argsort(entered, kind="stable")
        self._append(_Chunk(entered[order], origin[order], numbers[order]))

    def _append(self, chunk: _Chunk) -> None:
        self._chunks.append(chunk)
        self.waiting += len(chunk)

    def serve(self, start: float, end: float, factor: float) -> tuple[list[Served], float]:
        """Work from `start` to `end`; returns what was begun in it and the busy seconds.

        A tuple that is begun before `end` counts as served, with the time it is done.
        """
        busy = max(0.0, min(self.free_at_seconds, end) - start)
        served: list[Served] = []
        self.free_at_seconds = max(self.free_at_seconds, start)
        while self._chunks and self.free_at_seconds < end:
            chunk = self._chunks[0]
            service = self._costs[chunk.gate] * factor
            done = finish_times(chunk.entered, service, self.free_at_seconds)
            count = int(np.searchsorted(done - service, end, side="left"))
            if count == 0:
                break
            self._chunks.popleft()
            rest = len(chunk) - count
            if rest:
                self._chunks.appendleft(chunk.part(slice(count, None)))
                chunk, done = chunk.part(slice(0, count)), done[:count]
            last = float(done[-1])
            busy += float(service[:count].sum()) - max(0.0, last - end)
            self.free_at_seconds = last
            self.waiting -= count
            served.append(Served(chunk.entered, chunk.origin, chunk.gate, done))
            if rest:
                break
        return served, busy

    def counts(self) -> dict[str, int]:
        """Waiting tuples of each gate."""
        total = np.zeros(len(self.gates), dtype=np.int64)
        if len(self.gates) == 1:
            total[0] = self.waiting
        else:
            for chunk in self._chunks:
                total += np.bincount(chunk.gate, minlength=len(self.gates))
        return dict(zip(self.gates, total.tolist(), strict=True))

    def mean_age(self, now_seconds: float) -> float | None:
        if self.waiting == 0:
            return None
        total = sum(float(chunk.entered.sum()) for chunk in self._chunks)
        return now_seconds - total / self.waiting

    def thin(
        self, keep_fraction: Mapping[str, float], rng: np.random.Generator
    ) -> dict[str, GateCount]:
        """Keep the asked share of each gate, rounded down; returns what was done."""
        offered = self.counts()
        kept = dict(offered)
        for gate, count in offered.items():
            fraction = keep_fraction.get(gate, 1.0)
            if fraction < 1.0:
                kept[gate] = int(fraction * count + 1e-9)
        if kept != offered:
            self._drop(offered, kept, rng)
        return {g: GateCount(offered[g], kept[g], offered[g] - kept[g]) for g in self.gates}

    def _drop(
        self, offered: Mapping[str, int], kept: Mapping[str, int], rng: np.random.Generator
    ) -> None:
        whole = self._all()
        stays = np.ones(len(whole), dtype=bool)
        for number, gate in enumerate(self.gates):
            if kept[gate] == offered[gate]:
                continue
            mask = np.zeros(offered[gate], dtype=bool)
            mask[: kept[gate]] = True
            rng.shuffle(mask)
            if len(self.gates) == 1:
                stays = mask
            else:
                stays[whole.gate == number] = mask
        left = whole.part(stays)
        self._chunks = deque([left] if len(left) else [])
        self.waiting = len(left)

    def clear(self) -> int:
        """The node's memory is gone; returns how many tuples were in it."""
        lost, self.waiting = self.waiting, 0
        self._chunks.clear()
        return lost

    def _all(self) -> _Chunk:
        chunks = list(self._chunks)
        if len(chunks) == 1:
            return chunks[0]
        entered = np.concatenate([chunk.entered for chunk in chunks])
        same = all(chunk.origin is chunk.entered for chunk in chunks)
        origin = entered if same else np.concatenate([chunk.origin for chunk in chunks])
        return _Chunk(entered, origin, np.concatenate([chunk.gate for chunk in chunks]))
