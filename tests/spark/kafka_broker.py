"""A real Kafka broker for tests: one node, KRaft, loopback, temporary directories.

The jars of the broker and of Spark's own Kafka connector are fetched by Ivy, which is part
of PySpark, from the repositories that Ivy asks by default, into `build/kafka` (`make clean`
removes it); only the first run downloads. `HEADGATE_IVY_SETTINGS` may name a settings file
of Ivy for machines that reach Maven Central by another way.

The broker dies with its test run, also when that is killed: a shell waits for the end of
its standard input and then kills it.
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import socket
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyspark
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "kafka"
BROKER_VERSION = "4.3.1"
# The connector of this Spark; where the repository does not have it (yet), an older one, which
# works on it. The second number is that of the connector's token provider.
CONNECTORS = (
    (pyspark.__version__, pyspark.__version__),
    ("4.2.0", "4.2.0"),
    ("4.2.0", "4.0.0"),
)
_SPARK = "org.apache.spark"
_IN_SPARK = ("org.apache.hadoop", "org.scala-lang", "org.slf4j", "org.xerial.snappy", "at.yawk.lz4")


class NoJarsError(Exception):
    """The jars are not there and cannot be fetched."""


@dataclass(frozen=True)
class KafkaJars:
    broker: list[Path]
    connector: list[Path]


def kafka_jars() -> KafkaJars:
    """The jars, fetched if need be, by one process at a time. NoJarsError says why not."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _kafka_jars()


def _kafka_jars() -> KafkaJars:
    broker = _fetched(
        f"broker-{BROKER_VERSION}",
        f'<dependency org="org.apache.kafka" name="kafka_2.13" rev="{BROKER_VERSION}" '
        'conf="jars->default"/>',
    )
    problems = []
    # What was fetched before is not looked for again.
    fetched_first = sorted(CONNECTORS, key=lambda versions: not _connector(*versions).is_dir())
    for version, token_provider in fetched_first:
        excluded = "".join(f'<exclude org="{org}"/>' for org in _IN_SPARK)
        description = (
            f'<dependency org="{_SPARK}" name="spark-sql-kafka-0-10_2.13" rev="{version}" '
            f'conf="jars->default">{excluded}</dependency>'
            f'<override org="{_SPARK}" module="spark-token-provider-kafka-0-10_2.13" '
            f'rev="{token_provider}"/>'
        )
        try:
            connector = _fetched(_connector(version, token_provider).name, description)
        except NoJarsError as error:
            problems.append(str(error))
            continue
        return KafkaJars(broker, connector)
    raise NoJarsError("; ".join(problems))


def _connector(version: str, token_provider: str) -> Path:
    return CACHE / f"connector-{version}-{token_provider}"


def _fetched(name: str, dependency: str) -> list[Path]:
    """Jars of a dependency and of what it needs, in a directory of the cache."""
    directory = CACHE / name
    if not directory.is_dir():
        fresh = CACHE / f"{name}.{os.getpid()}"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            _fetch(dependency, fresh)
            if not list(fresh.glob("*.jar")):
                raise NoJarsError(f"Ivy found no jars for {name}")
            fresh.rename(directory)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return sorted(directory.glob("*.jar"))


def _fetch(dependency: str, directory: Path) -> None:
    [ivy] = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    description = directory / "ivy.xml"
    description.write_text(
        '<ivy-module version="2.0"><info organisation="headgate" module="tests"/>'
        '<configurations><conf name="jars"/></configurations>'
        f"<dependencies>{dependency}</dependencies></ivy-module>"
    )
    command = [
        _java(),
        "-Dsun.net.client.defaultConnectTimeout=15000",
        "-Dsun.net.client.defaultReadTimeout=60000",
        *("-jar", str(ivy), "-warn", "-ivy", str(description), "-cache", str(CACHE / "ivy")),
        *("-retrieve", str(directory / "[artifact]-[revision].[ext]")),
    ]
    if "HEADGATE_IVY_SETTINGS" in os.environ:
        command += ["-settings", os.environ["HEADGATE_IVY_SETTINGS"]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    except subprocess.TimeoutExpired:
        raise NoJarsError("Maven Central did not answer in time") from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        missing = [line for line in lines if "not found" in line or "UnknownHost" in line]
        raise NoJarsError(f"cannot be fetched: {' '.join(missing or lines[-3:])[:500]}")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


class Broker:
    """One broker on one port; can be stopped and started again with its data."""

    def __init__(self, jars: KafkaJars, directory: Path) -> None:
        self._classpath = ":".join(map(str, jars.broker))
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        port, controller = _free_ports()
        self.servers = f"127.0.0.1:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "auto.create.topics.enable": "false",
            "log.segment.delete.delay.ms": 100,
        }
        self._settings = directory / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
        tool += ["--config", str(self._settings)]
        subprocess.run([*self._jvm(), *tool], check=True, capture_output=True, timeout=120)

    def start(self) -> None:
        """Start and wait until it answers."""
        command = [*self._jvm(), "kafka.Kafka", str(self._settings)]
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", '"$@" & cat; kill -9 $!; wait $!', "broker", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 90
        while True:
            try:
                self.admin().list_topics(timeout=2)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    self.stop()
                    log_text = (self._directory / "broker.log").read_text()[-3000:]
                    raise RuntimeError(f"the broker does not answer: {log_text}") from None

    def stop(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=30)
            self._process = None

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, topic: str, partitions: int = 3) -> None:
        admin = self.admin()  # held: without it the answer would never come
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def delete(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(30)

    def producer(self, **settings: object) -> Producer:
        own: dict[str, object] = {"bootstrap.servers": self.servers, "log_level": 0, "linger.ms": 5}
        own["enable.idempotence"] = True  # keeps the order
        return Producer({**own, **settings})

    def produce(self, topic: str, numbers: range, partitions: int = 3) -> None:
        """Message n has the value n, as text, and goes to partition n mod `partitions`."""
        producer = self.producer()
        for number in numbers:
            producer.produce(topic, b"%d" % number, b"k%d" % number, number % partitions)
            producer.poll(0)
        assert producer.flush(60) == 0

    def _jvm(self) -> list[str]:
        quick = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return [_java(), *quick, "-cp", self._classpath]


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as b:
        return one.getsockname()[1], b.getsockname()[1]


if __name__ == "__main__":
    kafka_jars()
