"""Give a query its own gates: rewrite the plan of a stream writer just before it starts.

A gated DataFrame can feed several queries, and each has decisions of its own. So at
start every gate in the plan gets a fresh live array, and the first one a companion
stream beside its input:

    Filter(kept)                              Filter(kept)
      CollectMetrics headgate:orders            CollectMetrics headgate:orders
        Project(*, ... < old array)      ->       Project(*, ... < new array)
          the user's stream                         Union
                                                      the user's stream
                                                      Project(typed nothing) of the companion

The user's stream stays the first child of the union, whose columns keep their identity,
nullability and watermark. All nodes above are copied by Spark's own `withNewChildren`.

Classic sessions only. Works on internal classes of Spark 4; `start` falls back to the
untouched plan, in which every gate is open, when one of them is missing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import Column

from headgate.spark.gate import COLUMN_PREFIX, KEPT_COLUMN, METRIC_PREFIX, open_values
from headgate.spark.live_array import LiveArray, jvm_of
from headgate.spark.row_choice import RowChoice

__all__ = ["PlanRewrite", "gates_in"]


def gates_in(jplan: Any) -> list[str]:
    """Names of the gates in an analysed plan, in the order of the plan, each once."""
    found: list[str] = []
    stack = [jplan]
    while stack:
        node = stack.pop()
        name = _gate_of(node)
        if name is not None and name not in found:
            found.append(name)
        stack.extend(reversed(_items(node.children())))
    return found


class PlanRewrite:
    """One rewriting of one plan. `arrays` and `choices` hold what it found, by gate."""

    def __init__(self, spark: SparkSession, companion: Callable[[], DataFrame]) -> None:
        self.arrays: dict[str, LiveArray] = {}
        self.choices: dict[str, RowChoice] = {}
        self._spark = spark
        self._jvm = jvm_of(spark)
        self._companion = companion
        self._logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        self._has_companion = False

    def of(self, node: Any) -> Any:
        """The same plan with gates of its own."""
        gate = _gate_of(node)
        if gate is not None:
            return self._gate(node, gate)
        return self._with_children(node, self.of)

    def _gate(self, metrics: Any, gate: str) -> Any:
        project = metrics.child()
        stream = self.of(project.child())
        if not self._has_companion:
            self._has_companion = True
            beside = self._nothing_like(stream)
            stream = self._logical.Union(self._seq([stream, beside]), False, False)
        outputs = _items(project.projectList())
        array = self.arrays.get(gate)
        if array is None:
            [kept] = [column for column in outputs if column.name() == KEPT_COLUMN]
            choice = self.choices[gate] = RowChoice.from_json(str(kept.metadata().json()))
            # Spark takes two literals of equal content for the same and would keep the old
            # one; so the new one begins with numbers that no other array has.
            values = (secrets.randbits(62), *open_values(choice)[1:])
            array = self.arrays[gate] = LiveArray(self._spark, values)
        columns = [
            self._with_array(column, array) if column.name().startswith(COLUMN_PREFIX) else column
            for column in outputs
        ]
        return metrics.withNewChildren(
            self._seq([self._logical.Project(self._seq(columns), stream)])
        )

    def _nothing_like(self, stream: Any) -> Any:
        """The companion's plan with the columns of `stream`."""
        literals = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal
        column_of = self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column
        columns = []
        for attribute in _items(stream.output()):
            kind = attribute.dataType()
            value = (
                literals.create(None, kind)
                if attribute.nullable()
                else getattr(literals, "default")(kind)  # noqa: B009 (a Java keyword)
            )
            columns.append(Column(column_of(value)).alias(attribute.name()))
        frame: Any = self._companion().select(*columns)
        return frame._jdf.queryExecution().analyzed()

    def _with_array(self, expression: Any, array: LiveArray) -> Any:
        if expression.getClass().getSimpleName() == "Literal":
            is_array = expression.dataType().typeName() == "array"
            return array.literal if is_array else expression
        return self._with_children(expression, lambda child: self._with_array(child, array))

    def _with_children(self, node: Any, change: Callable[[Any], Any]) -> Any:
        old = _items(node.children())
        new = [change(child) for child in old]
        if all(a is b for a, b in zip(old, new, strict=True)):
            return node
        return node.withNewChildren(self._seq(new))

    def _seq(self, items: list[Any]) -> Any:
        values = self._jvm.java.util.ArrayList()
        for item in items:
            values.add(item)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(values)


def _gate_of(node: Any) -> str | None:
    if node.nodeName() != "CollectMetrics":
        return None
    name = str(node.name())
    return name[len(METRIC_PREFIX) :] if name.startswith(METRIC_PREFIX) else None


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
