"""A stream without rows whose offsets are the decisions of one query.

Spark asks every source for its latest offset at every trigger, in a Python process of
its own, before it writes the offset log. This source passes the question on to the
agent and returns the decision as its offset. It returns the offset that it was given
as long as nothing changes, because a new offset makes Spark run a batch.

A query whose class has no turn is held here, outside of all task slots; see `agent_client`.
Spark asks the other sources afterwards, so a batch takes what has arrived until its turn.

Failure: when the agent cannot be reached in time the offset says "keep everything".
Nothing raises: a query does not die because of Headgate.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headgate.spark.agent.agent_client import AgentClient
from headgate.spark.agent.decision import UNREACHABLE, GateDecision

__all__ = ["FORMAT", "CompanionSource"]

FORMAT = "headgate_companion"


class CompanionSource(DataSource):
    """Options: `agent` (file with the agent's address), `query` (key), `timeout` (seconds)."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "nothing int"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return CompanionReader(self.options)


class CompanionReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Asks the agent; keeps one connection open."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._agent = AgentClient(options)
        self._told_replay = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return GateDecision().offset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to prepare: the agent keeps everything for such a query."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        last = _read(start)
        answer = self._agent.decision("decide", last)
        if answer is None:
            return (last.opened(UNREACHABLE) if last.sheds else last).offset()
        self._told_replay = True
        return answer.offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """No rows. A batch before the first question is a replay: tell the agent its decision."""
        if not self._told_replay:
            self._told_replay = True
            self._agent.decision("replay", _read(end))
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        return iter(())

    def stop(self) -> None:
        self._agent.close()


def _read(offset: dict[str, Any]) -> GateDecision:
    """The decision of an offset; one that cannot be read keeps everything."""
    try:
        return GateDecision.from_offset(offset)
    except ValueError:
        return GateDecision()
