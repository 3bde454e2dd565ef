"""The look-up for one tree whose tables were made in one place."""

from __future__ import annotations

import numpy as np

from headgate.planning.flow_model import Floats, FlowModel
from headgate.planning.sampled_tables.entry_scan import EntryScan
from headgate.planning.sampled_tables.point_quadtree import PointQuadtree
from headgate.planning.sampled_tables.sample_points import FitSettings
from headgate.planning.sampled_tables.tree_shedding import Shedding, TreePlace, location_numbers
from headgate.planning.sampled_tables.tree_tables import TreeTables

__all__ = ["TreePlan"]


class TreePlan:
    """Finds the best entry at or below the rates and scales the input down to it."""

    def __init__(
        self, model: FlowModel, tree: TreeTables, settings: FitSettings, place: TreePlace
    ) -> None:
        self.place = place
        self._tree, self._settings = tree, settings
        table, offer = tree.root_table.table, tree.root_table.shape.offer
        self._table = table
        self._entries = location_numbers(model, offer.arcs)
        self._number = {arc.name: index for index, arc in enumerate(model.locations)}
        self._streams = model.input_of[self._entries]
        self._free = np.array(offer.free_worth)
        self._column = np.array(offer.column_of, dtype=np.int64)
        finder = EntryScan if settings.look_up == "scan" else PointQuadtree
        self._finder = finder(table.rates, table.scores)

    def shed(self, rates: Floats) -> Shedding:
        """What to drop at these rates of all streams, in tuples per second."""
        arc_rates = rates[self._streams]
        column_rates = self._table.column_rates(arc_rates)
        row = self._finder.find(column_rates)
        target = np.zeros(self._table.columns) if row is None else self._table.rates[row]
        share = np.divide(target, column_rates, out=np.ones_like(target), where=column_rates > 0.0)
        used = self._column >= 0
        kept = {} if row is None else self._tree.gate_rates(row)
        return Shedding(
            self._entries[used],
            np.minimum(share, 1.0)[self._column[used]],
            np.array([self._number[arc] for arc in kept], dtype=np.int64),
            np.array(list(kept.values())),
            self._bound(row, float(self._free @ arc_rates)),
        )

    def _bound(self, row: int | None, free: float) -> float:
        """What the entry found says about the best; nothing where rows were thinned out."""
        if row is None or self._settings.similarity > 0.0:
            return float("inf")
        score = float(self._table.scores[row])
        return free + self._tree.budget.bound(score, self._table.loss)
