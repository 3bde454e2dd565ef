"""Ledger and digests as a stream: files that grow, read line by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.spark.session import Headgate
from headgate.spark.sources import line_source
from headgate.spark.sources.line_source import LineReader
from tests.spark.streams import rows_of, wait_for, wait_for_batches


def reader(*directories: Path) -> LineReader:
    return LineReader({"directories": json.dumps([str(path) for path in directories])})


def test_lines_come_once_and_only_when_they_are_whole(tmp_path: Path) -> None:
    lines = reader(tmp_path, tmp_path / "not yet")
    assert list(lines.read({})[0]) == []
    file = tmp_path / "a.jsonl"
    file.write_text('{"a":1}\n{"a":2}\n{"a"')
    found, end = lines.read({})
    assert list(found) == [('{"a":1}',), ('{"a":2}',)]
    assert end == {str(file): 16}
    with file.open("a") as more:
        more.write(":3}\n")
    found, last = lines.read(end)
    assert list(found) == [('{"a":3}',)]
    assert list(lines.read(last)[0]) == []
    assert list(lines.readBetweenOffsets(end, last)) == [('{"a":3}',)]
    assert list(lines.readBetweenOffsets({}, last)) == [(f'{{"a":{n}}}',) for n in (1, 2, 3)]


def test_a_batch_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_source, "_MOST_BYTES", 20)
    (tmp_path / "a.jsonl").write_text("".join(f'{{"a":{n}}}\n' for n in range(5)))
    lines, seen, offset = reader(tmp_path), [], {}
    for _ in range(3):
        found, offset = lines.read(offset)
        seen.append([line for (line,) in found])
    assert seen == [['{"a":0}', '{"a":1}'], ['{"a":2}', '{"a":3}'], ['{"a":4}']]


def test_a_line_longer_than_a_batch_is_taken_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_source, "_MOST_BYTES", 4)
    (tmp_path / "a.jsonl").write_text('{"a":12345678}\n')
    assert [line for (line,) in reader(tmp_path).read({})[0]] == ['{"a":12345678}']


def test_the_ledger_is_a_stream_too(spark: SparkSession, hg: Headgate) -> None:
    stream = spark.readStream.format("headgate_replay").option("rate", "300").load()
    gated = hg.gate(stream, "followed", arrival="timestamp", identity=["id"])
    query = hg.start(gated.writeStream.format("noop"), name="followed", latency="60s")
    wait_for_batches(hg, "followed", 1)
    rows = hg.ledger(stream=True).where("query = 'followed'").select("batch", "offered")
    copy = rows.writeStream.format("memory").queryName("ledger_copy").start()
    wait_for_batches(hg, "followed", 2)
    query.stop()
    wanted = {(row["batch"], row["offered"]) for row in rows_of(hg, "followed")}

    def copied() -> bool:
        assert copy.exception() is None
        return {(row.batch, row.offered) for row in spark.table("ledger_copy").collect()} == wanted

    wait_for(copied, what="all rows of the ledger in the copy")
    copy.stop()
