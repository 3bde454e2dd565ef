"""An agent that can be reached from other machines: tokens, TLS, and strangers."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.errors import UsageError
from headgate.spark.agent import server
from headgate.spark.agent.agent_client import AgentClient
from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.listening import Listening, read_listening
from headgate.spark.agent.protocol import (
    LARGEST_MESSAGE,
    AgentAddress,
    ProtocolError,
    read_message,
    write_message,
)
from headgate.spark.agent.server import AgentServer
from headgate.spark.session import attach
from tests.spark.streams import rows_of, wait_for
from tests.spark_parts.test_agent import FRESH, Query

TOKEN = "a token of some length"


def make_certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A new key and a certificate for `name`, signed by itself."""
    if shutil.which("openssl") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("openssl is not installed")
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    return certificate, key


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    directory = tmp_path_factory.mktemp("certificates")
    return {name: make_certificate(directory, name) for name in ("driver.example", "other.example")}


@pytest.fixture
def query() -> Query:
    return Query()


@pytest.fixture
def secured(
    query: Query, certificates: dict[str, tuple[Path, Path]]
) -> Iterator[tuple[Query, AgentServer]]:
    certificate, key = certificates["driver.example"]
    options = {"address": "0.0.0.0:0", "token": TOKEN, "certificate": certificate, "key": key}
    agent_server = AgentServer(query.agent, read_listening(options))
    yield query, agent_server
    agent_server.close()


def ask(address: AgentAddress, tmp_path: Path) -> GateDecision | None:
    file = tmp_path / "address.json"
    shutil.copy(address.write(), file)
    options = {"agent": str(file), "query": "key", "timeout": "5"}
    with closing(AgentClient(options)) as client:
        return client.decision("decide", GateDecision())


