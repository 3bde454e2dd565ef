"""Options of `hg.read("kafka", ...)`, read and checked. No pyspark, no network.

Names are those of Spark's own Kafka connector where it has them:

    kafka.bootstrap.servers   host:port,host:port
    subscribe                 topics, with commas
    startingOffsets           latest (default), earliest, or JSON {"topic": {"0": 23, "1": -2}}
                              for every partition; -2 is earliest, -1 latest. For a new query only
    maxOffsetsPerTrigger      about so many rows come out of the gate in a batch at most
    includeHeaders            true adds the column headers
    failOnDataLoss            false (default): what is gone is counted and an alarm raised;
                              true: the query ends
    requestTimeout            how long to wait for a broker before an alarm (10s)
    readTimeout               how long a task waits for tuples that should be there (120s)
    kafka.*                   any consumer property of librdkafka, without the prefix
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.errors import UsageError
from headgate.quantities import DURATION

__all__ = ["EARLIEST", "LATEST", "KafkaOptions", "check_options"]

LATEST, EARLIEST = -1, -2
_OWN = {
    "subscribe",
    "startingoffsets",
    "maxoffsetspertrigger",
    "includeheaders",
    "failondataloss",
    "requesttimeout",
    "readtimeout",
    # given by Headgate, not by a person:
    "agent",
    "query",
    "timeout",
    "headgate.gate",
    "headgate.sametuples",
    "headgate.letters",
}
_FIXED = {
    "enable.auto.commit": False,  # Spark's offset log says how far a query has come
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_DEFAULTS = {
    "group.id": "headgate",  # never joined; the client wants a name
    "client.id": "headgate",
    # A task reads what is known to be there. To wait for more would only hold up the next one.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 10,  # 1000 by default: a task would stand still when it is behind
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "log_level": 2,
}


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """starting: LATEST or EARLIEST, or offsets by topic and partition.

    consumer: the properties of librdkafka.
    """

    consumer: Mapping[str, Any]
    topics: tuple[str, ...]
    starting: int | Mapping[str, Mapping[int, int]] = LATEST
    most_rows: int | None = None
    headers: bool = False
    fail_on_data_loss: bool = False
    request_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 120.0

    @property
    def servers(self) -> str:
        return str(self.consumer["bootstrap.servers"])

    @classmethod
    def read(cls, options: Mapping[str, str]) -> KafkaOptions:
        """UsageError says what is wrong with the options."""
        texts = {name.lower(): str(value) for name, value in options.items()}
        unknown = [n for n in texts if n not in _OWN and not n.startswith("kafka.")]
        if unknown:
            raise UsageError(
                f"kafka: no option {unknown[0]!r}; options of the consumer begin with 'kafka.', "
                "the others are subscribe, startingOffsets, maxOffsetsPerTrigger, includeHeaders, "
                "failOnDataLoss, requestTimeout, readTimeout"
            )
        consumer = {n.removeprefix("kafka."): v for n, v in texts.items() if n.startswith("kafka.")}
        for name in _FIXED:
            if name in consumer:
                raise UsageError(f"kafka: kafka.{name} is set by Headgate; leave it out")
        if not consumer.get("bootstrap.servers", "").strip():
            raise UsageError("kafka: set kafka.bootstrap.servers, for example 'localhost:9092'")
        topics = tuple(t.strip() for t in texts.get("subscribe", "").split(",") if t.strip())
        if not topics:
            raise UsageError("kafka: set subscribe to a topic, or to several with commas")
        limit = texts.get("maxoffsetspertrigger")
        if limit is not None and (not limit.isdigit() or int(limit) < 1):
            raise UsageError(f"kafka: maxOffsetsPerTrigger must be at least 1, got {limit!r}")
        return cls(
            {**_DEFAULTS, **consumer, **_FIXED},
            tuple(dict.fromkeys(topics)),
            _starting(texts.get("startingoffsets", "latest"), topics),
            None if limit is None else int(limit),
            _flag(texts, "includeHeaders"),
            _flag(texts, "failOnDataLoss"),
            _duration(texts, "requestTimeout", "10s"),
            _duration(texts, "readTimeout", "120s"),
        )


def check_options(options: Mapping[str, str]) -> KafkaOptions:
    """Read the options, and let librdkafka check its own."""
    from confluent_kafka import Consumer, KafkaException

    read = KafkaOptions.read(options)
    try:
        Consumer(dict(read.consumer)).close()
    except (KafkaException, TypeError, ValueError) as error:
        raise UsageError(f"kafka: a kafka.* option is not accepted: {_text(error)}") from None
    return read


def _text(error: BaseException) -> str:
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)


def _starting(text: str, topics: tuple[str, ...]) -> int | dict[str, dict[int, int]]:
    if text in ("latest", "earliest"):
        return LATEST if text == "latest" else EARLIEST
    try:
        data = {
            str(topic): {int(partition): int(offset) for partition, offset in offsets.items()}
            for topic, offsets in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            "kafka: startingOffsets must be latest, earliest or JSON such as "
            f'{{"{topics[0]}": {{"0": 23, "1": -2}}}}, got {text[:200]!r}'
        ) from None
    if set(data) != set(topics):
        raise UsageError(f"kafka: startingOffsets must name the topics {', '.join(topics)}")
    if any(offset < EARLIEST for offsets in data.values() for offset in offsets.values()):
        raise UsageError("kafka: an offset is at least 0, or -1 for latest, or -2 for earliest")
    return data


def _flag(texts: Mapping[str, str], name: str) -> bool:
    text = texts.get(name.lower(), "false").lower()
    if text not in ("true", "false"):
        raise UsageError(f"kafka: {name} must be true or false, got {text!r}")
    return text == "true"


def _duration(texts: Mapping[str, str], name: str, default: str) -> float:
    try:
        seconds = DURATION.parse(texts.get(name.lower(), default))
    except ValueError as error:
        raise UsageError(f"kafka: {name}: {error}") from None
    if not 0.0 < seconds <= 86_400.0:
        raise UsageError(f"kafka: {name} must be above 0 and at most a day")
    return seconds
