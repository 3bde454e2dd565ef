"""Names of columns as a person gives them, found in a stream as Spark finds them.

Guarantees: a name that comes back stands once in the stream, in the stream's own spelling; so
whatever is done with it later means one column. Upper and lower case matter only where
`spark.sql.caseSensitive` says so. Everything else is a `UsageError` before Spark sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from headgate.errors import UsageError
from headgate.names import nearest
from headgate.spark.plans.live_array import column_of, jvm_of

__all__ = ["ColumnNames", "columns_of", "repeated"]


class ColumnNames:
    """The columns of one stream. `where` begins each message, for example "gate 'orders'"."""

    def __init__(self, frame: DataFrame, where: str) -> None:
        self._names = frame.columns
        self._where = where
        self._exact = str(frame.sparkSession.conf.get("spark.sql.caseSensitive")) == "true"

    def find(self, value: Any, field: str) -> str:
        """The column that is meant."""
        if isinstance(value, Column):
            raise UsageError(
                f"{self._where}: {field} takes the name of a column, not a Column ({value}); if "
                "it is computed, add it with withColumn before and give that name"
            )
        if not isinstance(value, str):
            raise UsageError(f"{self._where}: {field} must be the name of a column, got {value!r}")
        found = [name for name in self._names if self.same(name) == self.same(value)]
        if not found:
            hint = nearest(value, self._names)
            raise UsageError(f"{self._where}: no column {value!r} for {field}{hint}")
        if len(found) > 1:
            raise UsageError(
                f"{self._where}: {field}: the stream has {len(found)} columns {value!r}, as after "
                "a join; rename one of them before (withColumnRenamed, or select with alias)"
            )
        return found[0]

    def find_optional(self, value: Any, field: str) -> str | None:
        return None if value is None else self.find(value, field)

    def find_all(self, value: Any, field: str) -> list[str] | None:
        """One name or several; None stays None."""
        if value is None:
            return None
        if isinstance(value, str | Column):
            value = [value]
        if not isinstance(value, Sequence):
            raise UsageError(f"{self._where}: {field} must be names of columns, got {value!r}")
        return [self.find(name, field) for name in value]

    def find_key(self, value: Any) -> dict[str, str] | None:
        """Columns by the name that the key has at all gates, for `by_key`."""
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str):
                    raise UsageError(f"{self._where}: by_key: a key needs a name, got {name!r}")
            return {self.same(name): self.find(column, "by_key") for name, column in value.items()}
        columns = self.find_all(value, "by_key")
        return None if columns is None else {self.same(name): name for name in columns}

    def find_window(self, value: Any) -> Any:
        """The column of `by_window`; what else is wrong with it is said where it is read."""
        if not isinstance(value, tuple | list) or not value:
            return value
        return (self.find(value[0], "by_window"), *value[1:])

    def same(self, name: str) -> str:
        """Equal for names that Spark takes for one."""
        return name if self._exact else name.lower()


def repeated(frame: DataFrame) -> bool:
    """True when a name stands more than once, so that it says nothing."""
    names = frame.columns
    exact = str(frame.sparkSession.conf.get("spark.sql.caseSensitive")) == "true"
    return len(set(names if exact else map(str.lower, names))) < len(names)


def columns_of(frame: DataFrame) -> list[Column]:
    """The columns themselves, whatever they are called."""
    classic: Any = frame
    plan, jvm = classic._jdf.queryExecution().analyzed(), jvm_of(frame.sparkSession)
    output = plan.output()
    return [column_of(jvm, output.apply(place)) for place in range(output.size())]
