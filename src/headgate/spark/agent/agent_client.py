"""Asks the agent from another process: used by companion and source gate.

These run on the driver's machine; tasks on executors never ask.

One connection is kept open. Nothing raises: when the agent cannot be reached in time the
answer is None, and the agent is left alone for `_PAUSE_SECONDS`. No pyspark.

A query whose class has no turn is held here. The agent answers "wait" in steps shorter
than the time limit, and the client asks again; the turn itself is pushed, nothing polls.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping
from typing import Any

from headgate.spark.agent.decision import UNREACHABLE, GateDecision
from headgate.spark.agent.protocol import AgentAddress, ProtocolError, read_message, write_message

__all__ = ["AgentClient"]

_PAUSE_SECONDS = 5.0
_LONGEST_HOLD_SECONDS = 300.0
_log = logging.getLogger("headgate.spark")


class AgentClient:
    """`options`: `agent` (file with the agent's address), `query` (key), `timeout` (seconds)."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._agent_file = options["agent"]
        self._query = options["query"]
        self._timeout_seconds = float(options.get("timeout", "2.0"))
        self._connection: socket.socket | None = None
        self._quiet_until = 0.0

    def decision(self, what: str, start: GateDecision, **details: Any) -> GateDecision | None:
        """The agent's decision after `start`, or None. `what` is "decide" or "replay"."""
        answer = self._ask(what, {"offset": start.offset(), **details})
        try:
            return None if answer is None else GateDecision.from_offset(answer["offset"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("headgate: the agent's answer cannot be read: %s", error)
            return None

    def tell(self, text: str) -> None:
        """Raise an alarm for this query; lost when the agent cannot be reached."""
        self._ask("alarm", {"text": text[:2000]})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, what: str, message: dict[str, Any]) -> dict[str, Any] | None:
        now = time.monotonic()
        if now < self._quiet_until:
            return None
        give_up = now + _LONGEST_HOLD_SECONDS
        fresh = False
        while True:
            reused = self._connection is not None
            try:
                deadline = time.monotonic() + self._timeout_seconds
                answer = self._exchange({"do": what, **message}, deadline)
                if answer.get("wait") is not True:
                    return answer
                if time.monotonic() > give_up:
                    _log.warning("headgate: no turn came in %g s", _LONGEST_HOLD_SECONDS)
                    return None
            except (OSError, ProtocolError, ValueError, KeyError) as error:
                self.close()
                if fresh or not reused or isinstance(error, TimeoutError):
                    _log.warning("headgate: %s (%s: %s)", UNREACHABLE, type(error).__name__, error)
                    break
                fresh = True  # an idle connection may have been closed: try once again
        self._quiet_until = time.monotonic() + _PAUSE_SECONDS
        return None

    def _exchange(self, message: dict[str, Any], deadline: float) -> dict[str, Any]:
        address = AgentAddress.read(self._agent_file)
        if self._connection is None:
            left = max(0.01, deadline - time.monotonic())
            self._connection = address.connect(left)
        left = max(0.01, deadline - time.monotonic())
        self._connection.settimeout(left)
        own = {"token": address.token, "query": self._query}
        until = {"deadline": deadline} if address.is_here else {"within": left}
        write_message(self._connection, own | until | message)
        answer = read_message(self._connection)
        if answer is None:
            raise ProtocolError("the agent closed the connection")
        return answer
