"""How the gate's process talks to the agent: length-prefixed JSON over loopback.

A message is four bytes of length (big endian) and that many bytes of UTF-8 JSON, one
object. Requests carry a token. Nothing is ever unpickled or evaluated. No pyspark.

Guarantees: a message above `LARGEST_MESSAGE` is refused before it is read; every
operation has a time limit; a broken or foreign peer costs one connection.
Not guaranteed: secrecy on the wire. The socket is bound to loopback, and the token
stands in a file that only the owner can read.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "LARGEST_MESSAGE",
    "AgentAddress",
    "ProtocolError",
    "read_message",
    "write_message",
]

LARGEST_MESSAGE = 256 * 1024
_HEADER = struct.Struct(">I")


class ProtocolError(Exception):
    """The other side sent something that is not a message of this protocol."""


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """Where the agent listens, and the token that it wants to see."""

    host: str
    port: int
    token: str

    @staticmethod
    def new_token() -> str:
        return secrets.token_hex(32)

    def write(self) -> Path:
        """Put the address into a new file that only the owner can read."""
        handle, name = tempfile.mkstemp(prefix="headgate-agent-", suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"host": self.host, "port": self.port, "token": self.token}, file)
        return Path(name)

    @classmethod
    def read(cls, path: str | Path) -> AgentAddress:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        return cls(str(data["host"]), int(data["port"]), str(data["token"]))


def write_message(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > LARGEST_MESSAGE:
        raise ProtocolError(f"a message of {len(body)} bytes is above {LARGEST_MESSAGE}")
    connection.sendall(_HEADER.pack(len(body)) + body)


def read_message(connection: socket.socket) -> dict[str, Any] | None:
    """The next message; None when the other side has closed the connection."""
    header = _read_exactly(connection, _HEADER.size)
    if header is None:
        return None
    (length,) = _HEADER.unpack(header)
    if length > LARGEST_MESSAGE:
        raise ProtocolError(f"a message of {length} bytes is above {LARGEST_MESSAGE}")
    body = _read_exactly(connection, length)
    if body is None:
        raise ProtocolError("the connection was closed within a message")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError("a message must be an object")
    return message


def _read_exactly(connection: socket.socket, length: int) -> bytes | None:
    """`length` bytes; None when the connection was closed before the first of them."""
    parts: list[bytes] = []
    missing = length
    while missing > 0:
        part = connection.recv(missing)
        if not part:
            if missing == length:
                return None
            raise ProtocolError("the connection was closed within a message")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
