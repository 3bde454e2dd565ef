"""What Headgate asks a Kafka cluster: where partitions begin and end, and ranges of messages.

Through `confluent-kafka`. No consumer group is joined and nothing is committed: Spark's
offset log says how far a query has come. Keys, values and headers are handed on as bytes.

A range is read from its start to its end, whatever lies between: offsets that a compacted
topic or a transaction leaves out are passed over, and what is gone (retention, a topic made
anew) is counted as lost. Memory: at most `_CHUNK_BYTES` of messages or one message, beside
the client's own queue (`queued.max.messages.kbytes`, 64 MiB unless set).
Failure: while no broker answers a range waits, up to `readTimeout`; then `KafkaReadError`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headgate.spark.sources.kafka_options import EARLIEST, LATEST, KafkaOptions

__all__ = [
    "SHORT_SECONDS",
    "ClusterAwayError",
    "KafkaReadError",
    "KafkaShare",
    "Messages",
    "Offsets",
    "Partitions",
    "read_range",
]

_POLL_SECONDS = 0.1
_MOST_MESSAGES = 10_000
_FIRST_MESSAGES = 500
_CHUNK_BYTES = 16 * 1024 * 1024
_METADATA_SECONDS = 1.0
SHORT_SECONDS = 10.0
"""How long a partition must end below what we know of it until that counts as loss."""
_MOST_IDLE_CONSUMERS = 4
_GONE = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
_HOPELESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}

Partitions = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


class ClusterAwayError(Exception):
    """No answer in time, or a topic is not there; it may come back."""


class KafkaReadError(Exception):
    """A range cannot be read; the task fails."""


@dataclass(frozen=True, slots=True)
class KafkaShare:
    """Messages of one partition from `start` to `end` (not included)."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] from {self.start} to {self.end}"


@dataclass(frozen=True, slots=True)
class Messages:
    """Some messages of a range, in order; `lost`: offsets before them that are gone."""

    messages: Sequence[Message]
    lost: int = 0


