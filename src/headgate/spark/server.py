"""The agent's ear: a loopback socket, one thread for each query that asks.

Guarantees: only messages with the token are answered; at most `_MOST_CONNECTIONS` are
open (further ones are closed at once); when the server ends, for whatever reason, every
gate is opened. Off the machine it is not reachable.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import threading
from pathlib import Path
from typing import Any

from headgate.spark.agent import Agent, TooLateError
from headgate.spark.protocol import AgentAddress, ProtocolError, read_message, write_message
from headgate.spark.query_run import InputState

__all__ = ["AgentServer"]

_MOST_CONNECTIONS = 256
_IDLE_SECONDS = 120.0


class AgentServer:
    """Serves one agent until `close`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._address = AgentAddress("127.0.0.1", self._socket.getsockname()[1], _token())
        self.address_file: Path = self._address.write()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="headgate-agent", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; every gate keeps everything from now on."""
        self._closed = True
        self._shut()
        self._thread.join(timeout=5.0)
        self.address_file.unlink(missing_ok=True)

    def _accept(self) -> None:
        why = "the agent was closed"
        try:
            while not self._closed:
                connection, _ = self._socket.accept()
                with self._lock:
                    full = len(self._connections) >= _MOST_CONNECTIONS
                    if not full:
                        self._connections.add(connection)
                if full:
                    connection.close()
                    self._agent.alarms.raise_alarm("agent", "connections", "too many; one closed")
                    continue
                threading.Thread(
                    target=self._serve, args=(connection,), name="headgate-ask", daemon=True
                ).start()
        except OSError as error:
            if not self._closed:
                why = f"the agent's socket failed ({error})"
        finally:
            self._shut()
            self._agent.open_all(why)

    def _shut(self) -> None:
        with self._lock:
            open_ones, self._connections = self._connections, set()
        for connection in (self._socket, *open_ones):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_IDLE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (message := read_message(connection)) is not None:
                self._answer(connection, message)
        except (OSError, ProtocolError, TooLateError, ValueError, KeyError, TypeError) as error:
            if not self._closed and not isinstance(error, TimeoutError):
                self._agent.alarms.raise_alarm("agent", "connection", f"closed: {error!r}")
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket, message: dict[str, Any]) -> None:
        if not hmac.compare_digest(str(message["token"]), self._address.token):
            raise ProtocolError("a wrong token")
        key = str(message["query"])
        if message["do"] == "alarm":
            self._agent.source_alarm(key, str(message["text"]))
            write_message(connection, {})
            return
        offset = message["offset"]
        if message["do"] == "replay":
            write_message(connection, {"offset": self._agent.replay(key, offset)})
            return
        if message["do"] != "decide":
            raise ProtocolError(f"cannot {message['do']!r}")
        deadline = float(message["deadline"])
        answer = self._agent.decide(key, offset, deadline, InputState.read(message))
        if answer is None:  # not its turn yet: the asker asks again, its place is kept
            write_message(connection, {"wait": True})
            return
        try:
            write_message(connection, {"offset": answer})
        except OSError:
            self._agent.withdraw(key)
            raise


def _token() -> str:
    return AgentAddress.new_token()
