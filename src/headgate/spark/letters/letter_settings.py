"""Dead letters: dropped tuples that are written down for a later back-fill. No pyspark.

`gate(..., dead_letters="/data/letters")` or a dictionary:

    path        directory for Parquet files, also an address such as s3://bucket/letters
    topic       a Kafka topic instead of a directory, with "kafka.bootstrap.servers" and any
                other producer property of librdkafka after "kafka."
    share       at most this share of a batch is written, on average (0.1)
    most_rows   at most so many in one partition of a batch (100,000)
    most_bytes  about so many bytes of memory in one partition of a batch (64 MiB)
    timeout     how long a batch waits for Kafka ("5s")

Which dropped tuples become letters is said by a second hash of their identity, below a
threshold that follows from the decision of the batch alone. So a replay chooses the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from headgate.errors import UsageError
from headgate.quantities import DURATION
from headgate.spark.agent.decision import EVERYTHING, GateDecision
from headgate.spark.gates.threshold import millionths

__all__ = [
    "BATCH_COLUMN",
    "GATE_COLUMN",
    "LETTERS_OPTION",
    "LETTERS_PREFIX",
    "LetterCounts",
    "LetterGate",
    "LetterSettings",
    "letter_threshold",
    "number_in",
    "read_settings",
    "safe_name",
    "settings_in",
    "text_of",
]

BATCH_COLUMN, GATE_COLUMN = "headgate_batch", "headgate_gate"
LETTERS_OPTION = "headgate.letters"
"""Of a source with a gate."""
LETTERS_PREFIX = "headgate letters:"
"""Of the observed metrics; must not begin like those of a gate."""
_MOST_ROWS = 100_000
_MOST_BYTES = 64 * 1024 * 1024
_KNOWN = ("path", "topic", "share", "most_rows", "most_bytes", "timeout")


@dataclass(frozen=True, slots=True)
class LetterSettings:
    """Where letters go, and how many at most. `producer` is for Kafka; it may hold passwords."""

    path: str = ""
    topic: str = ""
    share: float = 0.1
    most_rows: int = _MOST_ROWS
    most_bytes: int = _MOST_BYTES
    timeout_seconds: float = 5.0
    producer: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        return self.path or f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class LetterCounts:
    """What became of the letters of one gate in one batch; `error` says why some are left."""

    written: int = 0
    left: int = 0
    error: str = ""


class _Array(Protocol):
    def set(self, values: tuple[int, ...]) -> None: ...


@dataclass(frozen=True)
class LetterGate:
    """The letters of one gate of one started query: keeps the threshold in step.

    number: finds the letters again in `LetterBook.at_gates`.
    array:  holds `first`, which is of no account, and the threshold.
    by_hash_alone: the gate drops by the hash of each tuple, so that the share that falls is known.
    """

    gate: str
    number: int
    settings: LetterSettings
    array: _Array
    first: int
    by_hash_alone: bool

    def follow(self, decision: GateDecision) -> None:
        share = self.settings.share
        threshold = letter_threshold(share, self.gate, decision, self.by_hash_alone)
        self.array.set((self.first, threshold))


def letter_threshold(share: float, gate: str, decision: GateDecision, by_hash_alone: bool) -> int:
    """The threshold, in millionths, below which a dropped tuple is a letter.

    Where the share that falls is known, as many of the dropped as give `share` of the batch;
    elsewhere `share` of the dropped, which is never more.

    >>> letter_threshold(0.1, "orders", GateDecision(keep={"orders": 800_000}), True)
    500000
    >>> letter_threshold(0.1, "orders", GateDecision(keep={"orders": 950_000}), True)
    1000000
    >>> letter_threshold(0.1, "orders", GateDecision(), True)
    0
    """
    falls = 1.0 - decision.threshold(gate) / EVERYTHING
    otherwise = decision.cut_off(gate) or decision.level(gate) or gate in decision.windows
    if not falls and not otherwise:
        return 0
    if by_hash_alone and not otherwise:
        return millionths(min(1.0, share / falls))
    return millionths(share)


def read_settings(gate: str, given: Any) -> LetterSettings:
    """UsageError says what is wrong."""
    options = {"path": given} if not isinstance(given, Mapping) else dict(given)
    producer = {
        name.removeprefix("kafka."): str(options.pop(name))
        for name in [str(name) for name in options]
        if name.startswith("kafka.")
    }
    where = f"gate {gate!r}: dead_letters"
    unknown = [name for name in options if name not in _KNOWN]
    if unknown:
        raise UsageError(
            f"{where} has no option {unknown[0]!r}; expected {', '.join(_KNOWN)} and kafka.*"
        )
    path, topic = _path(options.get("path", "")), str(options.get("topic", "")).strip()
    if bool(path) == bool(topic):
        raise UsageError(f"{where} needs a path, or a topic and kafka.bootstrap.servers")
    if topic and not producer.get("bootstrap.servers", "").strip():
        raise UsageError(f"{where}: set kafka.bootstrap.servers, for example 'localhost:9092'")
    if path and producer:
        raise UsageError(f"{where}: kafka.* options belong to a topic, not to a path")
    share = _number(where, options, "share", 0.1)
    if not 0.0 < share <= 1.0:
        raise UsageError(f"{where}: share must be above 0 and at most 1, got {share!r}")
    limits = {}
    for name, default in (("most_rows", _MOST_ROWS), ("most_bytes", _MOST_BYTES)):
        limits[name] = int(_number(where, options, name, default))
        if limits[name] < 1:
            raise UsageError(f"{where}: {name} must be at least 1, got {options[name]!r}")
    timeout = _seconds(where, options.get("timeout", "5s"))
    return LetterSettings(path, topic, share, **limits, timeout_seconds=timeout, producer=producer)


def text_of(settings: LetterSettings, number: int) -> str:
    """The option of a source with a gate; `number` finds the letters again in the driver."""
    return json.dumps({"number": number, "settings": asdict(settings)})


def settings_in(text: str) -> LetterSettings:
    return LetterSettings(**json.loads(text)["settings"])


def number_in(text: str) -> int:
    return int(json.loads(text)["number"])


def safe_name(name: str) -> str:
    """A name for files and directories that no other gate has.

    >>> safe_name("orders/../2")
    'orders----2-8af8db3002'
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:60]
    return f"{plain}-{sha256(name.encode()).hexdigest()[:10]}"


def _path(given: Any) -> str:
    """An address as it is; a local path absolute, for tasks have other working directories."""
    text = str(given).strip()
    if text.startswith("file:"):
        text = unquote(urlparse(text).path)
    if not text or "://" in text:
        return text
    return os.path.abspath(os.path.expanduser(text))


def _number(where: str, options: Mapping[str, Any], name: str, default: float) -> float:
    value = options.get(name, default)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{where}: {name} must be a number, got {value!r}") from None


def _seconds(where: str, value: Any) -> float:
    try:
        seconds = DURATION.parse(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: timeout: {error}") from None
    if not 0.0 < seconds <= 600.0:
        raise UsageError(f"{where}: timeout must be above 0 and at most 10 minutes, got {value!r}")
    return seconds
