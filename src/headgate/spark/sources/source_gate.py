"""The source gate: a streaming source that drops tuples before it builds rows of them.

`SourceGate` stands between Spark and an `Input` (the replay pattern, Kafka). At every
trigger Spark asks it for the latest offset. It looks how much waits in the input, asks
the agent for the decision of the batch, and puts both into the offset. The tasks get the
decision with their share of the input; they look at the identities of the tuples and
build rows only of those that stay.

Each task ends with one *marker* row that says how many tuples it looked at, how many were
gone and what became of dead letters; `add_source_gate` counts the marker and takes it out.
So offered, kept and lost come from the same pass over the same rows.

Guarantees: rows of a batch follow from its two offsets alone, so a replay is exact, also
without an agent. Nothing waits = the offset that was given comes back, so Spark runs no
empty batch. A query that was not started by `Headgate.start` keeps everything.
A limit of rows for each trigger bounds what comes out of the gate, not what is looked at:
when a share falls, more is taken in. So a limited source does not hide its backlog behind
the limit; the agent is told how much waits and how old it is.
Failure: agent unreachable = everything is kept, and the offset says so.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from headgate.errors import UsageError
from headgate.spark.agent.agent_client import AgentClient
from headgate.spark.agent.decision import EVERYTHING, UNREACHABLE, GateDecision
from headgate.spark.gates.gate_metrics import metric_name
from headgate.spark.letters.letter_settings import LETTERS_OPTION
from headgate.spark.sources.backlog import Backlog
from headgate.spark.sources.source_offset import Position, SourceOffset, is_source_offset, keeps

__all__ = [
    "GATE_OPTION",
    "MARKER",
    "MARKER_DDL",
    "SAME_TUPLES_OPTION",
    "Chunk",
    "Input",
    "InputAwayError",
    "SourceGate",
    "add_source_gate",
    "most_rows",
]

GATE_OPTION = "headgate.gate"
SAME_TUPLES_OPTION = "headgate.sameTuples"
MARKER = "__headgate"
MARKER_DDL = (
    f"{MARKER} struct<offered: bigint, lost: bigint, written: bigint, left: bigint, error: string>"
)
_COUNTS = ("offered", "lost", "written", "left")
_MARKER_TYPE = pa.struct([*((name, pa.int64()) for name in _COUNTS), ("error", pa.string())])
_QUIET_SECONDS = 10.0


class InputAwayError(Exception):
    """The input cannot be asked now; it may come back."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some tuples of the input in front of the gate.

    identities: one number for each tuple.
    rows:       builds the rows of those tuples for which the mask is true.
    lost:       tuples that should have been there and are gone.
    """

    identities: NDArray[np.uint64]
    rows: Callable[[NDArray[np.bool_]], pa.RecordBatch]
    lost: int = 0


class Input(ABC):
    """What a source gate reads from. Made on the driver and in tasks; nothing is open until used.

    A position is plain data for JSON. Two positions say exactly which tuples lie between.
    """

    @abstractmethod
    def first(self) -> Position:
        """Where a new query begins."""

    @abstractmethod
    def is_position(self, data: Mapping[str, Any]) -> bool:
        """True for the offset of the same source without a gate, in a checkpoint made with it."""

    @abstractmethod
    def latest(self, start: Position) -> tuple[Position, list[str]]:
        """How far one could read now, and what a person should know. InputAwayError: ask later."""

    @abstractmethod
    def count(self, start: Position, end: Position) -> int:
        """Tuples between two positions, as well as it is known without reading them."""

    @abstractmethod
    def part(self, start: Position, end: Position, most: int) -> Position:
        """A position that is about `most` tuples from `start`, at least one, at most `end`."""

    @abstractmethod
    def shares(self, start: Position, end: Position) -> Sequence[Any]:
        """What lies between two positions, cut into pieces for tasks."""

    @abstractmethod
    def chunks(self, share: Any) -> Iterator[Chunk]:
        """The tuples of one piece."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was opened."""


@dataclass
class GatedShare(InputPartition):
    """A piece of the input and what to keep of it."""

    share: Any
    salt: int
    threshold: int


