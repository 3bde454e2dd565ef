"""SAMPLE_PER_KEY: selects all events of a fraction of the keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.columns import hash_of
from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Verdict
from headgate.reduction.hashing import PARTS, fates, salted
from headgate.reduction.parameters import ATTRIBUTE, FRACTION, SEED, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind

__all__ = ["SamplePerKey"]


@dataclass(frozen=True, slots=True)
class SamplePerKey(Filter):
    """Events whose key has a fate below `fraction`: whole sessions, users, devices.

    Keys keep their fate from packing to packing and from host to host; only `seed`
    changes it. A smaller fraction selects a subset of the keys of a larger one.
    """

    name: ClassVar[str] = "SAMPLE_PER_KEY"
    row_wise: ClassVar[bool] = True

    fraction: float = parameter(FRACTION)
    group: str | None = parameter(ATTRIBUTE, None)
    seed: int = parameter(SEED, 0)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        del context
        hashes = [hash_of(value) for value in queue.values(self.group or "")]
        judged = np.array([h is not None for h in hashes], np.bool_)
        chosen = [h is not None and salted(h, self.seed) < self.fraction * PARTS for h in hashes]
        return Verdict(np.array(chosen, np.bool_), judged, ~judged)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        del context
        read = queue.hashes(self.group or "")
        chosen = fates(read.values, self.seed) < self.fraction * PARTS
        return Verdict(chosen, read.known, ~read.known)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.group: ANY_SCALAR} if self.group else {}

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.group is None:
            yield "group", "missing; name the attribute that is the key, here or for the policy"