class Offsets:
    """Begin and end of the partitions of some topics."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._consumer: Any = None
        self._partitions: list[tuple[str, int]] = []
        self._listed_at = -_METADATA_SECONDS

    def latest(self) -> Partitions:
        return self.at(dict.fromkeys(self._list(), LATEST))

    def earliest(self, partitions: Sequence[tuple[str, int]]) -> Partitions:
        return self.at(dict.fromkeys(partitions, EARLIEST))

    def at(self, wanted: Mapping[tuple[str, int], int]) -> Partitions:
        """Offsets for -1 (end) and -2 (begin); others as they are. One request a broker."""
        asked = [TopicPartition(*key, offset) for key, offset in wanted.items() if offset < 0]
        found = {key: offset for key, offset in wanted.items() if offset >= 0}
        if not asked:
            return found
        timeout = self._options.request_timeout_seconds
        try:
            answers = self._open().offsets_for_times(asked, timeout=timeout)
        except KafkaException as error:
            raise self._away(error) from None
        for answer in answers:
            if answer.error is not None or answer.offset < 0:
                raise ClusterAwayError(
                    f"{answer.topic}[{answer.partition}] cannot be asked: {answer.error}"
                )
            found[answer.topic, answer.partition] = answer.offset
        return found

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _list(self) -> list[tuple[str, int]]:
        now = time.monotonic()
        if now - self._listed_at < _METADATA_SECONDS:
            return self._partitions
        found = []
        for topic in self._options.topics:
            try:
                metadata = self._open().list_topics(
                    topic, timeout=self._options.request_timeout_seconds
                )
            except KafkaException as error:
                raise self._away(error) from None
            described = metadata.topics[topic]
            if described.error is not None:
                raise ClusterAwayError(
                    f"topic {topic!r} cannot be read at {self._options.servers}: "
                    f"{described.error.str()}. Create it, or correct the option subscribe"
                )
            found += [(topic, partition) for partition in sorted(described.partitions)]
        self._partitions, self._listed_at = found, now
        return found

    def _open(self) -> Any:
        if self._consumer is None:
            self._consumer = Consumer(dict(self._options.consumer))
        return self._consumer

    def _away(self, error: KafkaException) -> ClusterAwayError:
        return ClusterAwayError(
            f"no broker of {self._options.servers} answered within "
            f"{self._options.request_timeout_seconds:g} s ({error.args[0].str()}); "
            "the query waits. Check that it runs, and the kafka.* options"
        )


def read_range(options: KafkaOptions, share: KafkaShare) -> Iterator[Messages]:
    """All messages of a range."""
    with _consumer(options) as consumer:
        yield from _RangeReader(consumer, options, share).read()


class _RangeReader:
    def __init__(self, consumer: Any, options: KafkaOptions, share: KafkaShare) -> None:
        self._consumer, self._options, self._share = consumer, options, share
        self._position = share.start
        self._lost = 0
        self._heard = time.monotonic()
        self._last_error = "nothing came"
        self._short_since: float | None = None

    def read(self) -> Iterator[Messages]:
        self._assign()
        most = _FIRST_MESSAGES
        while self._position < self._share.end:
            wanted = min(most, self._share.end - self._position)
            messages = self._take(self._consumer.consume(wanted, timeout=_POLL_SECONDS))
            if messages:
                most = _messages_of(_CHUNK_BYTES, messages)
            elif time.monotonic() - self._heard > self._options.read_timeout_seconds:
                raise KafkaReadError(
                    f"{self._share}: no message within {self._options.read_timeout_seconds:g} s "
                    f"({self._last_error}); the option readTimeout lets a task wait longer"
                )
            if messages or self._lost:
                lost, self._lost = self._lost, 0
                yield Messages(messages, lost)

    def _assign(self) -> None:
        share = self._share
        self._consumer.assign([TopicPartition(share.topic, share.partition, self._position)])

    def _take(self, came: Sequence[Message]) -> list[Message]:
        """Messages of the range; moves the position, also past the end of the range."""
        end = self._share.end
        taken: list[Message] = []
        for message in came:
            error = message.error()
            if error is not None:
                self._handle(error, message.offset())
                if self._position >= end:
                    break
                continue
            offset = message.offset()
            assert offset is not None
            if offset >= end:
                self._position = end
            elif offset >= self._position:
                taken.append(message)
                self._position = offset + 1
        if taken:
            self._heard, self._short_since = time.monotonic(), None
        return taken

    def _handle(self, error: KafkaError, offset: int | None) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self._handle_end(self._position if offset is None else offset)
        elif code in _GONE:
            self._handle_gone(error)
        elif code in _HOPELESS:
            raise KafkaReadError(f"{self._share}: {error.str()}")
        else:  # a broker is away, a leader has moved: the client tries again by itself
            self._last_error = error.str()

    def _handle_end(self, offset: int) -> None:
        """The partition ends at `offset` for now. Below the range it was cut off, or will be back.

        A new leader may be a moment behind; only what stays short is lost.
        """
        if offset >= self._share.end:
            self._position = self._share.end  # only left out offsets were missing
            return
        self._last_error = f"the partition ends at {offset}"
        now = time.monotonic()
        if self._short_since is None:
            self._short_since = now
        if now - self._short_since > SHORT_SECONDS:
            self._lose(self._share.end, self._last_error)

    def _handle_gone(self, error: KafkaError) -> None:
        """The position is not there: go on where the partition begins now."""
        share = self._share
        asked = [TopicPartition(share.topic, share.partition, EARLIEST)]
        try:
            [answer] = self._consumer.offsets_for_times(
                asked, timeout=self._options.request_timeout_seconds
            )
        except KafkaException as failure:
            self._last_error = failure.args[0].str()
            self._assign()
            return
        begin = answer.offset if answer.error is None else share.end
        self._lose(begin if begin > self._position else share.end, error.str())
        if self._position < share.end:
            self._assign()

    def _lose(self, until: int, why: str) -> None:
        until = min(until, self._share.end)
        if self._options.fail_on_data_loss:
            raise KafkaReadError(
                f"{self._share}: offsets {self._position} to {until - 1} are gone ({why}). "
                "Set failOnDataLoss to false to go on without them"
            )
        self._lost += until - self._position
        self._position = until
        self._heard, self._short_since = time.monotonic(), None


def _messages_of(size: int, seen: Sequence[Message]) -> int:
    """How many messages like these make up so many bytes."""
    mean = sum(len(message) for message in seen) / len(seen)
    return int(min(max(size / max(mean, 1.0), 1.0), _MOST_MESSAGES))


_idle: dict[tuple[tuple[str, str], ...], list[Any]] = {}


@contextmanager
def _consumer(options: KafkaOptions) -> Iterator[Any]:
    """A consumer of this process. Spark uses a Python process for many tasks, and to connect
    takes longer than to read; so some consumers are kept for the next task.
    """
    key = tuple(sorted((name, str(value)) for name, value in options.consumer.items()))
    idle = _idle.setdefault(key, [])
    consumer = idle.pop() if idle else Consumer(dict(options.consumer))
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    if len(idle) < _MOST_IDLE_CONSUMERS:
        idle.append(consumer)
    else:
        consumer.close()
