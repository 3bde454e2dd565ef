"""A standalone cluster of Spark for tests: a master and workers, processes of their own, loopback.

Started from the jars of the PySpark package. Each process dies with its test run, also when
that is killed: a shell waits for the end of its standard input and then ends it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.spark.java_options import QUICK

HOME = Path(pyspark.__file__).parent
_STARTED = "Successfully registered with master"


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """The address of a master whose workers, of one core and 1 GiB each, have come.

    To Spark each worker is a host of its own (127.0.0.1, 127.0.0.2 ...), as on a real cluster.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    started = []
    try:
        own = ["--host", "127.0.0.1", "--webui-port", "0", "--port", str(port)]
        started.append(_start(directory, "master.Master", *own))
        for number in range(workers):
            own = ["--host", f"127.0.0.{number + 1}", "--webui-port", "0"]
            size = ["--cores", "1", "--memory", "1g"]
            work = [*size, "--work-dir", str(directory / f"work{number}")]
            started.append(_start(directory, "worker.Worker", *own, *work, address))
        _wait(directory, workers)
        yield address
    finally:
        for process in reversed(started):
            assert process.stdin is not None
            process.stdin.close()
        for process in started:
            process.wait(timeout=30)


def _start(directory: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (directory / "cluster.log").open("ab") as log:
        return subprocess.Popen(
            ["sh", "-c", '"$@" & cat; kill $!; wait $!', "cluster", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
        )


def _wait(directory: Path, workers: int) -> None:
    deadline = time.monotonic() + 90
    while True:
        text = (directory / "cluster.log").read_text(errors="replace")
        if text.count(_STARTED) >= workers:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"the cluster does not come up: {text[-3000:]}")
        time.sleep(0.1)
