from __future__ import annotations

import socket
import stat
import struct
from collections.abc import Iterator

import pytest

from headgate.spark.agent.protocol import (
    LARGEST_MESSAGE,
    AgentAddress,
    ProtocolError,
    read_message,
    write_message,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.settimeout(2.0)
    right.settimeout(2.0)
    with left, right:
        yield left, right


def test_a_message_arrives_as_it_was_sent(ends: tuple[socket.socket, socket.socket]) -> None:
    left, right = ends
    write_message(left, {"do": "decide", "offset": {"keep": {"ä": 1}}})
    assert read_message(right) == {"do": "decide", "offset": {"keep": {"ä": 1}}}
    left.close()
    assert read_message(right) is None


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (struct.pack(">I", LARGEST_MESSAGE + 1), "above"),
        (struct.pack(">I", 4) + b"nope", "not JSON"),
        (struct.pack(">I", 2) + b"[]", "object"),
        (struct.pack(">I", 10) + b"{}", "within a message"),
        (b"\0\0", "within a message"),
        (struct.pack(">I", 20000) + b"[" * 20000, "not JSON"),
    ],
)
def test_what_is_no_message_is_refused(
    ends: tuple[socket.socket, socket.socket], data: bytes, what: str
) -> None:
    left, right = ends
    left.sendall(data)
    left.close()
    with pytest.raises(ProtocolError, match=what):
        read_message(right)


def test_a_message_that_is_too_long_is_not_sent(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    with pytest.raises(ProtocolError, match="above"):
        write_message(ends[0], {"a": "x" * LARGEST_MESSAGE})


def test_the_address_file_is_for_the_owner_only() -> None:
    address = AgentAddress("127.0.0.1", 4711, AgentAddress.new_token())
    path = address.write()
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert AgentAddress.read(path) == address
    finally:
        path.unlink()
