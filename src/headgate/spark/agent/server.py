"""The agent's ear: a socket, on loopback unless told otherwise, one thread for each asker.

Guarantees: only messages with the token are answered; who has not shown it within
`_STRANGER_SECONDS` is gone; at most `_MOST_CONNECTIONS` are open, and at most
`_MOST_REMOTE` of them from other machines (further ones are closed at once), so strangers
cannot crowd out the driver's own queries; when the server ends, for whatever reason, every
gate is opened.
Not guaranteed: a decision for an asker on another machine whose question was under way for
more than half of its time limit. Its clock is not ours, so it may have given up before.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

from headgate.spark.agent.agent import Agent, TooLateError
from headgate.spark.agent.listening import HERE, Listening
from headgate.spark.agent.protocol import AgentAddress, ProtocolError, read_message, write_message
from headgate.spark.agent.query_run import InputState

__all__ = ["AgentServer"]

_MOST_CONNECTIONS = 256
_MOST_REMOTE = 64
_IDLE_SECONDS = 120.0
_STRANGER_SECONDS = 5.0
_LONGEST_TEXT = 2000


class AgentServer:
    """Serves one agent until `close`."""

    def __init__(self, agent: Agent, listening: Listening = HERE) -> None:
        self._agent = agent
        self._context = listening.context()
        self._socket = listening.open()
        self._address = AgentAddress(
            listening.asked_host,
            self._socket.getsockname()[1],
            listening.token or AgentAddress.new_token(),
            listening.certificate,
            listening.authority,
            listening.name or listening.host,
        )
        self.address_file: Path = self._address.write()
        if not listening.is_here and self._context is None:
            text = f"listens at {listening.host} without TLS: its token can be read on the wire"
            agent.alarms.raise_alarm("agent", "listen", text)
        self._connections: dict[socket.socket, bool] = {}  # True for one from another machine
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
                connection, peer = self._socket.accept()
                remote = not _is_here(str(peer[0]))
                with self._lock:
                    full = len(self._connections) >= _MOST_CONNECTIONS
                    full |= remote and sum(self._connections.values()) >= _MOST_REMOTE
                    if not full:
                        self._connections[connection] = remote
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
            open_ones, self._connections = self._connections, {}
        for connection in (self._socket, *open_ones):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _serve(self, connection: socket.socket) -> None:
        spoken = connection
        try:
            deadline = time.monotonic() + _STRANGER_SECONDS
            connection.settimeout(_STRANGER_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                spoken = tls = self._under_tls(connection, self._context)
                tls.do_handshake()
            while (message := read_message(spoken, deadline)) is not None:
                self._answer(spoken, message)
                deadline = time.monotonic() + _IDLE_SECONDS
        except ConnectionError:
            pass  # the asker has gone: Spark ends the process of a query that is stopped
        except (OSError, ProtocolError, TooLateError, ValueError, KeyError, TypeError) as error:
            if not self._closed and not isinstance(error, TimeoutError):
                self._agent.alarms.raise_alarm("agent", "connection", f"closed: {error!r}")
        finally:
            with self._lock:
                self._connections.pop(connection, None)
                self._connections.pop(spoken, None)
            spoken.close()
            connection.close()

    def _under_tls(self, connection: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        """The TLS socket, which takes the place of the plain one; before the handshake."""
        spoken = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            if connection in self._connections:  # else the server has been closed
                self._connections[spoken] = self._connections.pop(connection)
        return spoken

    def _answer(self, connection: socket.socket, message: dict[str, Any]) -> None:
        token = str(message["token"]).encode()
        if not hmac.compare_digest(token, self._address.token.encode()):
            raise ProtocolError("a wrong token")
        key = str(message["query"])
        if message["do"] == "alarm":
            self._agent.source_alarm(key, str(message["text"])[:_LONGEST_TEXT])
            write_message(connection, {})
            return
        offset = message["offset"]
        if message["do"] == "replay":
            write_message(connection, {"offset": self._agent.replay(key, offset)})
            return
        if message["do"] != "decide":
            raise ProtocolError(f"cannot {message['do']!r}")
        if "within" in message:  # from another clock
            deadline = time.monotonic() + float(message["within"]) / 2.0
        else:
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


def _is_here(host: str) -> bool:
    return host.startswith("127.") or host in ("::1", "::ffff:127.0.0.1")
