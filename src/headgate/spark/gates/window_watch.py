"""What one run of a query knows of event times, and the windows' thresholds for its next batch.

`seen`, the largest event time offered so far, must never be too small (see `window_drop`).
It is taken from the observed metrics of every batch and, at a restart, from the ledger. Where
the numbers of a batch with rows are missing, the driver's clock stands in, with an alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.progress import BatchReport
from headgate.spark.gates.threshold import millionths
from headgate.spark.gates.window_drop import WindowMemory, WindowShape

__all__ = ["WindowWatch"]


class WindowWatch:
    """`shapes` by gate. `now` gives microseconds since 1970, `alarm` gets a text."""

    def __init__(
        self,
        shapes: Mapping[str, WindowShape],
        now: Callable[[], int],
        alarm: Callable[[str], None],
    ) -> None:
        self._shapes = dict(shapes)
        self._now, self._alarm = now, alarm
        self._seen: dict[str, int] = {}
        self._watermark: int | None = None
        self._through = -1
        self._replayed: int | None = None
        self._told: set[str] = set()

    def __contains__(self, gate: object) -> bool:
        return gate in self._shapes

    def begin(
        self, through: int, seen: Mapping[str, int], complete: bool, replays: bool = False
    ) -> None:
        """A restart: batches up to `through` ended, with these largest event times by gate.

        complete: False if the times of some batches are lost.
        replays:  the next batch is run again. If its sink has it already, Spark passes over it,
                  and nothing says which times it had.
        """
        self._through = through
        self._replayed = through + 1 if replays else None
        self._seen.update({gate: time for gate, time in seen.items() if gate in self._shapes})
        if not complete:
            self._lost("numbers in the ledger")

    def observe(self, report: BatchReport) -> None:
        """A batch ended."""
        if report.batch > self._through + 1:
            self._lost(f"the numbers of batch {self._through + 1}")
        self._through = max(self._through, report.batch)
        if report.watermark_micros is not None:
            self._watermark = max(self._watermark or 0, report.watermark_micros)
        for gate in self._shapes:
            counted = report.gates.get(gate)
            if counted is None and (report.input_rows > 0 or report.batch == self._replayed):
                self._see(gate, None, f"the numbers of batch {report.batch} do not say what")
            elif counted is not None and counted.event_time_max_micros is not None:
                self._see(gate, counted.event_time_max_micros, "")

    def next(
        self, start: GateDecision, keep: Mapping[str, float], batch: int
    ) -> dict[str, WindowMemory]:
        """The memories for `batch`, whose gates are to keep these shares of tuples."""
        if self._shapes and self._through < batch - 1:
            self._lost(f"the numbers of batch {batch - 1}")
            self._through = batch - 1
        memories = {}
        for gate, shape in self._shapes.items():
            memory = start.windows.get(gate, WindowMemory(shape))
            wanted = millionths(shape.block_share(keep.get(gate, 1.0)))
            new = memory.changed_to(wanted, self._seen.get(gate), self._watermark)
            if new.newest != wanted and gate not in self._told:
                self._told.add(gate)
                self._alarm(
                    f"gate {gate!r}: the watermark lags so far behind that no other share can be "
                    "remembered; the last one stays until it moves on"
                )
            if new != WindowMemory(shape) or gate in start.windows:
                memories[gate] = new
        return memories

    def _lost(self, what: str) -> None:
        for gate in self._shapes:
            self._see(gate, None, f"missing are {what}, so it is not known what")

    def _see(self, gate: str, event_time: int | None, why: str) -> None:
        if event_time is None:
            event_time = self._now()
            self._alarm(
                f"gate {gate!r}: {why} event times were offered before; a new share begins with "
                "windows after the present time"
            )
        self._seen[gate] = max(event_time, self._seen.get(gate, event_time))
