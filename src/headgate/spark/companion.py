"""A stream without rows whose offsets are the decisions of one query.

Spark asks every source for its latest offset at every trigger, in a Python process of
its own, before it writes the offset log. This source passes the question on to the
agent and returns the decision as its offset. It returns the offset that it was given
as long as nothing changes, because a new offset makes Spark run a batch.

A query whose class has no turn is held here, outside of all task slots. The agent answers
"wait" in steps shorter than the time limit, and this source asks again; the turn itself
is pushed, nothing polls. Spark asks the other sources afterwards, so a batch takes what
has arrived until its turn.

Failure: when the agent cannot be reached in time the offset says "keep everything",
and the agent is left alone for `_PAUSE_SECONDS`. Nothing raises: a query does not die
because of Headgate.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headgate.spark.decision import UNREACHABLE, GateDecision
from headgate.spark.protocol import AgentAddress, ProtocolError, read_message, write_message

__all__ = ["FORMAT", "CompanionSource"]

FORMAT = "headgate_companion"
_PAUSE_SECONDS = 5.0
_LONGEST_HOLD_SECONDS = 300.0
_log = logging.getLogger("headgate.spark")


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
        self._agent_file = options["agent"]
        self._query = options["query"]
        self._timeout_seconds = float(options.get("timeout", "2.0"))
        self._connection: socket.socket | None = None
        self._quiet_until = 0.0
        self._told_replay = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return GateDecision().offset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to prepare: the agent keeps everything for such a query."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        answer = self._ask("decide", start)
        if answer is None:
            return _opened(start)
        self._told_replay = True
        return answer

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """No rows. A batch before the first question is a replay: tell the agent its decision."""
        if not self._told_replay:
            self._told_replay = True
            self._ask("replay", end)
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        return iter(())

    def stop(self) -> None:
        self._close()

    def _ask(self, what: str, offset: dict[str, Any]) -> dict[str, Any] | None:
        """The agent's answer, or None."""
        now = time.monotonic()
        if now < self._quiet_until:
            return None
        give_up = now + _LONGEST_HOLD_SECONDS
        fresh = False
        while True:
            reused = self._connection is not None
            try:
                answer = self._exchange(what, offset, time.monotonic() + self._timeout_seconds)
                if answer is not None:
                    return answer
                if time.monotonic() > give_up:
                    _log.warning("headgate: no turn came in %g s", _LONGEST_HOLD_SECONDS)
                    return None
            except (OSError, ProtocolError, ValueError, KeyError) as error:
                self._close()
                if fresh or not reused or isinstance(error, TimeoutError):
                    _log.warning("headgate: %s (%s: %s)", UNREACHABLE, type(error).__name__, error)
                    break
                fresh = True  # an idle connection may have been closed: try once again
        self._quiet_until = time.monotonic() + _PAUSE_SECONDS
        return None

    def _exchange(
        self, what: str, offset: dict[str, Any], deadline: float
    ) -> dict[str, Any] | None:
        """One question; None when the answer is to wait and to ask again."""
        address = AgentAddress.read(self._agent_file)
        if self._connection is None:
            left = max(0.01, deadline - time.monotonic())
            self._connection = socket.create_connection((address.host, address.port), left)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.settimeout(max(0.01, deadline - time.monotonic()))
        write_message(
            self._connection,
            {
                "token": address.token,
                "do": what,
                "query": self._query,
                "offset": offset,
                "deadline": deadline,
            },
        )
        answer = read_message(self._connection)
        if answer is None:
            raise ProtocolError("the agent closed the connection")
        if answer.get("wait") is True:
            return None
        result: dict[str, Any] = answer["offset"]
        GateDecision.from_offset(result)
        return result

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _opened(start: dict[str, Any]) -> dict[str, Any]:
    """Keep everything. The same offset again if that is what it says already."""
    try:
        decision = GateDecision.from_offset(start)
    except ValueError:
        decision = GateDecision()
    return (decision.opened(UNREACHABLE) if decision.sheds else decision).offset()
