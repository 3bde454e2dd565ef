"""SPARK_SQL: selects events for which a Spark SQL predicate is true. On Spark only.

The predicate is kept as text; Spark parses it. In memory there is no SQL engine, and
guessing at Spark's semantics would give other results: packing refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from headgate.errors import UsageError
from headgate.reduction.contract import Context, Filter
from headgate.reduction.parameters import TEXT, parameter
from headgate.reduction.queues import ColumnQueue, EventQueue

__all__ = ["SparkSql"]


@dataclass(frozen=True, slots=True)
class SparkSql(Filter):
    """`predicate` is true; null counts as cannot be judged."""

    name: ClassVar[str] = "SPARK_SQL"
    row_wise: ClassVar[bool] = True
    runs_in_memory: ClassVar[bool] = False

    predicate: str = parameter(TEXT)

    def judge_events(self, queue: EventQueue, context: Context) -> NoReturn:
        del queue, context
        self._refuse()

    def judge_columns(self, queue: ColumnQueue, context: Context) -> NoReturn:
        del queue, context
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(
            f"SPARK_SQL ({self.predicate[:80]!r}) runs on Spark only; in memory use "
            "GT, WITHIN, MATCH, INSET or another filter"
        )
