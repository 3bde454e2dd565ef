"""`headgate_lines`: ledger or digest files as a stream, line by line as they are written.

Column: value (a line of JSON). Option `directories`: JSON list of directories with files
`*.jsonl`, also such that do not exist yet.

Spark's own file source reads a file once and misses what is appended; these files grow by
a line with every batch. They are read in the driver, where they are written.

Guarantees: each whole line comes once, in the order of its file; the same lines again when
a batch runs again, because files only grow. A line that is still being written comes later.
At most `_MOST_BYTES` in one batch. The offset is the position in each file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

__all__ = ["FORMAT", "LineReader", "LineSource", "stream_lines"]

FORMAT = "headgate_lines"
_MOST_BYTES = 4 * 1024 * 1024


def stream_lines(spark: SparkSession, directories: list[Path], schema: str) -> DataFrame:
    """The lines of all files in these directories, now and to come, as columns of `schema`."""
    paths = json.dumps([str(path.absolute()) for path in directories])
    lines = spark.readStream.format(FORMAT).option("directories", paths).load()
    return lines.select(F.from_json("value", schema).alias("line")).select("line.*")


class LineSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "value string"

    def simpleStreamReader(self, schema: StructType) -> LineReader:  # noqa: ARG002, N802
        return LineReader(self.options)


class LineReader(SimpleDataSourceStreamReader):
    """Offsets are {path of a file: bytes that were read of it}."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._directories = [Path(path) for path in json.loads(options["directories"])]

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def read(self, start: Mapping[str, int]) -> tuple[Iterator[tuple[str]], dict[str, int]]:
        end, room, found = dict(start), _MOST_BYTES, []
        for path in self._files():
            if room <= 0:
                break
            lines, size = _whole_lines(path, start.get(str(path), 0), room)
            if size:
                end[str(path)] = start.get(str(path), 0) + size
                room -= size
                found += lines
        return iter([(line,) for line in found]), end

    def readBetweenOffsets(  # noqa: N802
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Iterator[tuple[str]]:
        for path in sorted(end, key=_age):
            begin = start.get(path, 0)
            if end[path] > begin:
                lines, _ = _whole_lines(Path(path), begin, end[path] - begin)
                yield from ((line,) for line in lines)

    def _files(self) -> list[Path]:
        found = [path for place in self._directories for path in place.glob("*.jsonl")]
        return sorted(found, key=_age)


def _age(path: Path | str) -> tuple[float, str]:
    """Oldest first; a file that is gone comes first."""
    try:
        return Path(path).stat().st_mtime, str(path)
    except OSError:
        return 0.0, str(path)


def _whole_lines(path: Path, begin: int, most: int) -> tuple[list[str], int]:
    """Lines from a position on and their size; a single longer line is taken whole."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read(most)
            while content and b"\n" not in content:
                more = file.read(most)
                if not more:
                    return [], 0
                content += more
    except OSError:
        return [], 0
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.decode("utf-8", errors="replace").splitlines()
    return [line for line in lines if line.strip()], len(whole)
