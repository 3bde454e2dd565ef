"""How the gate's process talks to the agent: length-prefixed JSON over a socket.

A message is four bytes of length (big endian) and that many bytes of UTF-8 JSON, one
object. Requests carry a token. Nothing is ever unpickled or evaluated. No pyspark.

Guarantees: a message above `LARGEST_MESSAGE` is refused before it is read; every
operation has a time limit; a broken or foreign peer costs one connection.
Not guaranteed: secrecy on the wire without a certificate (see `listening`). The token
stands in a file that only the owner can read; Spark's plans and options name the file.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import tempfile
import time
from dataclasses import asdict, dataclass, field
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
    """Where the agent listens, and the token that it wants to see.

    certificate: PEM file; TLS is spoken if it is given. authority: PEM file of whom to trust
    instead of that one certificate, which then has to carry `name`.
    """

    host: str
    port: int
    token: str = field(repr=False)
    certificate: str = ""
    authority: str = ""
    name: str = ""

    @staticmethod
    def new_token() -> str:
        return secrets.token_hex(32)

    def write(self) -> Path:
        """Put the address into a new file that only the owner can read."""
        handle, name = tempfile.mkstemp(prefix="headgate-agent-", suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        return Path(name)

    @classmethod
    def read(cls, path: str | Path) -> AgentAddress:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        others = {name: str(data.get(name, "")) for name in ("certificate", "authority", "name")}
        return cls(str(data["host"]), int(data["port"]), str(data["token"]), **others)

    @property
    def is_here(self) -> bool:
        """True for loopback: then both sides have the same monotonic clock."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"

    def connect(self, seconds: float) -> socket.socket:
        """A connection, under TLS if there is a certificate. OSError when that fails."""
        connection = socket.create_connection((self.host, self.port), seconds)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._under_tls(connection) if self.certificate else connection
        except BaseException:
            connection.close()
            raise

    def _under_tls(self, connection: socket.socket) -> socket.socket:
        import ssl  # the small processes that ask on loopback do not need it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.authority:
            context.load_verify_locations(self.authority)
            return context.wrap_socket(connection, server_hostname=self.name or self.host)
        context.check_hostname = False  # this very certificate is trusted, whatever its names
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(self.certificate)
        wrapped = context.wrap_socket(connection)
        if wrapped.getpeercert(binary_form=True) != _first_certificate(self.certificate):
            wrapped.close()
            raise ProtocolError("the agent showed another certificate than the one expected")
        return wrapped


def write_message(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > LARGEST_MESSAGE:
        raise ProtocolError(f"a message of {len(body)} bytes is above {LARGEST_MESSAGE}")
    connection.sendall(_HEADER.pack(len(body)) + body)


def read_message(connection: socket.socket, deadline: float | None = None) -> dict[str, Any] | None:
    """The next message; None when the other side has closed the connection.

    deadline: on the monotonic clock; TimeoutError if the message is not whole by then. Without
    it the time limit of the connection holds for each part.
    """
    header = _read_exactly(connection, _HEADER.size, deadline)
    if header is None:
        return None
    (length,) = _HEADER.unpack(header)
    if length > LARGEST_MESSAGE:
        raise ProtocolError(f"a message of {length} bytes is above {LARGEST_MESSAGE}")
    body = _read_exactly(connection, length, deadline)
    if body is None:
        raise ProtocolError("the connection was closed within a message")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError("a message must be an object")
    return message


def _first_certificate(path: str) -> bytes:
    import ssl

    text = Path(path).read_text(encoding="ascii", errors="replace")
    begin, end = text.index(ssl.PEM_HEADER), text.index(ssl.PEM_FOOTER)
    return ssl.PEM_cert_to_DER_cert(text[begin : end + len(ssl.PEM_FOOTER)])


def _read_exactly(connection: socket.socket, length: int, deadline: float | None) -> bytes | None:
    """`length` bytes; None when the connection was closed before the first of them."""
    parts: list[bytes] = []
    missing = length
    while missing > 0:
        if deadline is not None:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(missing)
        if not part:
            if missing == length:
                return None
            raise ProtocolError("the connection was closed within a message")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