def text_of_alarms(query: Query) -> str:
    return "\n".join(alarm.text for alarm in query.alarms.all())


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("0.0.0.0:7443", "token"),
        ({"address": "[::]:7443"}, "token"),
        ({"address": "0.0.0.0:7443", "token": "short"}, "at least 16"),
        ({"address": "0.0.0.0:7443", "token": "ä" * 20}, "ASCII"),
        ("7443", "host:port"),
        ("127.0.0.1:70000", "host:port"),
        ({"address": "127.0.0.1:0", "certificate": "/no/such.pem"}, "no file"),
        ({"address": "127.0.0.1:0", "port": "1"}, "no option 'port'"),
        ({"address": "127.0.0.1:0", "key": __file__}, "only with a certificate"),
        ({"address": "127.0.0.1:0", "certificate": __file__}, "cannot be used"),
        ("no-such-host.invalid:1", "not known"),
    ],
)
def test_mistakes_are_said(given: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        read_listening(given)


def test_only_this_machine_by_default(query: Query) -> None:
    assert read_listening(None).is_here
    assert read_listening("localhost:0").is_here
    assert not Listening("0.0.0.0").is_here
    with closing(AgentServer(query.agent)) as here:
        assert here._socket.getsockname()[0] == "127.0.0.1"
    assert TOKEN not in repr(Listening(token=TOKEN))
    assert TOKEN not in repr(AgentAddress("h", 1, TOKEN))


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen at 127.0.0.1:{port}"):
            Listening(port=port).open()


def test_off_the_machine_without_tls_raises_an_alarm(query: Query, tmp_path: Path) -> None:
    options = {"address": "0.0.0.0:0", "token": TOKEN}
    with closing(AgentServer(query.agent, read_listening(options))) as open_server:
        assert "without TLS" in text_of_alarms(query)
        assert ask(AgentAddress.read(open_server.address_file), tmp_path) is not None


def test_a_decision_comes_over_tls(secured: tuple[Query, AgentServer], tmp_path: Path) -> None:
    query, agent_server = secured
    address = AgentAddress.read(agent_server.address_file)
    assert address.host == "127.0.0.1"
    assert ask(address, tmp_path) == GateDecision()
    query.agent.set_limit(query.run, "orders", 0.25)
    decision = ask(address, tmp_path)
    assert decision is not None
    assert decision.threshold("orders") == 250_000
    assert "without TLS" not in text_of_alarms(query)


def test_an_asker_trusts_one_certificate_or_an_authority_with_the_right_name(
    secured: tuple[Query, AgentServer],
    certificates: dict[str, tuple[Path, Path]],
    tmp_path: Path,
) -> None:
    address = AgentAddress.read(secured[1].address_file)
    own, other = (str(certificates[name][0]) for name in ("driver.example", "other.example"))
    assert ask(replace(address, authority=own, name="driver.example"), tmp_path) is not None
    assert ask(replace(address, authority=own, name="evil.example"), tmp_path) is None
    assert ask(replace(address, authority=other, name="driver.example"), tmp_path) is None
    assert ask(replace(address, certificate=other), tmp_path) is None


def test_a_wrong_token_and_a_plain_asker_are_refused(
    secured: tuple[Query, AgentServer], tmp_path: Path
) -> None:
    query, agent_server = secured
    address = AgentAddress.read(agent_server.address_file)
    assert ask(replace(address, token="another token"), tmp_path) is None
    assert "wrong token" in text_of_alarms(query)
    assert ask(replace(address, certificate=""), tmp_path) is None
    assert "SSL" in text_of_alarms(query)
    assert ask(address, tmp_path) is not None


def test_an_asker_with_tls_is_refused_by_a_plain_agent(
    query: Query, certificates: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    with closing(AgentServer(query.agent)) as plain:
        address = AgentAddress.read(plain.address_file)
        certificate = str(certificates["driver.example"][0])
        assert ask(replace(address, certificate=certificate), tmp_path) is None
        assert ask(address, tmp_path) is not None


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", LARGEST_MESSAGE + 1) + b"x" * 100,
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", 5) + b"\xff\xfe\x00\x01\x02",
        struct.pack(">I", 100_000) + b"[" * 100_000,
        struct.pack(">I", 2) + b"{}",
        struct.pack(">I", 14) + b'{"token":null}',
        b"\x80\x04\x95pickle",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_garbled_message_costs_its_sender_the_connection_and_nothing_else(
    secured: tuple[Query, AgentServer], tmp_path: Path, data: bytes
) -> None:
    _, agent_server = secured
    address = AgentAddress.read(agent_server.address_file)
    with closing(address.connect(5.0)) as connection:
        connection.sendall(data)
        connection.settimeout(10.0)
        with suppress(ConnectionError, ssl.SSLError):
            assert connection.recv(10) == b""
    assert ask(address, tmp_path) is not None


def test_a_stranger_who_says_nothing_is_gone_after_a_while(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_STRANGER_SECONDS", 0.3)
    with closing(AgentServer(query.agent)) as plain:
        address = AgentAddress.read(plain.address_file)
        with closing(address.connect(5.0)) as silent, closing(address.connect(5.0)) as dripping:
            dripping.sendall(b"\0")
            for one in (silent, dripping):
                one.settimeout(10.0)
                assert one.recv(1) == b""


def test_an_asker_that_is_killed_raises_no_alarm(query: Query) -> None:
    """Spark ends the process of a query that is stopped; its connection is reset."""
    with closing(AgentServer(query.agent)) as plain:
        connection = AgentAddress.read(plain.address_file).connect(5.0)
        wait_for(lambda: bool(plain._connections))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        wait_for(lambda: not plain._connections)
        assert query.agent.alarms.all() == []


def test_strangers_cannot_crowd_out_this_machine(
    query: Query, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(server, "_MOST_REMOTE", 2)
    monkeypatch.setattr(server, "_is_here", lambda _: False)
    with closing(AgentServer(query.agent)) as plain:
        address = AgentAddress.read(plain.address_file)
        strangers = [address.connect(5.0) for _ in range(3)]
        try:
            strangers[2].settimeout(10.0)
            assert strangers[2].recv(1) == b""
            monkeypatch.setattr(server, "_is_here", lambda _: True)
            assert ask(address, tmp_path) is not None
        finally:
            for stranger in strangers:
                stranger.close()


def test_an_asker_with_another_clock_says_how_long_it_waits(query: Query) -> None:
    with closing(AgentServer(query.agent)) as plain:
        address = AgentAddress.read(plain.address_file)
        message = {"token": address.token, "query": "key", "do": "decide", "offset": FRESH}
        with closing(address.connect(5.0)) as connection:
            write_message(connection, message | {"within": 5.0})
            assert read_message(connection) == {"offset": FRESH}
            write_message(connection, message | {"within": 0.1})  # too short for any answer
            with pytest.raises((ProtocolError, OSError, AssertionError)):
                assert read_message(connection, time.monotonic() + 5.0) is not None


def test_an_address_file_of_an_earlier_headgate_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"host": "127.0.0.1", "port": 5, "token": "t"}))
    assert AgentAddress.read(file) == AgentAddress("127.0.0.1", 5, "t")


def test_a_query_on_spark_asks_over_tls_and_its_plan_has_no_token(
    spark: SparkSession, certificates: dict[str, tuple[Path, Path]]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        threads = threading.active_count()
        with pytest.raises(UsageError, match="cannot listen"):
            attach(spark, listen=f"127.0.0.1:{taken.getsockname()[1]}")
        assert threading.active_count() == threads
    certificate, key = certificates["driver.example"]
    listen = {"address": "0.0.0.0:0", "token": TOKEN, "certificate": certificate, "key": key}
    with attach(spark, timeout="20s", listen=listen) as hg:
        stream = spark.readStream.format("headgate_replay").option("rate", "500").load()
        gated = hg.gate(stream, "orders", arrival="timestamp", identity=["id"])
        query = hg.start(gated.writeStream.format("noop"), name="over tls")
        hg.limit("over tls", "orders", 0.5)
        wait_for(lambda: any(row["dropped"] for row in rows_of(hg, "over tls")))
        execution: Any = query._jsq.streamingQuery().lastExecution()
        shown = str(execution.toString()) + json.dumps(query.lastProgress, default=str)
        query.stop()
        assert [a for a in hg.alarms() if a.kind == "agent" and a.subject != "over tls"] == []
    assert TOKEN not in shown
    assert TOKEN not in str(spark.sparkContext.getConf().getAll())
