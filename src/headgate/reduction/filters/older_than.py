"""OLDER_THAN: selects events older than an age."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.contract import Context, Filter, Sense, Verdict
from headgate.reduction.parameters import ATTRIBUTE, SECONDS, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind, number_of

__all__ = ["OlderThan"]


@dataclass(frozen=True, slots=True)
class OlderThan(Filter):
    """now - time > `age` seconds.

    Now is the packing's `now_seconds`; without one the newest time seen, in this queue
    and, with state, before it. Nothing here reads a clock.
    """

    name: ClassVar[str] = "OLDER_THAN"
    row_wise: ClassVar[bool] = True
    needs_whole_queue: ClassVar[bool] = True
    usual_sense: ClassVar[Sense] = Sense.DROP

    age: float = parameter(SECONDS)
    time: str | None = parameter(ATTRIBUTE, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        times = [number_of(value) for value in queue.values(self.time or "")]
        finite = [time if time is not None and abs(time) != np.inf else None for time in times]
        known = [time for time in finite if time is not None]
        now, state = self._now(max(known, default=-np.inf), context)
        judged = np.array([time is not None for time in finite], np.bool_)
        old = [time is not None and now - time > self.age for time in finite]
        return Verdict(np.array(old, np.bool_), judged, ~judged, state)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        times = queue.numbers(self.time or "")
        judged = times.known & np.isfinite(times.values)
        newest = np.max(times.values, where=judged, initial=-np.inf)
        now, state = self._now(float(newest), context)
        with np.errstate(over="ignore", invalid="ignore"):
            old = (now - times.values > self.age) & judged
        return Verdict(old, judged, ~judged, state)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.time: frozenset({Kind.NUMBER, Kind.TIME})} if self.time else {}

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.time is None:
            yield "time", "missing; name the attribute with the time, here or for the policy"

    @staticmethod
    def _now(newest: float, context: Context) -> tuple[float, Mapping[str, float] | None]:
        state = context.state
        if state is not None:
            newest = max(newest, state.get("newest", -np.inf))
            state = dict(state) if newest == -np.inf else {"newest": newest}
        return (newest if context.now_seconds is None else context.now_seconds), state