class SourceGate(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module. `most_rows`: limit for each trigger; None takes what is there."""

    def __init__(
        self, source: Input, options: Mapping[str, str], schema: pa.Schema, most: int | None
    ) -> None:
        self._input = source
        self._schema = schema.append(pa.field(MARKER, _MARKER_TYPE))
        self._most = most
        self._gate = options.get(GATE_OPTION, "")
        self._same_tuples = options.get(SAME_TUPLES_OPTION, "false") == "true"
        self._letters = options.get(LETTERS_OPTION, "")
        self._agent = AgentClient(options) if "agent" in options else None
        self._backlog = Backlog()
        self._end: Position | None = None
        self._finite = False
        self._told: dict[str, float] = {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()  # the limit is ours, because it depends on the decision

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._finite = True

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return SourceOffset(self._gate, self._input.first()).as_dict()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        last = self._offset(start)
        try:
            latest = self._latest(last.position)
        except InputAwayError as error:
            if self._finite:
                raise  # it would end as if all had been read
            self._tell(str(error))
            return start
        if latest == last.position:
            self._backlog.seen(time.time(), 0)
            return start
        waiting = self._input.count(last.position, latest)
        if waiting == 0:  # only a partition was entered: there is nothing to decide
            return SourceOffset(
                self._gate, latest, last.salt, last.threshold, last.decision
            ).as_dict()
        age = self._backlog.seen(time.time(), waiting)
        decision = self._decide(last.decision, waiting, age)
        threshold = decision.threshold(self._gate)
        if self._most is not None and threshold > 0:
            most = -(-self._most * EVERYTHING // threshold)
            if most < waiting:
                latest = self._input.part(last.position, latest, most)
        self._backlog.taken(self._input.count(last.position, latest))
        salt = 0 if self._same_tuples else decision.salt
        return SourceOffset(self._gate, latest, salt, threshold, decision).as_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = self._offset(start), self._offset(end)
        shares = self._input.shares(first.position, last.position)
        return [GatedShare(share, last.salt, last.threshold) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, GatedShare)
        offered = lost = 0
        letters = self._letters_of(partition.threshold)
        for chunk in self._input.chunks(partition.share):
            offered += len(chunk.identities)
            lost += chunk.lost
            kept = keeps(chunk.identities, partition.salt, partition.threshold)
            if letters is not None:
                letters.take(chunk, kept)
            if kept.any():
                rows = chunk.rows(kept)
                columns = [*rows.columns, pa.nulls(rows.num_rows, _MARKER_TYPE)]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        marker: dict[str, Any] = {"offered": offered, "lost": lost}
        if letters is not None:
            marker |= letters.finish()
        columns = [pa.nulls(1, column.type) for column in self._schema][:-1]
        columns.append(pa.array([marker], type=_MARKER_TYPE))
        yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _letters_of(self, threshold: int) -> Any:
        """Letters of one task; None where none can fall. Only then is it imported."""
        if not self._letters or threshold >= EVERYTHING:
            return None
        from headgate.spark.sources.source_letters import SourceLetters

        return SourceLetters(self._gate, self._letters, threshold)

    def stop(self) -> None:
        self._input.close()
        if self._agent is not None:
            self._agent.close()

    def _offset(self, data: dict[str, Any]) -> SourceOffset:
        """An offset of ours, or of the same source without a gate: it kept everything."""
        if not is_source_offset(data) and self._input.is_position(data):
            return SourceOffset(self._gate, data)
        return SourceOffset.from_dict(data)

    def _latest(self, start: Position) -> Position:
        """The end of what may be read; for `availableNow` it stays where it was first.

        Not while there is news: a partition may have been entered that is still to be read.
        """
        if self._end is None:
            end, news = self._input.latest(start)
            for text in news:
                self._tell(text)
            if news or not self._finite:
                return end
            self._end = end
        return self._end

    def _decide(self, last: GateDecision, waiting: int, age: float) -> GateDecision:
        if self._agent is None:
            return last.opened("") if last.sheds else last
        answer = self._agent.decision("decide", last, gate=self._gate, waiting=waiting, age=age)
        if answer is None:
            return last.opened(UNREACHABLE) if last.sheds else last
        return answer

    def _tell(self, text: str) -> None:
        now = time.monotonic()
        if self._agent is None or now < self._told.get(text, 0.0) + _QUIET_SECONDS:
            return
        self._told = {text: now}
        self._agent.tell(f"{self._gate}: {text}")


def add_source_gate(
    frame: DataFrame, gate: str, arrival: str, with_letters: bool = False
) -> DataFrame:
    """The rows of a source with a gate in it, counted; the marker rows go."""
    marker, time_column = F.col(MARKER), F.col(arrival)
    letters = [
        F.sum(marker.written).alias("letters_written"),
        F.sum(marker.left).alias("letters_left"),
        F.max(marker.error).alias("letters_error"),
    ]
    measured = frame.observe(
        metric_name(gate),
        F.sum(marker.offered).alias("offered"),
        F.count(F.when(marker.isNull(), 1)).alias("kept"),
        F.sum(marker.lost).alias("lost"),
        F.avg(time_column.cast("double")).alias("arrival_mean"),
        F.min(time_column).cast("double").alias("first_arrival"),
        F.max(time_column).cast("double").alias("last_arrival"),
        *(letters if with_letters else ()),
    )
    return measured.where(marker.isNull()).drop(MARKER)


def most_rows(options: Mapping[str, str], name: str) -> int | None:
    """The limit of rows for each trigger; UsageError when it is not one."""
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, got {text!r}")
    return int(text)
