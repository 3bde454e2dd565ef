"""The offset of a source with a gate in it, and the rule by which that gate drops. No pyspark.

An offset says how far the source was read and by which decision the tuples up to there
were kept. Spark writes it durably before the batch runs; so a batch that is replayed
finds the decision that it had, whoever replays it, with or without an agent.

A tuple passes when

    mix(mix(identity) xor mix(salt)) mod 1 000 000 < threshold

with 64-bit numbers; `mix` is the finaliser of splitmix64. Same tuple, same offset, same fate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.spark.agent.decision import EVERYTHING, GateDecision

__all__ = ["SourceOffset", "identity_seed", "is_source_offset", "keeps", "mixed"]

_FORMAT = 1
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ALL_BITS = 2**64 - 1

Position = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """gate:      name of the gate in this source.
    position:  how far it was read, in the source's own terms.
    salt, threshold: by which the tuples of the batch that ends here are kept.
    decision:  the decision of the whole query that they come from.
    """

    gate: str
    position: Position
    salt: int = 0
    threshold: int = EVERYTHING
    decision: GateDecision = field(default_factory=GateDecision)

    def as_dict(self) -> dict[str, Any]:
        return {
            "headgate_source": _FORMAT,
            "gate": self.gate,
            "position": self.position,
            "salt": self.salt,
            "threshold": self.threshold,
            "decision": self.decision.offset(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SourceOffset:
        """Read an offset; ValueError when it is none, or of a later format.

        Where only the decision of the whole query cannot be read, an open one stands for it. Salt
        and threshold are of this source and good all the same, so a replay stays exact.
        """
        if not is_source_offset(data):
            raise ValueError(f"not an offset of a source of Headgate: {str(data)[:200]}")
        if data["headgate_source"] != _FORMAT:
            raise ValueError(
                f"an offset of format {data['headgate_source']!r}; this Headgate writes {_FORMAT}. "
                "Use the version that made the checkpoint, or start with a new one"
            )
        return cls(
            str(data["gate"]),
            dict(data["position"]),
            int(data["salt"]),
            int(data["threshold"]),
            _decision_or_open(data.get("decision")),
        )


def _decision_or_open(offset: Any) -> GateDecision:
    """A decision of a later Headgate keeps everything; the driver raises the alarm."""
    try:
        return GateDecision.from_offset(offset)
    except (ValueError, KeyError, TypeError, AttributeError):
        return GateDecision()


def is_source_offset(offset: object) -> bool:
    return isinstance(offset, Mapping) and "headgate_source" in offset


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of a number moves half the bits of the result."""
    result = numbers + np.uint64(_STEP)
    result ^= result >> np.uint64(30)
    result *= _FIRST
    result ^= result >> np.uint64(27)
    result *= _SECOND
    result ^= result >> np.uint64(31)
    return result


def keeps(identities: NDArray[np.uint64], salt: int, threshold: int) -> NDArray[np.bool_]:
    """True for the tuples that the gate keeps. Also what tests and back-fills compare with."""
    if threshold >= EVERYTHING:
        return np.ones(len(identities), dtype=np.bool_)
    if threshold <= 0:
        return np.zeros(len(identities), dtype=np.bool_)
    salted = mixed(identities) ^ mixed(np.array([salt & _ALL_BITS], dtype=np.uint64))
    return mixed(salted) % np.uint64(EVERYTHING) < np.uint64(threshold)


def identity_seed(name: str, number: int) -> np.uint64:
    """A number for a stream of numbered tuples (a topic's partition), the same everywhere.

    Added to the number of a tuple it gives the tuple's identity.
    """
    state = np.array([number & _ALL_BITS], dtype=np.uint64)
    for start in range(0, len(name.encode()), 8):
        word = int.from_bytes(name.encode()[start : start + 8], "little")
        state = mixed(state ^ np.uint64(word))
    return np.uint64(mixed(state)[0])
