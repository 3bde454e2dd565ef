"""What gates look like in a plan of Spark: which there are, and what their columns are made of.

Reads analysed plans over py4j and changes none; `plan_rewrite` does that. Classic sessions only,
on internal classes of Spark 4.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headgate.spark.gates.gate import COLUMN_PREFIX, KEPT_COLUMN, OBSERVED_TIMES, SECONDS
from headgate.spark.gates.gate_metrics import METRIC_PREFIX, gate_in
from headgate.spark.letters.letter_settings import LETTERS_PREFIX
from headgate.spark.plans.counting_code import items_of
from headgate.spark.plans.live_array import jvm_of
from headgate.spark.policies.policy_task import STAYS_COLUMN

__all__ = [
    "from_sources",
    "gate_nodes",
    "gate_of",
    "gates_in",
    "gates_in_series",
    "gates_named_twice",
    "ids_in",
    "inline_gates_in",
    "inlined_in",
    "is_source_gate",
    "made_of",
    "unasked",
    "without_metrics",
]


def gates_in(jplan: Any) -> dict[str, bool]:
    """The gates in an analysed plan, in its order; True for one that can drop old tuples.

    For that a gate has to know arrival times, and to stand outside the source.
    """
    return {
        name: not is_source_gate(node)
        and "arrival_mean" in [str(metric.name()) for metric in items_of(node.metrics())]
        for name, node in gate_nodes(jplan)
    }


def inline_gates_in(jplan: Any) -> list[str]:
    """As `gates_in`, without the gates inside sources."""
    nodes = gate_nodes(jplan)
    return list(dict.fromkeys(name for name, node in nodes if not is_source_gate(node)))


def gates_in_series(jplan: Any) -> dict[str, tuple[str, ...]]:
    """For each gate that has others in front of it in the plan, those others."""
    behind: dict[str, list[str]] = {}
    stack: list[tuple[Any, tuple[str, ...]]] = [(jplan, ())]
    while stack:
        node, later = stack.pop()
        name = gate_of(node)
        if name is not None:
            for gate in later:
                if gate != name and name not in behind.setdefault(gate, []):
                    behind[gate].append(name)
            later = (*later, name)
        stack.extend((child, later) for child in items_of(node.children()))
    return {gate: tuple(others) for gate, others in behind.items() if others}


def gates_named_twice(jplan: Any) -> list[str]:
    """Gates that share their name with another one of the plan.

    One gated stream that is used twice is one gate.
    """
    metrics = {str(node.name()): name for name, node in gate_nodes(jplan)}
    names = list(metrics.values())
    return sorted({name for name in names if names.count(name) > 1})


def gate_nodes(jplan: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    stack = [jplan]
    while stack:
        node = stack.pop()
        name = gate_of(node)
        if name is not None:
            found.append((name, node))
        stack.extend(reversed(items_of(node.children())))
    return found


def gate_of(node: Any, prefix: str = METRIC_PREFIX) -> str | None:
    if node.nodeName() != "CollectMetrics":
        return None
    return gate_in(str(node.name()), prefix)


def is_source_gate(metrics: Any) -> bool:
    return str(metrics.child().getClass().getSimpleName()) == "StreamingRelationV2"


def made_of(node: Any) -> dict[int, Any]:
    """Expressions of a gate's own columns by id, if all that they are made of comes out of `node`.

    Looks at the projections at the top of the plan.
    """
    there = {int(column.exprId().id()) for column in items_of(node.output())}
    found: dict[int, Any] = {}
    while node.nodeName() == "Project":
        for column in items_of(node.projectList()):
            is_made = column.getClass().getSimpleName() == "Alias"
            if is_made and ids_in(column.child()) <= there:
                found[int(column.exprId().id())] = column.child()
        node = node.child()
    return found


def inlined_in(node: Any, condition: Any, known: set[int]) -> tuple[dict[int, Any], Any]:
    """Fate and arrival of a row as expressions by column, and the plan below them.

    A filter alone is less for Spark to plan, in every batch, than two projections and a filter.
    Nothing if the gate makes other columns too, which need their projections. And nothing if what
    it looks at is computed: Spark moves a filter below a projection and writes what that computes
    in the place of each column, and the arrival stands in several places. known: ids of columns
    that are not computed.
    """
    own: dict[int, Any] = {}
    while node.nodeName() == "Project":
        made = [c for c in items_of(node.projectList()) if c.getClass().getSimpleName() == "Alias"]
        if not made or any(c.name() not in (KEPT_COLUMN, *OBSERVED_TIMES) for c in made):
            break
        own |= {int(c.exprId().id()): c.child() for c in made if c.name() in (KEPT_COLUMN, SECONDS)}
        node = node.child()
    fate = int(condition.exprId().id())
    if fate not in own or not all(ids_in(e) <= known for e in own.values()):
        return {}, node
    arrivals = [expression for name, expression in own.items() if name != fate]
    is_cast = all(
        items_of(part.children()) == [] for e in arrivals for part in items_of(e.children())
    )
    return (own, node) if is_cast else ({}, node)


def from_sources(node: Any) -> set[int]:
    """Ids of columns that come as they are from the sources of a plan."""
    leaves = items_of(node.collectLeaves())
    return {int(column.exprId().id()) for leaf in leaves for column in items_of(leaf.output())}


def unasked(columns: list[Any], condition: Any) -> set[int]:
    """Ids of columns that nothing above the filter of a gate asks for."""
    policy = condition.name() == STAYS_COLUMN  # its filter stands below a choice of columns
    return {
        int(column.exprId().id())
        for column in columns
        if column.name() in OBSERVED_TIMES or (policy and column.name().startswith(COLUMN_PREFIX))
    }


def ids_in(expression: Any) -> set[int]:
    """Of the columns that the expression is made of."""
    return {int(column.exprId().id()) for column in items_of(expression.references().toSeq())}


def without_metrics(spark: SparkSession, node: Any) -> Any:
    """A plan with gates that count nothing, for triggers that do not allow it (continuous)."""
    if gate_of(node) is not None or gate_of(node, LETTERS_PREFIX) is not None:
        return without_metrics(spark, node.child())
    children = [without_metrics(spark, child) for child in items_of(node.children())]
    if not children:
        return node
    to_seq = jvm_of(spark).org.apache.spark.api.python.PythonUtils.toSeq
    return node.withNewChildren(to_seq(children))
