"""A Spark session on this machine, for the commands: is there Java and pyspark, and start it.

Spark's own messages go to a log file: the JVM is started with its stderr there.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import DemoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PLAIN_FILES", "check_machine", "fast_files", "java_major", "machine", "start_spark"]

CORES = 2
PLAIN_FILES: Mapping[str, str] = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings with which a checkpoint on a local disk starts no process.

Hadoop's usual local file system writes a checksum beside every file and starts a process (chmod)
for it. With short batches that is most of the time of a batch. Not for Spark's RocksDB state store:
it copies its files with the usual one, and fails.
"""
_GOOD_JAVA = (17, 21)
_INSTALL_JAVA = (
    "install openjdk-17-jre-headless (Debian, Ubuntu), java-17-openjdk-headless (Fedora) or "
    "openjdk@17 (Homebrew), or set JAVA_HOME"
)
_OTHERWISE = "`headgate demo --simulated` needs no Java: it computes on a model and runs nothing"


def fast_files(settings: Mapping[str, str]) -> dict[str, str]:
    """`settings` with `PLAIN_FILES` below them, unless the state store cannot do with these."""
    provider = settings.get("spark.sql.streaming.stateStore.providerClass", "")
    return dict(settings) if "RocksDB" in provider else {**PLAIN_FILES, **settings}


def check_machine(what: str = "the demo", otherwise: str = _OTHERWISE) -> None:
    """DemoError with the way out if Spark cannot run here."""
    end = f" {otherwise}." if otherwise else ""
    for package in ("pyspark", "pyarrow", "pandas"):
        if find_spec(package) is None:
            raise DemoError(
                f"{what} runs on Spark and {package} is missing: "
                f"pip install 'headgate[spark]'.{end}"
            )
    java = _java_command()
    if java is None:
        raise DemoError(
            f"{what} runs on Spark, and Java is missing. Spark needs Java 17 or 21: "
            f"{_INSTALL_JAVA}.{end}"
        )
    text = _java_says(java)
    if java_major(text) not in _GOOD_JAVA:
        found = text.strip().splitlines()[0] if text.strip() else "no answer"
        raise DemoError(
            f"{what} runs on Spark, which needs Java 17 or 21; {java} says: {found}. "
            f"To get one, {_INSTALL_JAVA}.{end}"
        )


def java_major(text: str) -> int | None:
    """The feature release in what `java -version` prints.

    >>> java_major('openjdk version "17.0.15" 2025-04-15'), java_major('java version "1.8.0_292"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return None if found is None else int(found[1])


def machine() -> dict[str, str]:
    """What a reader must know of the machine to judge the numbers."""
    from pyspark import __version__ as spark_version

    java = _java_command()
    return {
        "cores of the machine": str(os.cpu_count()),
        "cores that Spark uses": str(CORES),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "Spark": f"{spark_version}, local[{CORES}]",
        "Java": "?" if java is None else str(java_major(_java_says(java))),
        "Python": platform.python_version(),
    }


def start_spark(
    directory: Path,
    log: Path,
    master: str = f"local[{CORES}]",
    name: str = "headgate-demo",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session whose files are in `directory` and whose messages are in `log`.

    settings: of Spark, in front of those that are usual here.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**_usual(directory, master), **(settings or {})}.items():
        builder = builder.config(key, value)
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _stderr_to(log):
            return builder.getOrCreate()
    except Exception as error:
        raise DemoError(f"Spark did not start: {error}; its own messages are in {log}") from error


def _usual(directory: Path, master: str) -> dict[str, str]:
    """Nothing outside of `directory`, no page of Spark's, no more partitions than cores."""
    usual = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    cores = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    if cores is None:
        return usual
    count = os.cpu_count() or 1 if cores[1] == "*" else int(cores[1] or 1)
    return usual | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.shuffle.partitions": str(count),
    }


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """What is started meanwhile writes its errors to the file for as long as it lives."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _java_command() -> str | None:
    """The one that Spark will take: JAVA_HOME first, then the path."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")


def _java_says(java: str) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr + done.stdout


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "?"
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return found[1].strip() if found else platform.processor() or "?"
