"""Dead letters without Spark: settings, thresholds, the task and its sinks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from headgate.errors import UsageError
from headgate.spark.agent.decision import GateDecision
from headgate.spark.letters import letter_sinks
from headgate.spark.letters.letter_settings import (
    LetterSettings,
    letter_threshold,
    read_settings,
    text_of,
)
from headgate.spark.letters.letter_sinks import BatchFiles, FileSink, KafkaSink, Place
from headgate.spark.letters.letter_task import LetterTask, letter_function

PLACE = Place("q-1", "orders", 7, 3)


def letters(*ids: int | None) -> pa.Array:
    rows = [None if one is None else {"id": one} for one in ids]
    return pa.array(rows, pa.struct([("id", pa.int64())]))


def notes(task: LetterTask, *batches: pa.Array) -> list[Any]:
    outputs = [batch.to_pylist() for batch in task.run(iter(batches), lambda: PLACE)]
    assert sum(map(len, outputs)) == sum(map(len, batches))
    return [note for output in outputs for note in output if note is not None]


def ids_in(directory: Path) -> dict[str, list[int]]:
    return {
        path.name: pq.read_table(path).column("id").to_pylist()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("", "needs a path"),
        ({"path": "/x", "topic": "y"}, "needs a path"),
        ({"topic": "y"}, "bootstrap.servers"),
        ({"path": "/x", "kafka.acks": "1"}, "belong to a topic"),
        ({"path": "/x", "shares": 1}, "no option 'shares'"),
        ({"path": "/x", "share": 0}, "above 0"),
        ({"path": "/x", "share": "much"}, "a number"),
        ({"path": "/x", "most_rows": 0}, "at least 1"),
        ({"path": "/x", "timeout": "soon"}, "timeout"),
    ],
)
def test_mistakes_in_the_settings_are_said(given: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        read_settings("orders", given)


def test_settings_of_a_path_and_of_a_topic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_settings("orders", Path("here")).path == str(tmp_path / "here")
    assert read_settings("orders", "file:///a%20b").path == "/a b"
    assert read_settings("orders", "s3://bucket/x").path == "s3://bucket/x"
    options = {"topic": "late", "kafka.bootstrap.servers": "b:1", "kafka.sasl.password": "secret"}
    settings = read_settings("orders", options | {"share": 0.5, "timeout": "1s"})
    assert (settings.topic, settings.share, settings.timeout_seconds) == ("late", 0.5, 1.0)
    assert settings.producer == {"bootstrap.servers": "b:1", "sasl.password": "secret"}
    assert "secret" not in repr(settings)


def test_letters_are_never_more_than_their_share_of_the_batch() -> None:
    for keep in (0, 100_000, 500_000, 899_999, 900_000, 999_999):
        decision = GateDecision(keep={"orders": keep})
        letters_of_dropped = letter_threshold(0.1, "orders", decision, True)
        written = letters_of_dropped * (1_000_000 - keep) / 1e12
        assert written <= 0.1 + 1e-6
        assert written >= min(0.1, (1_000_000 - keep) / 1e6) - 1e-6
        assert letter_threshold(0.1, "orders", decision, False) == 100_000
    assert letter_threshold(0.1, "orders", GateDecision(older_than={"orders": 5}), True) == 100_000
    assert letter_threshold(0.1, "orders", GateDecision(levels={"orders": 1}), True) == 100_000
    assert letter_threshold(0.1, "orders", GateDecision(keep={"other": 1}), True) == 0


def test_a_partition_becomes_one_file_however_often_it_is_written(tmp_path: Path) -> None:
    task = LetterTask("orders", LetterSettings(str(tmp_path)))
    for _ in range(2):
        found = notes(task, letters(1, None, 2), letters(None), letters(), letters(3, None))
        assert found == [{"written": 3, "left": 0, "error": None}]
    assert ids_in(tmp_path) == {"000000000007-00003.parquet": [1, 2, 3]}
    [path] = tmp_path.rglob("*.parquet")
    table = pq.read_table(path)
    assert table.column("headgate_batch").to_pylist() == [7, 7, 7]
    assert table.column("headgate_gate").to_pylist() == ["orders"] * 3


def test_a_partition_without_letters_writes_nothing(tmp_path: Path) -> None:
    task = LetterTask("orders", LetterSettings(str(tmp_path)))
    assert notes(task, letters(None, None), letters(None)) == []
    assert notes(task) == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_beyond_the_limits_is_counted_as_left(tmp_path: Path) -> None:
    task = LetterTask("orders", LetterSettings(str(tmp_path), most_rows=3))
    assert notes(task, letters(1, 2), letters(3, 4), letters(5)) == [
        {"written": 3, "left": 2, "error": None}
    ]
    assert list(ids_in(tmp_path).values()) == [[1, 2, 3]]
    small = LetterTask("orders", LetterSettings(str(tmp_path / "small"), most_bytes=100))
    [note] = notes(small, letters(*range(1000)), letters(*range(1000)))
    assert 0 < note["written"] <= 12
    assert note["written"] + note["left"] == 2000


def test_a_sink_that_fails_is_noted_and_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    task = LetterTask("orders", LetterSettings(str(tmp_path / "file")))
    [note] = notes(task, letters(1, None, 2))
    assert (note["written"], note["left"]) == (0, 2)
    assert "Error" in note["error"]


def test_an_executor_without_headgate_leaves_the_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(LetterSettings(str(tmp_path)), 0)
    packed = cloudpickle.dumps(letter_function("orders", text))
    monkeypatch.setitem(sys.modules, "headgate.spark.letters.letter_task", None)
    write = cloudpickle.loads(packed)
    batches = [letters(1, None, 2), letters(), letters(None), letters(3)]
    found = [note for batch in write(iter(batches)) for note in batch.to_pylist()]
    assert len(found) == 5
    assert [note["left"] for note in found if note] == [2, 1]
    assert all("letter_task" in note["error"] for note in found if note)


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(letter_sinks.pq, "write_table", full)
    [note] = notes(LetterTask("orders", LetterSettings(str(tmp_path))), letters(1))
    assert "No space left" in note["error"]
    assert ids_in(tmp_path) == {}


def written(directory: Path, *batches: int, partitions: tuple[int, ...] = (0, 1)) -> None:
    for batch in batches:
        for partition in partitions:
            place = Place("q-1", "orders", batch, partition)
            FileSink(str(directory)).write(pa.table({"id": [batch]}), place)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_a_replay_that_writes_replaces_the_letters_of_its_batch(tmp_path: Path) -> None:
    written(tmp_path, 6, 7)
    files = BatchFiles(str(tmp_path), "q-1", "orders", 7)
    files.lay_aside()
    assert [name for name in names(tmp_path) if not name.startswith("_")] == [
        "000000000006-00000.parquet",
        "000000000006-00001.parquet",
    ]
    written(tmp_path, 7, partitions=(2,))
    files.settle()
    assert names(tmp_path)[2:] == ["000000000007-00002.parquet"]
    files.settle()
    assert len(names(tmp_path)) == 3


def test_letters_come_back_when_the_sink_passes_over_the_replay(tmp_path: Path) -> None:
    written(tmp_path, 6, 7)
    before = names(tmp_path)
    files = BatchFiles(str(tmp_path), "q-1", "orders", 7)
    files.lay_aside()
    files.settle()
    assert names(tmp_path) == before


def test_a_replay_that_is_killed_is_settled_before_the_next(tmp_path: Path) -> None:
    written(tmp_path, 7)
    files = BatchFiles(str(tmp_path), "q-1", "orders", 7)
    files.lay_aside()
    files.lay_aside()  # killed before a task had written: still the first letters
    files.settle()
    assert names(tmp_path) == ["000000000007-00000.parquet", "000000000007-00001.parquet"]
    files.lay_aside()
    written(tmp_path, 7, partitions=(3,))
    files.lay_aside()  # killed after one: its own are the newest
    assert names(tmp_path) == ["_before-000000000007-00003.parquet"]


def test_halves_are_removed_and_nobody_is_no_error(tmp_path: Path) -> None:
    written(tmp_path, 7, partitions=(0,))
    [directory] = {path.parent for path in tmp_path.rglob("*.parquet")}
    (directory / ".000000000005-00000.parquet.half").write_text("x")
    BatchFiles(str(tmp_path), "q-1", "orders", 7).remove_halves()
    assert names(tmp_path) == ["000000000007-00000.parquet"]
    BatchFiles(str(tmp_path), "nobody", "orders", 7).lay_aside()


class Producer:
    """Takes so many messages, then fails or falls silent."""

    def __init__(self, takes: int, error: str = "") -> None:
        self.takes, self.error = takes, error
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self._waiting: list[Any] = []

    def produce(self, topic: str, on_delivery: Any, **message: Any) -> None:
        self.messages.append((topic, message))
        self._waiting.append(on_delivery)

    def flush(self, timeout: float) -> None:
        del timeout
        for number, delivered in enumerate(self._waiting):
            if number < self.takes:
                delivered(None, None)
            elif self.error:
                delivered(self.error, None)
        self._waiting = []

    def purge(self) -> None: ...

    def poll(self, timeout: float) -> None: ...


@pytest.fixture(autouse=True)
def nothing_known_of_brokers() -> Iterator[None]:
    letter_sinks._quiet_until.clear()
    yield
    letter_sinks._quiet_until.clear()


def kafka_task(producer: Producer) -> LetterTask:
    settings = LetterSettings(topic="late", producer={"bootstrap.servers": "b:1"})
    return LetterTask("orders", settings, lambda one: KafkaSink(one, lambda _: producer))


def messages_of(*ids: int) -> pa.Array:
    rows = [{"identity": one, "json": f'{{"id":{one}}}'} for one in ids]
    return pa.array(rows, pa.struct([("identity", pa.int64()), ("json", pa.string())]))


def test_letters_for_kafka_carry_identity_and_batch() -> None:
    producer = Producer(9)
    assert notes(kafka_task(producer), messages_of(5, 6)) == [
        {"written": 2, "left": 0, "error": None}
    ]
    headers = {"headgate_query": "q-1", "headgate_gate": "orders", "headgate_batch": "7"}
    assert producer.messages == [
        ("late", {"key": "5", "value": '{"id":5}', "headers": headers}),
        ("late", {"key": "6", "value": '{"id":6}', "headers": headers}),
    ]


def test_a_broker_that_fails_is_left_alone_for_a_while() -> None:
    for producer in (Producer(1, "gone"), Producer(1)):
        letter_sinks._quiet_until.clear()
        [note] = notes(kafka_task(producer), messages_of(5, 6, 7))
        assert (note["written"], note["left"]) == (1, 2)
        assert "gone" in note["error"] or "no answer" in note["error"]
        [note] = notes(kafka_task(producer), messages_of(8))
        assert (note["written"], note["left"]) == (0, 1)
        assert "lately" in note["error"]
        assert len(producer.messages) == 3
