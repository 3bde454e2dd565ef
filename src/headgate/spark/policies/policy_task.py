"""The Arrow function of a policy gate: reduces one partition of a batch with the in-memory filters.

Runs in Spark's Python workers (`mapInArrow`). The partition is the queue: `policy_gate`
sees to it that rows which a filter compares are in one partition. Rows are put into
arrival order first. Every row comes out again, with a column that says whether it
stays; one row of each queue carries a note for the driver.

Guarantees: the result of `reduce_to_level` on the same rows, and of that what the gate's
hash lets through; the same rows, level, salt and state give the same result in any run.
A partition in which nothing is judged passes batch by batch and is never held whole;
the others are held in the worker's memory.
Failure: an exception in a filter keeps every row of the queue and is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.reduction import Packing, PackingRequest, Policy, digest_of, reduce_to_level
from headgate.reduction.packing import PackingState
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.summary import DigestPlan
from headgate.spark.policies.policy_notes import LARGEST_TEXT, Note, read_text, write_text

__all__ = [
    "FATE_COLUMN",
    "JUDGED_COLUMN",
    "LEVEL_COLUMN",
    "NOTE_COLUMN",
    "NOW_COLUMN",
    "SALT_COLUMN",
    "STATE_COLUMN",
    "STAYS_COLUMN",
    "PolicyTask",
]

FATE_COLUMN = "__headgate_fate"
SALT_COLUMN = "__headgate_salt"
LEVEL_COLUMN = "__headgate_level"
JUDGED_COLUMN = "__headgate_judged"
NOW_COLUMN = "__headgate_now"
STATE_COLUMN = "__headgate_state"
STAYS_COLUMN = "__headgate_stays"
NOTE_COLUMN = "__headgate_note"

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Orders:
    """The decision, as it comes with the first row."""

    level: int
    judged: int
    request: PackingRequest

    @staticmethod
    def of(table: Any, remembers: bool) -> _Orders:
        def first(name: str) -> int:
            return int(table.column(name)[0].as_py())

        state: PackingState | None = None
        if remembers:
            text = table.column(STATE_COLUMN)[0].as_py()
            if text is None:
                raise ValueError("the state did not come with the first row")
            state = read_text(text) if text else {}
        now = first(NOW_COLUMN)
        request = PackingRequest(first(SALT_COLUMN), now / 1e6 if now else None, state)
        return _Orders(first(LEVEL_COLUMN), first(JUDGED_COLUMN), request)


@dataclass(frozen=True)
class PolicyTask:
    """See the module. Picklable: it travels to the workers with the plan.

    order:     columns that put rows into arrival order; empty where no filter minds it.
    outputs:   the columns that go on, before `STAYS_COLUMN` and `NOTE_COLUMN`.
    fate:      the column that says which rows the gate's hash lets through.
    remembers: some filter has state that crosses batches.
    """

    policy: Policy
    order: tuple[str, ...]
    outputs: tuple[str, ...]
    fate: str
    remembers: bool = False

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.run(batches, 0 if context is None else context.partitionId())

    def run(self, batches: Iterable[Any], partition: int) -> Iterator[Any]:
        waiting = (batch for batch in batches if batch.num_rows)
        first = next(waiting, None)
        if first is None:
            return
        if not self.order or first.column(JUDGED_COLUMN)[0].as_py() == 0:
            yield from self._queue(pa.Table.from_batches([first]), partition, 0, False)
            for number, batch in enumerate(waiting, start=1):
                yield from self._queue(pa.Table.from_batches([batch]), partition, number, False)
            return
        whole = pa.Table.from_batches([first, *waiting])
        yield from self._queue(whole, partition, 0, self.remembers)

    def _queue(self, table: Any, partition: int, number: int, remembers: bool) -> Iterator[Any]:
        try:
            table, stays, note = self._reduced(table, partition, number, remembers)
        except Exception as error:  # a query does not die because of a policy
            stays = np.ones(table.num_rows, np.bool_)
            text = f"{type(error).__name__}: {error}"[:500]
            note = Note(partition, number, table.num_rows, odd=table.num_rows, error=text)
        notes: list[str | None] = [None] * table.num_rows
        notes[0] = None if note is None else note.text()
        result = table.select(list(self.outputs))
        result = result.append_column(STAYS_COLUMN, pa.array(stays))
        result = result.append_column(NOTE_COLUMN, pa.array(notes, pa.string()))
        yield from result.to_batches()

    def _reduced(
        self, table: Any, partition: int, number: int, remembers: bool
    ) -> tuple[Any, Mask, Note | None]:
        orders = _Orders.of(table, remembers)
        if orders.judged and self.order:
            keys = [(name, "ascending") for name in self.order]
            table = table.combine_chunks()
            table = table.take(pc.sort_indices(table, sort_keys=keys))
        fate: Mask = table.column(self.fate).to_numpy()
        filters_only = replace(self.policy, digests=DigestPlan())
        packing = reduce_to_level(table, filters_only, orders.level, orders.request)
        stays = np.zeros(table.num_rows, np.bool_)
        stays[packing.kept_rows] = True
        stays &= fate
        judged = packing
        if orders.judged > orders.level:  # only to learn what the levels would leave
            judged = reduce_to_level(table, filters_only, orders.judged, orders.request)
        gone = np.flatnonzero(~stays)
        if not orders.judged and not len(gone):
            return table, stays, None
        digest = digest_of(self.policy.digests, ColumnQueue(table).take(gone))
        note = Note(
            partition,
            number,
            table.num_rows,
            _left(judged),
            sum(count.odd for count in packing.counts),
            digest.to_json() if len(gone) else None,
            self._state(packing, orders) if remembers else None,
        )
        return table, stays, note

    @staticmethod
    def _state(packing: Packing, orders: _Orders) -> str | None:
        if not orders.level:
            return None
        text = write_text(packing.state or {})
        return text if len(text) <= LARGEST_TEXT else ""


def _left(packing: Packing) -> tuple[int, ...]:
    return tuple(round(ratio * packing.offered) for ratio in packing.keep_ratios())
