"""The fit planner: feasible input tables made ahead, a look-up when a plan is asked for.

Decides in advance which inputs every node can take (C-FIT; 2006, section 3; 2007,
section 6). When the input is too much, the entry of highest score that lies at or
below the observed rates is found, the input is scaled down to it, and the local plans
that go with the entry are put in place behind the splits.

Guarantees: feasible on every node and link; a load that fits is never shed; the score
is at least 1 - max_error of the best (see `sample_points` for the proof, and for the
absolute error of `spread_error` and `table_size`); `plan.gap` is proven for each plan,
also with `similarity`, where the error is not bounded in advance.
Not guaranteed: a table of reasonable size. It grows exponentially with the number of
inputs that are not interchangeable; past `max_entries` rows PlanningError says so. Any
table that is used by look-up alone must: with m alike inputs on one node, a row covers
a share error^(m-1) of the boundary, so 8 inputs at 10 % need ten million rows.
Also not supported: a node with several parents (PlanningError), and `keep_at_least`
(see `plan.unmet_guarantees`).

Cost: tables once per network and statistics; a look-up is a pass over the root's rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from headgate.network import Network, Statistics
from headgate.planning.flow_model import Floats, compile_flow
from headgate.planning.plan import Plan
from headgate.planning.sampled_tables.feasible_table import FeasibleTable
from headgate.planning.sampled_tables.sample_points import FitSettings
from headgate.planning.sampled_tables.score_bounds import ScoreBounds
from headgate.planning.sampled_tables.tree_plan import TreePlan
from headgate.planning.sampled_tables.tree_shedding import shedding_plan, tree_places
from headgate.planning.sampled_tables.tree_tables import tables_of

__all__ = ["FitPlanner", "FitSettings"]


class FitPlanner:
    """Sampled tables of feasible inputs, made ahead; a plan is a look-up (C-FIT, 2007).

    Example: `FitPlanner(network, settings=FitSettings(max_error=0.05)).plan({"a": 30})`.
    Reference: 2007, section 6; 2006, section 3.
    """

    name = "fit"

    def __init__(
        self,
        network: Network,
        statistics: Statistics | None = None,
        settings: FitSettings | None = None,
    ) -> None:
        self.settings = settings or FitSettings()
        self.model = compile_flow(network, statistics)
        self.trees = tables_of(network, statistics, self.settings)
        places = tree_places(self.model, (tree.nodes for tree in self.trees))
        self._plans = [
            TreePlan(self.model, tree, self.settings, place)
            for tree, place in zip(self.trees, places, strict=True)
        ]

    @property
    def tables(self) -> dict[str, FeasibleTable]:
        """Every node's table."""
        return {node: tree.tables[node].table for tree in self.trees for node in tree.nodes}

    @property
    def entries(self) -> int:
        """Rows of the roots' tables: what a look-up searches."""
        return sum(len(tree.root_table.table) for tree in self.trees)

    def plan(self, rates_per_second: Mapping[str, float]) -> Plan:
        """The plan of the best entry at these rates, in tuples per second by stream."""
        return self.plan_rates(self.model.rates(rates_per_second))

    def plan_rates(self, rates: Floats) -> Plan:
        """`plan` for checked rates in the order of the network's streams."""
        return shedding_plan(self.name, self.model, rates, self._plans, self._bounds)

    @cached_property
    def _bounds(self) -> ScoreBounds:
        return ScoreBounds(self.model)
