"""All tables of one tree of nodes, made in one place: the centralised form (C-FIT).

The same three passes that the nodes of `dfit_sampled` do by messages: offers from the
leaves to the root, limits from the root to the leaves, tables from the leaves to the
root. Every step is the same pure function of one node and its neighbours, so the
tables are equal entry by entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.network import Network, Statistics
from headgate.planning.sampled_tables.node_part import NodePart, node_parts
from headgate.planning.sampled_tables.node_shape import NodeShape, node_shape
from headgate.planning.sampled_tables.sample_points import Budget, FitSettings, budget_for
from headgate.planning.sampled_tables.table_limits import Limits, child_limits, root_limits
from headgate.planning.sampled_tables.table_merge import NodeTable, node_table

__all__ = ["TreeTables", "tables_of", "trees_of"]


@dataclass(frozen=True)
class TreeTables:
    """The tables of one tree, by node; `nodes` has the root first."""

    root: str
    nodes: tuple[str, ...]
    tables: Mapping[str, NodeTable]
    limits: Mapping[str, Limits]
    budget: Budget

    @property
    def root_table(self) -> NodeTable:
        return self.tables[self.root]

    def gate_rates(self, row: int) -> dict[str, float]:
        """The local plans of all nodes under a row of the root: tuples kept by arc."""
        kept: dict[str, float] = {}
        waiting = [(self.root, row)]
        while waiting:
            node, number = waiting.pop()
            table = self.tables[node]
            kept.update(zip(table.shape.gate_arc, table.gate_rates[number].tolist(), strict=True))
            rows = table.child_rows[number].tolist()
            waiting += zip(table.shape.part.children, rows, strict=True)
        return kept


def tables_of(
    network: Network, statistics: Statistics | None, settings: FitSettings
) -> tuple[TreeTables, ...]:
    """The tables of every tree of the network."""
    parts = node_parts(network, statistics)
    return tuple(_tree(parts, nodes, settings) for nodes in trees_of(parts))


def trees_of(parts: Mapping[str, NodePart]) -> list[tuple[str, ...]]:
    """The nodes of each tree, every node after its parent."""
    trees = []
    for name, part in parts.items():
        if part.parent is None:
            nodes = [name]
            for node in nodes:  # grows while it is read
                nodes += parts[node].children
            trees.append(tuple(nodes))
    return trees


def _tree(
    parts: Mapping[str, NodePart], nodes: tuple[str, ...], settings: FitSettings
) -> TreeTables:
    shapes: dict[str, NodeShape] = {}
    for name in reversed(nodes):
        offers = [shapes[child].offer for child in parts[name].children]
        shapes[name] = node_shape(parts[name], offers, join_inputs=settings.join_inputs)
    root = shapes[nodes[0]].offer
    limits: dict[str, Limits] = {nodes[0]: root_limits(root)}
    for name in nodes:
        limits |= child_limits(shapes[name], limits[name])
    tables: dict[str, NodeTable] = {}
    for name in reversed(nodes):
        children = [tables[child].table for child in parts[name].children]
        tables[name] = node_table(shapes[name], children, limits[name], settings)
    return TreeTables(nodes[0], nodes, tables, limits, budget_for(settings, root.merges))
