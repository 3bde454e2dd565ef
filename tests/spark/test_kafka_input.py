"""The Kafka source without Spark's engine: what it reads from a real broker, row by row."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from headgate.spark.sources.kafka_client import KafkaReadError
from headgate.spark.sources.kafka_options import KafkaOptions
from headgate.spark.sources.kafka_source import KafkaInput
from headgate.spark.sources.source_gate import MARKER, InputAwayError, SourceGate
from headgate.spark.sources.source_offset import identity_seed, keeps
from tests.spark.kafka_broker import Broker

Row = dict[str, Any]


def source(broker: Broker, topic: str, **options: str) -> SourceGate:
    texts = {
        "kafka.bootstrap.servers": broker.servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "requestTimeout": "1s",
        "headgate.gate": "g",
    } | {name.replace("__", "."): value for name, value in options.items()}
    read = KafkaOptions.read(texts)
    kafka = KafkaInput(read)
    return SourceGate(kafka, texts, kafka.schema, read.most_rows)


def rows_between(gate: SourceGate, start: Row, end: Row) -> tuple[list[Row], Counter[str]]:
    """Rows and the sums of the markers."""
    rows, sums = [], Counter[str]()
    for partition in gate.partitions(start, end):
        for batch in gate.read(partition):
            for row in pa.Table.from_batches([batch]).to_pylist():
                marker = row.pop(MARKER)
                if marker is None:
                    rows.append(row)
                else:
                    sums.update({name: marker[name] for name in ("offered", "lost")})
    return rows, sums


def everything(gate: SourceGate) -> tuple[list[Row], Counter[str]]:
    start = gate.initialOffset()
    end = gate.latestOffset(start, None)  # type: ignore[arg-type]
    return rows_between(gate, start, end)


def test_rows_and_headers_come_as_they_were_sent(broker: Broker) -> None:
    broker.create("headers", 1)
    producer = broker.producer()
    producer.produce(
        "headers", b"v", None, 0, timestamp=1234567, headers=[("a", b"1"), ("b", None)]
    )
    producer.produce("headers", None, b"\xff", 0, timestamp=2)
    assert producer.flush(30) == 0
    gate = source(broker, "headers", includeHeaders="true")
    [one, two], sums = everything(gate)
    assert (one["key"], one["value"], one["topic"]) == (None, b"v", "headers")
    assert (one["partition"], one["offset"], one["timestampType"]) == (0, 0, 0)
    assert one["timestamp"].timestamp() == 1234.567
    assert one["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert (two["key"], two["value"], two["headers"]) == (b"\xff", None, None)
    assert sums == {"offered": 2, "lost": 0}
    gate.stop()


def test_the_same_tuples_stay_in_every_reading(broker: Broker) -> None:
    broker.create("thirds")
    broker.produce("thirds", range(9000))
    gate = source(broker, "thirds")
    start = gate.initialOffset()
    end = gate.latestOffset(start, None) | {"salt": 7, "threshold": 300_000}  # type: ignore[arg-type]
    rows, sums = rows_between(gate, start, end)
    again, _ = rows_between(source(broker, "thirds"), start, end)
    assert rows == again
    assert sums["offered"] == 9000
    expected = set()
    for partition in range(3):
        offsets = np.arange(3000, dtype=np.uint64)
        kept = offsets[keeps(offsets + identity_seed("thirds", partition), 7, 300_000)]
        expected |= {(partition, offset) for offset in kept.tolist()}
    assert {(row["partition"], row["offset"]) for row in rows} == expected
    assert all(int(row["value"]) == 3 * row["offset"] + row["partition"] for row in rows)
    assert abs(len(rows) - 2700) < 5 * (9000 * 0.21) ** 0.5
    # Nothing new: the very same offset, so Spark runs no batch.
    assert gate.latestOffset(end, None) == end  # type: ignore[arg-type]
    gate.stop()


def test_a_limit_takes_a_share_of_every_partition(broker: Broker) -> None:
    broker.create("uneven")
    broker.produce("uneven", range(0, 900, 3))
    broker.produce("uneven", range(1, 90, 3))
    gate = source(broker, "uneven", maxOffsetsPerTrigger="110")
    start = gate.initialOffset()
    end = gate.latestOffset(start, None)  # type: ignore[arg-type]
    assert end["position"] == {"uneven": {"0": 100, "1": 10, "2": 0}}
    gate.stop()


def test_offsets_that_a_transaction_leaves_out_are_neither_offered_nor_lost(broker: Broker) -> None:
    broker.create("transactions", 1)
    producer = broker.producer(**{"transactional.id": "t"})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce("transactions", b"%d" % number, partition=0)
        if number == 2:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    gate = source(broker, "transactions")
    start = gate.initialOffset()
    end = gate.latestOffset(start, None)  # type: ignore[arg-type]
    assert end["position"]["transactions"]["0"] > 40
    rows, sums = rows_between(gate, start, end)
    assert Counter(row["value"] for row in rows) == {b"0": 10, b"1": 10, b"3": 10}
    assert sums == {"offered": 30, "lost": 0}
    gate.stop()


def test_what_is_gone_is_counted_or_ends_the_query_if_asked(broker: Broker) -> None:
    broker.create("gone", 1)
    broker.produce("gone", range(1000), 1)
    lenient, strict = source(broker, "gone"), source(broker, "gone", failOnDataLoss="true")
    start = lenient.initialOffset()
    end = lenient.latestOffset(start, None)  # type: ignore[arg-type]
    admin = broker.admin()
    [done] = admin.delete_records([TopicPartition("gone", 0, 400)]).values()
    done.result(30)
    rows, sums = rows_between(lenient, start, end)
    assert sums == {"offered": 600, "lost": 400}
    assert [row["offset"] for row in rows] == list(range(400, 1000))
    with pytest.raises(KafkaReadError, match=r"offsets 0 to 399 are gone.*failOnDataLoss"):
        rows_between(strict, start, end)
    lenient.stop()
    strict.stop()


def test_a_topic_made_anew_is_read_from_its_begin(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("anew", 1)
    broker.produce("anew", range(100), 1)
    gate = source(broker, "anew")
    end = gate.latestOffset(gate.initialOffset(), None)  # type: ignore[arg-type]
    gate.stop()
    broker.delete("anew")
    broker.create("anew", 2)
    broker.produce("anew", range(30), 2)
    gate = source(broker, "anew")
    strict = source(broker, "anew", failOnDataLoss="true")
    # At first it may be a broker that does not know yet how far it had come; only the new
    # partition is entered.
    waits = gate.latestOffset(end, None)  # type: ignore[arg-type]
    assert waits["position"] == {"anew": {"0": 100, "1": 0}}
    monkeypatch.setattr("headgate.spark.sources.kafka_source.SHORT_SECONDS", 0.0)
    entered = gate.latestOffset(end, None)  # type: ignore[arg-type]
    assert entered["position"] == {"anew": {"0": 0, "1": 0}}
    assert list(gate.partitions(end, entered)) == []
    rows, sums = rows_between(gate, entered, gate.latestOffset(entered, None))  # type: ignore[arg-type]
    assert sums == {"offered": 30, "lost": 0}
    assert sorted(int(row["value"]) for row in rows) == list(range(30))
    with pytest.raises(ValueError, match="made anew or cut off"):
        strict.latestOffset(end, None)  # type: ignore[arg-type]
    gate.stop()
    strict.stop()


def test_a_checkpoint_of_sparks_own_connector_goes_on(broker: Broker) -> None:
    broker.create("adopted", 2)
    broker.produce("adopted", range(40), 2)
    gate = source(broker, "adopted")
    theirs = {"adopted": {"1": 5, "0": 15}}
    end = gate.latestOffset(theirs, None)  # type: ignore[arg-type]
    rows, sums = rows_between(gate, theirs, end)
    assert sums == {"offered": 20, "lost": 0}
    assert {row["offset"] for row in rows if row["partition"] == 0} == set(range(15, 20))
    with pytest.raises(ValueError, match="not an offset of a source of Headgate"):
        gate.latestOffset({"logOffset": 3}, None)  # type: ignore[arg-type]
    gate.stop()


def test_available_now_also_reads_a_partition_that_is_new(broker: Broker) -> None:
    broker.create("grown", 2)
    broker.produce("grown", range(20), 2)
    gate = source(broker, "grown")
    gate.prepareForTriggerAvailableNow()
    start = {"grown": {"0": 0}}
    offered = 0
    while (end := gate.latestOffset(start, None)) != start:  # type: ignore[arg-type]
        offered += rows_between(gate, start, end)[1]["offered"]
        start = end
        broker.produce("grown", range(4), 2)  # after the query began: not for this run
    assert 20 <= offered <= 24  # what came before the end was known may be in it
    gate.stop()


def test_starting_offsets(broker: Broker) -> None:
    broker.create("starts", 2)
    broker.produce("starts", range(20), 2)

    def first(text: str) -> Any:
        gate = source(broker, "starts", startingOffsets=text)
        position = gate.initialOffset()["position"]
        gate.stop()
        return position

    assert first("earliest") == {"starts": {"0": 0, "1": 0}}
    assert first("latest") == {"starts": {"0": 10, "1": 10}}
    assert first('{"starts": {"0": 4, "1": -1}}') == {"starts": {"0": 4, "1": 10}}
    with pytest.raises(ValueError, match=r"exactly the partitions.*starts\[1\]"):
        first('{"starts": {"0": 4}}')


def test_a_missing_topic_and_a_missing_broker_are_said(broker: Broker) -> None:
    with pytest.raises(InputAwayError, match=r"topic 'nowhere' cannot be read.*Create it"):
        source(broker, "nowhere").initialOffset()
    nobody = source(broker, "x", kafka__bootstrap__servers="127.0.0.1:1")
    with pytest.raises(InputAwayError, match=r"no broker of 127.0.0.1:1 answered within 1 s"):
        nobody.initialOffset()


def test_a_source_outlives_its_broker(broker: Broker) -> None:
    """The last test of this file: it ends and restarts the broker of all."""
    broker.create("input_outage")
    broker.produce("input_outage", range(300))
    gate = source(broker, "input_outage")
    start = gate.initialOffset()
    end = gate.latestOffset(start, None)  # type: ignore[arg-type]
    assert rows_between(gate, start, end)[1] == {"offered": 300, "lost": 0}
    broker.stop()
    try:
        assert gate.latestOffset(end, None) == end, "nothing new, and no error"  # type: ignore[arg-type]
    finally:
        broker.start()
    broker.produce("input_outage", range(300, 1000))
    deadline = time.monotonic() + 60
    offered = 0
    while offered < 700 and time.monotonic() < deadline:
        new = gate.latestOffset(end, None)  # type: ignore[arg-type]
        offered += rows_between(gate, end, new)[1]["offered"]
        end = new
    assert offered == 700
    gate.stop()
