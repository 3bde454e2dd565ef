"""What Spark's checkpoint directory says about a query before it starts.

Reads the newest file of the offset log and of the commit log with Hadoop's file system,
so any checkpoint that Spark can use can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.spark.agent.decision import GateDecision, decision_in_offsets, has_companion
from headgate.spark.plans.live_array import jvm_of

__all__ = ["CheckpointState", "HadoopFiles", "qualified", "read_checkpoint"]

_LARGEST_FILE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """last_batch: newest in the offset log, None for a new query. Its decision is None when the
    checkpoint was made without a gate. committed: the batches in the commit log, ascending.
    has_companion: False when none of its gates was an inline gate.
    query_id: Spark's id of the query, which stays the same over restarts; empty for a new one.
    """

    last_batch: int | None = None
    decision: GateDecision | None = None
    committed: tuple[int, ...] = ()
    has_companion: bool = False
    query_id: str = ""

    @property
    def is_new(self) -> bool:
        return self.last_batch is None

    @property
    def replays(self) -> bool:
        """True when the newest batch was begun and not finished: Spark will run it again."""
        return self.last_batch is not None and (
            not self.committed or self.committed[-1] < self.last_batch
        )


class HadoopFiles:
    """The files of one directory on any of Hadoop's file systems; see `mirror.RemoteFiles`."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self.address = address
        with _as_os_error():
            self._jvm, self._root, self._files = _opened(spark, address)
            hadoop = self._jvm.org.apache.hadoop.fs
            self._disk = hadoop.RawLocalFileSystem()  # the usual one writes checksums beside
            self._disk.initialize(self._jvm.java.net.URI("file:///"), self._files.getConf())

    def sizes(self) -> dict[str, tuple[int, float]]:
        with _as_os_error():
            if not self._files.exists(self._root):
                return {}
            return {
                str(one.getPath().getName()): (int(one.getLen()), one.getModificationTime() / 1e3)
                for one in self._files.listStatus(self._root)
                if one.isFile()
            }

    def fetch(self, name: str, to: Path) -> None:
        with _as_os_error():
            self._copy(self._files, self._path(name), self._disk, self._here(to))

    def send(self, path: Path, name: str) -> None:
        with _as_os_error():
            self._copy(self._disk, self._here(path), self._files, self._path(name))

    def remove(self, name: str) -> None:
        with _as_os_error():
            self._files.delete(self._path(name), False)

    def _copy(self, source: Any, path: Any, target: Any, to: Any) -> None:
        util = self._jvm.org.apache.hadoop.fs.FileUtil
        if not util.copy(source, path, target, to, False, True, self._files.getConf()):
            raise OSError(f"{path} could not be copied to {to}")

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def _here(self, path: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path.absolute().as_uri())


@contextmanager
def _as_os_error() -> Iterator[None]:
    """What goes wrong in the JVM is for us what a disk does that refuses."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # of py4j, or of PySpark, which turns some into its own
        raise OSError(f"{type(error).__name__}: {str(error)[:500]}") from error


def qualified(spark: SparkSession, location: str) -> str:
    """The whole address of a directory: with the file system that is the usual one here."""
    _, root, files = _opened(spark, location)
    return str(files.makeQualified(root).toString())


def read_checkpoint(spark: SparkSession, location: str) -> CheckpointState:
    """The state of a checkpoint directory; one that is not there is new."""
    jvm, root, files = _opened(spark, location)
    offsets = _numbers(jvm, files, jvm.org.apache.hadoop.fs.Path(root, "offsets"))
    if not offsets:
        return CheckpointState()
    committed = _numbers(jvm, files, jvm.org.apache.hadoop.fs.Path(root, "commits"))
    newest = jvm.org.apache.hadoop.fs.Path(root, f"offsets/{offsets[-1]}")
    lines = _text(jvm, files, newest).splitlines()
    decision = decision_in_offsets(lines)
    query_id = _query_id(_text(jvm, files, jvm.org.apache.hadoop.fs.Path(root, "metadata")))
    return CheckpointState(offsets[-1], decision, tuple(committed), has_companion(lines), query_id)


def _opened(spark: SparkSession, location: str) -> tuple[Any, Any, Any]:
    jvm = jvm_of(spark)
    session: Any = spark._jsparkSession
    root = jvm.org.apache.hadoop.fs.Path(location)
    return jvm, root, root.getFileSystem(session.sessionState().newHadoopConf())


def _query_id(metadata: str) -> str:
    try:
        return str(json.loads(metadata)["id"])
    except (ValueError, KeyError, TypeError):
        return ""


def _text(jvm: Any, files: Any, path: Any) -> str:
    """The content of a file; empty if it is not there."""
    if not files.exists(path):
        return ""
    if files.getFileStatus(path).getLen() > _LARGEST_FILE:
        raise ValueError(f"{path} is larger than any offset log should be")
    stream = files.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _numbers(jvm: Any, files: Any, directory: Any) -> list[int]:  # noqa: ARG001
    """The batch numbers that are names of files in a log's directory, ascending."""
    if not files.exists(directory):
        return []
    names = (status.getPath().getName() for status in files.listStatus(directory))
    return sorted(int(name) for name in names if name.isdigit())
