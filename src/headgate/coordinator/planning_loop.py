"""The plan in the coordinator: recomputed when rates or numbers move, for one node or all.

For a whole network the exact planner decides. For one node of a network it is that
node's part of the distributed planner, with the tables that neighbours have sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headgate.coordinator.events import NeighbourMessage
from headgate.coordinator.settings import CoordinatorSettings
from headgate.errors import GuaranteesCollideError, PlanningError
from headgate.network import Network, OperatorStatistics, Statistics
from headgate.planning import ExactPlanner
from headgate.planning.cut_tables.dfit import expected_rates, node_setup, nodes_in_order
from headgate.planning.cut_tables.node_program import NodeDecision, rates_for
from headgate.planning.cut_tables.table_messages import (
    Message,
    NodeSetup,
    RatesReported,
    SetupChanged,
)
from headgate.planning.cut_tables.table_node import TableNode
from headgate.planning.guarantees import gate_floors, keep_in_collision
from headgate.planning.keep import keep_from

__all__ = ["CentralPlan", "NodePlan"]

_EXPECTED_LOAD = 10.0


class CentralPlan:
    """One plan for the whole network, by drop location.

    floors: the least that a gate may keep, so that guaranteed minimums hold end to end.
    """

    def __init__(self, network: Network, replan_above: float) -> None:
        self.keep_fraction: dict[str, float] = {}
        self.floors: dict[str, float] = gate_floors(network)
        self.problem: str | None = None
        self._network = network
        self._replan_above = replan_above
        self._operators: dict[str, OperatorStatistics] = {}
        self._planner: ExactPlanner | None = None
        self._rates: dict[str, float] = {}

    def observe(
        self,
        rates: Mapping[str, float],
        operators: Mapping[str, OperatorStatistics],
        capacities: Mapping[str, float] | None = None,
    ) -> list[NeighbourMessage]:
        """Take in rates and numbers; replan if they have moved. Nobody is told."""
        fresh = {n: s for n, s in operators.items() if self._operators.get(n) != s}
        network = _with_capacities(self._network, capacities or {})
        if fresh or network is not self._network:
            self._network = network
            self._operators |= fresh
            self._planner = None
        if self._planner is None or _moved(self._rates, rates, self._replan_above):
            self._rates = dict(rates)
            self._replan()
        return []

    def receive(self, message: NeighbourMessage) -> list[NeighbourMessage]:
        raise PlanningError(
            f"a coordinator that plans for the whole network got a message from {message.sender}; "
            "name the node that it runs on"
        )

    def _replan(self) -> None:
        try:
            if self._planner is None:
                self._planner = ExactPlanner(self._network, Statistics(self._operators))
            plan = self._planner.plan(self._rates)
            self.keep_fraction = dict(plan.keep_fraction)
            if self.floors:
                shares = plan.query_keep_fraction
                self.floors = gate_floors(self._network, self.keep_fraction, shares)
            self.problem = None
        except PlanningError as error:
            self.problem = str(error)
            if isinstance(error, GuaranteesCollideError):
                self.keep_fraction = keep_in_collision(self._network, error.constraints)
                self.floors = gate_floors(self._network)


class NodePlan:
    """The decisions of one node of the distributed planner."""

    def __init__(self, network: Network, node: str, settings: CoordinatorSettings) -> None:
        self.keep_fraction: dict[str, float] = {}
        self.floors: dict[str, float] = {}  # this planner promises no minimums
        self.problem: str | None = None
        self._network, self._name = network, node
        self._replan_above = settings.replan_above
        self._margin = 1.0 + settings.replan_above if settings.replan_margin else 1.0
        self._expected = settings.expected_rates_per_second
        self._operators: dict[str, OperatorStatistics] = {}
        self._node = TableNode(self._setup(), settings.tables)
        self._heard = False
        self._rates: dict[str, float] = {}

    def observe(
        self,
        rates: Mapping[str, float],
        operators: Mapping[str, OperatorStatistics],
        capacities: Mapping[str, float] | None = None,
    ) -> list[NeighbourMessage]:
        """Rates of streams by name or of arcs by "source->target"; answers go to neighbours."""
        messages: list[NeighbourMessage] = []
        if not self._node.started:
            messages += _travelling(self._node.start())
        measured = {n: s for n, s in operators.items() if self._operators.get(n) != s}
        network = _with_capacities(self._network, capacities or {})
        fresh = bool(measured) or network is not self._network
        if fresh:
            self._operators |= measured
            self._network = network
            setup = SetupChanged(self._name, self._setup())
            messages += _travelling(self._node.handle(setup))
        heard, self._heard = self._heard, False
        if heard:
            messages += _travelling(self._node.speak())
        by_arc = self._by_arc(rates)
        new = fresh or heard or not self.keep_fraction
        if new or _moved(self._rates, by_arc, self._replan_above):
            self._rates = by_arc
            prepared = {name: rate * self._margin for name, rate in by_arc.items()}
            told = RatesReported(self._name, self._name, prepared)
            messages += _travelling(self._node.handle(told))
            messages += self._decide()
        return messages

    def receive(self, message: NeighbourMessage) -> list[NeighbourMessage]:
        """A neighbour's table or rates. It counts for the own gates at once.

        The node's own table follows when rates are next observed, so that many messages
        make it once and not once for each.
        """
        self._heard = True
        reports = _travelling(self._node.hear(message))
        if self._node.started:
            self._keep(self._node.decide())
        return reports

    def _decide(self) -> list[NeighbourMessage]:
        decision = self._node.decide()
        self._keep(decision)
        return _travelling(self._node.refine(decision))

    def _keep(self, decision: NodeDecision) -> None:
        part = self._node.setup.part
        keep = keep_from(part, rates_for(part.inputs, self._node.rates), decision.kept)
        names = (arc.name for arc in part.locations)
        self.keep_fraction = dict(zip(names, np.clip(keep, 0.0, 1.0).tolist(), strict=True))

    def _by_arc(self, rates: Mapping[str, float]) -> dict[str, float]:
        part = self._node.setup.part
        named = {}
        for arc in part.locations[: len(part.inputs)]:
            rate = rates.get(arc.name, rates.get(arc.source))
            if rate is not None:
                named[arc.name] = rate
        return named

    def _setup(self) -> NodeSetup:
        network, statistics = self._network, Statistics(self._operators)
        expected = self._expected
        if expected is None:
            expected = expected_rates(network, statistics, _EXPECTED_LOAD)
        return node_setup(network, statistics, self._name, nodes_in_order(network), expected)


def _with_capacities(network: Network, capacities: Mapping[str, float]) -> Network:
    """The network with measured capacities; itself where they are what it has."""
    known = {node.name: node.capacity for node in network.nodes}
    if all(known.get(name, value) == value for name, value in capacities.items()):
        return network
    nodes = (replace(n, capacity=capacities.get(n.name, n.capacity)) for n in network.nodes)
    return replace(network, nodes=tuple(nodes))


def _travelling(messages: Sequence[Message]) -> list[NeighbourMessage]:
    return [m for m in messages if not isinstance(m, SetupChanged)]


def _moved(old: Mapping[str, float], new: Mapping[str, float], above: float) -> bool:
    """True when any rate has changed by more than the share `above`."""
    if old.keys() != new.keys():
        return True
    return any(abs(rate - old[name]) > above * max(old[name], 1e-12) for name, rate in new.items())
