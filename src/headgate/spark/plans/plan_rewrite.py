"""Give a query its own gates: rewrite the plan of a stream writer just before it starts.

A gated DataFrame can feed several queries, and each has decisions of its own. So at
start every gate in the plan gets a fresh live array, and the first one a companion
stream beside its input:

    Filter(kept)                              Filter(counts the row; ... < new array)
      CollectMetrics headgate:orders            Project(the columns under their old ids)
        Project(*, ... < old array)      ->       Union
          the user's stream                         Project(typed nothing) of the companion
                                                    the user's stream

Rows are counted inside the generated code (`counting`); a gate that makes columns, such as a weight
or the windows of a row, keeps its projection for them. Where a gate stands more than once in a
plan, writes down what it drops, or wants sketches of it, Spark observes it: `CollectMetrics`
stays.

The companion comes first because Spark asks the sources in the order of the plan: a
query that has to wait for its turn waits before the others are asked for their newest
offsets, so its batch takes what has arrived until the turn. (Spark keeps that order for up
to four sources.) The project above gives the columns the identity, nullability and
watermark that they had. All nodes above are copied by Spark's own `withNewChildren`.

A source gate (`CollectMetrics` straight above a source of Headgate) gets no companion and
no array; its source gets the options with which it asks the agent as this query:

    CollectMetrics headgate:orders            CollectMetrics headgate:orders
      StreamingRelationV2(options)       ->     StreamingRelationV2(options + own), same columns

Classic sessions only. Works on internal classes of Spark 4; `query_start` falls back to the
untouched plan, in which every gate is open, when one of them is missing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.column import Column

from headgate.spark.agent.query_run import SourceGateArray
from headgate.spark.gates.gate import (
    COLUMN_PREFIX,
    KEPT_COLUMN,
    KEPT_SECONDS,
    SECONDS,
    open_values,
)
from headgate.spark.gates.row_choice import AT_RANDOM, RowChoice
from headgate.spark.letters.letter_columns import LETTER_COLUMN, GateLetters
from headgate.spark.letters.letter_settings import (
    LETTERS_OPTION,
    LETTERS_PREFIX,
    LetterGate,
    number_in,
)
from headgate.spark.plans.counting import RowCounts
from headgate.spark.plans.counting_code import items_of
from headgate.spark.plans.gate_nodes import (
    from_sources,
    gate_nodes,
    gate_of,
    ids_in,
    inlined_in,
    is_source_gate,
    made_of,
    unasked,
)
from headgate.spark.plans.live_array import LiveArray, LiveTexts, jvm_of
from headgate.spark.policies.policy_gate import GatePolicy
from headgate.spark.policies.policy_task import FATE_COLUMN, STATE_COLUMN, STAYS_COLUMN

__all__ = ["PlanRewrite"]

_ROW_BITS = (1 << 33) - 1  # of an id that has the partition above them


class PlanRewrite:
    """One rewriting of one plan.

    arrays:   the new live arrays by gate.
    choices:  which rows the gates drop that have no policy.
    policies: of the gates that have one.
    texts:    the live states of the policies that remember, by gate.
    letters:  of the gates that write down what they drop, each with an array of its own.
    counts:   of the gates whose rows are counted in the generated code.
    """

    def __init__(
        self,
        spark: SparkSession,
        companion: Callable[[], DataFrame],
        source_options: Mapping[str, str],
        policies: Mapping[int, GatePolicy] | None = None,
        letters: Mapping[int, GateLetters] | None = None,
    ) -> None:
        self.arrays: dict[str, LiveArray] = {}
        self.source_gates: dict[str, SourceGateArray] = {}
        self.policies: dict[str, GatePolicy] = {}
        self.texts: dict[str, LiveTexts] = {}
        self.letters: dict[str, LetterGate] = {}
        self.counts: dict[str, RowCounts] = {}
        self._stand_once: set[str] | None = None
        self._policies = policies or {}
        self._letters = letters or {}
        self._source_options = source_options
        self._own_sources: dict[str, Any] = {}
        self._done: dict[str, tuple[Any, Any]] = {}  # by gate: as it was, and as it is now
        self.choices: dict[str, RowChoice] = {}
        self._spark = spark
        self._jvm = jvm_of(spark)
        self._companion = companion
        self._logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        self._has_companion = False

    def of(self, node: Any) -> Any:
        """The same plan with gates of its own."""
        if self._stand_once is None:  # the whole plan
            names = [name for name, _ in gate_nodes(node)]
            self._stand_once = {name for name in names if names.count(name) == 1}
        if node.nodeName() == "Filter" and self._counts(node):
            return self._counted(node)
        gate = gate_of(node)
        if gate is not None:
            return self._once(gate, node, lambda: self._gate(node, gate))
        lettered = gate_of(node, LETTERS_PREFIX)
        if lettered is None:
            return self._with_children(node, self.of)

        def own_letters() -> Any:
            return self._own_letters(node, lettered, LiveArray(self._spark, _no_letters()))

        return self._once(LETTERS_PREFIX + lettered, node, own_letters)

    def _counts(self, node: Any) -> bool:
        """Is this the filter of an inline gate that can count in the generated code?"""
        metrics, condition = node.child(), node.condition()
        gate = gate_of(metrics)
        if gate is None or gate not in (self._stand_once or ()) or is_source_gate(metrics):
            return False
        is_column = str(condition.getClass().getSimpleName()) == "AttributeReference"
        return is_column and str(condition.name()) in (KEPT_COLUMN, STAYS_COLUMN)

    def _counted(self, node: Any) -> Any:
        metrics = node.child()
        gate = gate_of(metrics)
        assert gate is not None
        child = self._own(metrics.child(), gate)
        columns = items_of(child.output())
        times = [column for column in columns if column.name() == KEPT_SECONDS]
        aggregates, sampled = items_of(metrics.metrics()), times[0] if times else None
        parts = made_of(child)
        inlined, bare = inlined_in(child, node.condition(), from_sources(metrics))
        try:
            counts = RowCounts(
                self._spark, aggregates, "arrival_quantiles", sampled, (SECONDS,), parts, inlined
            )
        except (ValueError, TypeError, Py4JError):  # sketches and the like; another Spark
            observed = metrics.withNewChildren(self._seq([child]))
            return node.withNewChildren(self._seq([observed]))
        self.counts[gate] = counts
        if inlined:
            return self._logical.Filter(counts.condition(node.condition()), bare)
        column = counts.column(node.condition())
        observed = {i for aggregate in aggregates for i in ids_in(aggregate)}
        unused = observed & unasked(columns, node.condition()) - ids_in(column)
        child = self._without(child, unused)
        projected = self._logical.Project(self._seq([*items_of(child.output()), column]), child)
        return self._logical.Filter(column.toAttribute(), projected)

    def _without(self, node: Any, columns: set[int]) -> Any:
        """The projections at the top of a plan, without columns: less for Spark to optimise."""
        if node.nodeName() != "Project":
            return node
        own = [c for c in items_of(node.projectList()) if int(c.exprId().id()) not in columns]
        child = self._without(node.child(), columns)
        if [c.exprId().id() for c in own] == [c.exprId().id() for c in items_of(child.output())]:
            return child
        return self._logical.Project(self._seq(own), child)

    def _once(self, name: str, node: Any, make: Callable[[], Any]) -> Any:
        """Where a plan splits, both branches stay equal and Spark runs what they share once."""
        before, own = self._done.get(name, (None, None))
        if before is None or not before.equals(node):
            own = make()
            self._done.setdefault(name, (node, own))
        return own

    def _gate(self, metrics: Any, gate: str) -> Any:
        if is_source_gate(metrics):
            self.source_gates[gate] = SourceGateArray()
            self._find_source_letters(metrics.child(), gate)
            return metrics.withNewChildren(self._seq([self._own_source(metrics.child(), gate)]))
        return metrics.withNewChildren(self._seq([self._own(metrics.child(), gate)]))

    def _own(self, node: Any, gate: str) -> Any:
        """The gate's own nodes: down to the projection with the test of the hash."""
        if node.nodeName() != "Project":
            return self._with_children(node, lambda child: self._own(child, gate))
        columns = items_of(node.projectList())
        made = [str(c.name()) for c in columns if c.getClass().getSimpleName() == "Alias"]
        if any(name == KEPT_COLUMN or name.startswith(FATE_COLUMN) for name in made):
            self._find_policy(made, gate)
            self._find_choice(columns, gate)
            child = self._beside_companion(self.of(node.child()))
        else:
            child = self._own(node.child(), gate)
        own = [self._column(c, gate) if c.name().startswith(COLUMN_PREFIX) else c for c in columns]
        return self._logical.Project(self._seq(own), child)

    def _own_letters(self, node: Any, gate: str, array: LiveArray) -> Any:
        """The nodes between the metrics of the letters and those of the gate."""
        if gate_of(node) is not None:
            return self.of(node)

        def own(expression: Any) -> Any:
            if expression.getClass().getSimpleName() == "Literal":
                return _literal_like(expression, array) if _is_live(expression) else expression
            return self._with_children(expression, own)

        child = self._own_letters(node.child(), gate, array)
        if node.nodeName() == "Filter":
            return self._logical.Filter(own(node.condition()), child)
        if node.nodeName() == "Project":
            columns = items_of(node.projectList())
            columns = [own(c) if c.name().startswith(LETTER_COLUMN) else c for c in columns]
            self._find_letters([str(c.name()) for c in columns], gate, array)
            return self._logical.Project(self._seq(columns), child)
        return node.withNewChildren(self._seq([child]))

    def _find_letters(self, names: list[str], gate: str, array: LiveArray) -> None:
        for name in names:
            number = name.removeprefix(LETTER_COLUMN)
            if number != name and number.isdigit() and int(number) in self._letters:
                found = self._letters[int(number)]
                choice = self.choices.get(gate, AT_RANDOM)
                by_hash_alone = not choice.key and choice.window is None
                self.letters[gate] = LetterGate(
                    gate, found.number, found.settings, array, array.values[0], by_hash_alone
                )

    def _find_source_letters(self, relation: Any, gate: str) -> None:
        text = relation.extraOptions().asCaseSensitiveMap().get(LETTERS_OPTION)
        found = None if text is None else self._letters.get(number_in(str(text)))
        if found is not None:
            number, settings = found.number, found.settings
            self.letters[gate] = LetterGate(gate, number, settings, SourceGateArray(), 0, True)

    def _find_policy(self, names: list[str], gate: str) -> None:
        for name in names:
            number = name.removeprefix(FATE_COLUMN + "_")
            if number != name and number.isdigit() and int(number) in self._policies:
                self.policies[gate] = self._policies[int(number)]

    def _find_choice(self, columns: list[Any], gate: str) -> None:
        for column in columns:
            if column.name() == KEPT_COLUMN and gate not in self.choices:
                self.choices[gate] = RowChoice.from_json(str(column.metadata().json()))

    def _column(self, column: Any, gate: str) -> Any:
        if column.name() != STATE_COLUMN:
            return self._with_array(column, gate)
        texts = self.texts.get(gate)
        if texts is None:
            count = self.policies[gate].partitions or 1
            unlike_any_other = secrets.token_hex(16)
            texts = self.texts[gate] = LiveTexts(self._spark, count, unlike_any_other)
        # The first row of each partition carries the state of that partition.
        row_number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_BITS))
        state = F.when(row_number == 0, F.get(texts.column(), F.spark_partition_id()))
        resolved: Any = self._spark.range(1).select(state.alias("state"))
        [named] = items_of(resolved._jdf.queryExecution().analyzed().projectList())
        return column.withNewChildren(self._seq([named.child()]))

    def _beside_companion(self, stream: Any) -> Any:
        """The stream in a union with the companion, under the ids that it had; once a query."""
        if self._has_companion:
            return stream
        self._has_companion = True
        companion = self._nothing_like(stream)
        union = self._logical.Union(self._seq([companion, stream]), False, False)
        alias = self._jvm.org.apache.spark.sql.catalyst.expressions.Alias
        some = self._jvm.scala.Option.apply
        columns = [
            alias(
                new, old.name(), old.exprId(), old.qualifier(), some(old.metadata()), self._seq([])
            )
            for new, old in zip(items_of(union.output()), items_of(stream.output()), strict=True)
        ]
        return self._logical.Project(self._seq(columns), union)

    def _own_source(self, relation: Any, gate: str) -> Any:
        """The same source, with the same columns, that asks the agent as this query.

        Spark makes the Python source when it is loaded and keeps it, so it is loaded anew.
        A stream that stands twice in a plan stays one source.
        """
        own = self._own_sources.get(gate)
        if own is None:
            before = relation.extraOptions().asCaseSensitiveMap()
            options = {str(name): str(before[name]) for name in before}
            reader = self._spark.readStream.format(str(relation.sourceName()))
            frame: Any = reader.options(**options, **self._source_options).load()
            own = self._own_sources[gate] = frame._jdf.queryExecution().analyzed()
        gateway: Any = self._spark.sparkContext._gateway
        values = gateway.new_array(self._jvm.java.lang.Object, own.productArity())
        for index in range(own.productArity()):
            part = own.productElement(index)
            is_output = hasattr(part, "equals") and part.equals(own.output())
            values[index] = relation.output() if is_output else part
        return own.makeCopy(values)

    def _nothing_like(self, stream: Any) -> Any:
        """The companion's plan with the columns of `stream`."""
        literals = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal
        column_of = self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column
        columns = []
        for attribute in items_of(stream.output()):
            kind = attribute.dataType()
            value = (
                literals.create(None, kind)
                if attribute.nullable()
                else getattr(literals, "default")(kind)  # noqa: B009 (a Java keyword)
            )
            columns.append(Column(column_of(value)).alias(attribute.name()))
        frame: Any = self._companion().select(*columns)
        return frame._jdf.queryExecution().analyzed()

    def _with_array(self, expression: Any, gate: str) -> Any:
        if expression.getClass().getSimpleName() == "Literal":
            if _is_live(expression):
                return _literal_like(expression, self._array(gate, expression))
            return expression
        return self._with_children(expression, lambda child: self._with_array(child, gate))

    def _array(self, gate: str, before: Any) -> LiveArray:
        if gate not in self.arrays:
            # Spark takes two literals of equal content for the same and would keep the old
            # one; so the new one begins with numbers that no other array has.
            opened = open_values(self.choices.get(gate, AT_RANDOM))
            others = (0,) * (int(before.value().numElements()) - len(opened))
            numbers = (secrets.randbits(62), *opened[1:], *others)
            self.arrays[gate] = LiveArray(self._spark, numbers)
        return self.arrays[gate]

    def _with_children(self, node: Any, change: Callable[[Any], Any]) -> Any:
        old = items_of(node.children())
        new = [change(child) for child in old]
        if all(a is b for a, b in zip(old, new, strict=True)):
            return node
        return node.withNewChildren(self._seq(new))

    def _seq(self, items: list[Any]) -> Any:
        values = self._jvm.java.util.ArrayList()
        for item in items:
            values.add(item)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(values)


def _is_live(literal: Any) -> bool:
    """Does a live array stand in the literal, as an array or as the object that it is?"""
    kind = str(literal.dataType().getClass().getSimpleName())
    if kind == "ObjectType":
        return str(literal.value().getClass().getSimpleName()) == "UnsafeArrayData"
    return kind == "ArrayType"


def _literal_like(literal: Any, array: LiveArray) -> Any:
    """The literal of another array that takes the place of this one."""
    is_object = literal.dataType().getClass().getSimpleName() == "ObjectType"
    return array.object_literal if is_object else array.literal


def _no_letters() -> tuple[int, int]:
    return secrets.randbits(62), 0  # see `_array` for the first number
