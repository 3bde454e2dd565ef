"""RANDOM: selects a fraction of the events by their hash. PACK, section 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.reduction.columns import hash_of
from headgate.reduction.contract import ANY_SCALAR, Context, Filter, Sense, Verdict
from headgate.reduction.hashing import PARTS, fates, hash_long, hash_longs, salted
from headgate.reduction.parameters import ATTRIBUTE, FRACTION, SEED, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue
from headgate.reduction.values import Kind

__all__ = ["Random"]


@dataclass(frozen=True, slots=True)
class Random(Filter):
    """An event is selected when the fate of its identity is below `fraction`.

    identity: the attribute whose value is hashed; without one, the event's position in
    the queue. The same identity under the same seed and salt has the same fate, in every
    form and on every host: nothing is drawn. The seed is the filter's place in the policy
    unless given, so that two RANDOM filters decide independently. The salt comes with
    each packing, so that packing a queue again is a new draw. Not guaranteed: exactly
    the fraction of a small queue; different fates for events of equal identity.
    """

    name: ClassVar[str] = "RANDOM"
    row_wise: ClassVar[bool] = True
    usual_sense: ClassVar[Sense] = Sense.DROP

    fraction: float = parameter(FRACTION)
    identity: str | None = parameter(ATTRIBUTE, None)
    seed: int | None = parameter(SEED, None)

    def judge_events(self, queue: EventQueue, context: Context) -> Verdict:
        if self.identity is None:
            hashes: list[int | None] = [hash_long(p) for p in queue.positions.tolist()]
        else:
            hashes = [hash_of(value) for value in queue.values(self.identity)]
        salt = self._salt(context)
        judged = np.array([h is not None for h in hashes], np.bool_)
        chosen = [h is not None and salted(h, salt) < self.fraction * PARTS for h in hashes]
        return Verdict(np.array(chosen, np.bool_), judged, ~judged)

    def judge_columns(self, queue: ColumnQueue, context: Context) -> Verdict:
        if self.identity is None:
            hashes, judged = hash_longs(queue.positions), np.ones(len(queue), np.bool_)
        else:
            read = queue.hashes(self.identity)
            hashes, judged = read.values, read.known
        chosen = fates(hashes, self._salt(context)) < self.fraction * PARTS
        return Verdict(chosen, judged, ~judged)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.identity: ANY_SCALAR} if self.identity else {}

    def _salt(self, context: Context) -> int:
        mixed = hash_long(context.salt, hash_long(self.seed or 0))
        return mixed - (1 << 64) if mixed >> 63 else mixed
