"""Plans without a centre: every node decides alone, from tables of the nodes behind it.

Each node holds its own part of the network and nothing else. It tells the node in
front of it, in a table of linear cuts, what score it and everything behind it can
make of given input rates. The node in front puts that table into its own program.
When rates arrive, each node decides for itself; what it sends on is what its
children can use, so that their own gates have nothing left to drop.

A node is a pure object: messages in, messages out. After the first tables only
differences travel, and rows that moved by less than `resend_above` do not travel
at all.

**Several parents.** A child's table is over all arcs that enter it. It goes to the
parent that comes last in the order of flow; the arcs of its other parents are open
numbers there, and stay in the table that this parent hands on to the next of them.
Rates of open inputs travel the same way. This is exact for any acyclic topology;
parents of a common child exchange messages as neighbours do.

**Tables cut short.** Where a table could not be enumerated, a child that sees rates
at which its table promised too much sends one more row, exact at these rates. Rows
are valid bounds, so the plan's own gap is proven at every step and falls with every
round.

Guarantees: every plan is feasible on every node; with exact tables it is optimal
to the solver's tolerance; `plan.gap` is proven by the tables. With `resend_above` t,
scores are expected within a factor 1 - t to 1 + t of the truth. Not guaranteed:
minimum keep fractions (use exact), and anything while messages are still on
their way.

Reference: 2007, section 6; 2006, sections 3 and 4. The tables are ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headgate.network import Network, Statistics
from headgate.planning.cut_tables.node_program import rates_for
from headgate.planning.cut_tables.table_messages import (
    Message,
    NodeSetup,
    RatesReported,
    SetupChanged,
)
from headgate.planning.cut_tables.table_node import TableNode, TableNodeSettings
from headgate.planning.flow_model import Floats, FlowModel, compile_flow, compile_part
from headgate.planning.keep import keep_from
from headgate.planning.plan import Plan, plan_from

__all__ = ["DfitPlanner", "DfitSettings", "expected_rates", "node_setup", "nodes_in_order"]


@dataclass(frozen=True, slots=True)
class DfitSettings:
    """max_rounds: how often one plan may go back for better rows.
    expected_load: tables are exact up to this multiple of the streams' usual rates.
    node: the settings of every node.
    """

    max_rounds: int = 50
    expected_load: float = 10.0
    node: TableNodeSettings = field(default_factory=TableNodeSettings)


class DfitPlanner:
    """All nodes of one network in one process, with the messages between them counted.

    The nodes are the same objects that run one on each machine; here a queue carries
    their messages, in order and without loss.
    """

    name = "dfit"

    def __init__(
        self,
        network: Network,
        statistics: Statistics | None = None,
        settings: DfitSettings | None = None,
    ) -> None:
        self.settings = settings or DfitSettings()
        self.bytes_sent = 0
        self.messages_sent = 0
        self.rounds = 0
        self.nodes: dict[str, TableNode] = {}
        self.change(network, statistics)

    def change(self, network: Network, statistics: Statistics | None = None) -> None:
        """Other costs, selectivities or places: only nodes that this concerns speak.

        Streams and queries may change too; everything is compared, nothing assumed.
        """
        self.model = compile_flow(network, statistics, gates_between_nodes=True)
        self._network = network
        self._location = {arc: index for index, arc in enumerate(self.model.locations)}
        self._order = nodes_in_order(network)
        expected = expected_rates(network, statistics, self.settings.expected_load)
        for name in [n for n in self.nodes if n not in self._order]:
            self._deliver(self.nodes[name].stop())
            del self.nodes[name]
        setups = {
            name: node_setup(network, statistics, name, self._order, expected)
            for name in reversed(self._order)
        }
        for name, setup in setups.items():
            if name not in self.nodes:
                self.nodes[name] = TableNode(setup, self.settings.node)
        for name, setup in setups.items():
            node = self.nodes[name]
            if not node.started:
                self._deliver(node.start())
            elif not _same_setup(setup, node.setup):
                self._deliver([SetupChanged(name, setup)])

    def plan(self, rates_per_second: Mapping[str, float]) -> Plan:
        """Let every node decide in the order of flow; go back for rows where promises failed."""
        rates = self.model.rates(rates_per_second)
        self._measure_streams(rates)
        for round_number in range(1, self.settings.max_rounds + 1):
            self.rounds = round_number
            keep, messages = self._decide_all()
            if not messages:
                break
            self._deliver(messages)
        bound = sum(node.promised for node in self.nodes.values() if node.recipient is None)
        bound += self._direct_score(rates)
        return plan_from(self.name, self.model, rates, keep, bound=bound)

    def _decide_all(self) -> tuple[Floats, list[Message]]:
        keep = np.ones(len(self.model.locations))
        messages: list[Message] = []
        for name in self._order:
            node = self.nodes[name]
            decision = node.decide()
            part = node.setup.part
            measured = rates_for(part.inputs, node.rates)
            fractions = keep_from(part, measured, decision.kept)
            keep[[self._location[arc] for arc in part.locations]] *= fractions
            flow = part.evaluate(measured, fractions)
            self._deliver(self._sent_on(part, flow.delivered))
            messages += node.refine(decision)
        return keep, messages

    def _sent_on(self, part: FlowModel, delivered: Floats) -> list[Message]:
        """What each child measures at its inputs once this node has decided."""
        sent: dict[str, dict[str, float]] = {}
        for arc_name, rate in zip(part.outputs, delivered.tolist(), strict=True):
            if "->" in arc_name:
                target = arc_name.partition("->")[2]
                child = self._network.operator_by_name[target].node
                sent.setdefault(child, {})[arc_name] = rate
        return [RatesReported(child, child, rates) for child, rates in sent.items()]

    def _measure_streams(self, rates: Floats) -> None:
        for name in self._order:
            part = self.nodes[name].setup.part
            streams = {
                arc.name: float(rates[self.model.inputs.index(arc.source)])
                for arc in part.locations
                if arc.source in self._network.stream_by_name
            }
            if streams:
                self._deliver([RatesReported(name, name, streams)])

    def _direct_score(self, rates: Floats) -> float:
        """Streams that go straight to a query cost nothing and pass no node."""
        weights = self._network.query_by_name
        return sum(
            weights[arc.target].weight * float(rates[self.model.inputs.index(arc.source)])
            for arc in self.model.locations
            if arc.source in self._network.stream_by_name and arc.target in weights
        )

    def _deliver(self, messages: list[Message]) -> None:
        waiting = deque(messages)
        while waiting:
            message = waiting.popleft()
            if not isinstance(message, SetupChanged) and message.sender != message.receiver:
                self.messages_sent += 1
                self.bytes_sent += message.size_bytes
            waiting.extend(self.nodes[message.receiver].handle(message))


def expected_rates(
    network: Network, statistics: Statistics | None, times_usual: float
) -> dict[str, float]:
    """The largest rate to prepare for on every arc that enters a node, tuples per second."""
    model = compile_flow(network, statistics, gates_between_nodes=True)
    usual = np.array([s.rate_per_second or 1.0 for s in network.streams])
    offered = model.unshed(usual * times_usual).offered
    return dict(zip((arc.name for arc in model.locations), offered.tolist(), strict=True))


def nodes_in_order(network: Network) -> list[str]:
    """Node names in the order of flow; nodes without operators are left out."""
    used = {o.node for o in network.operators}
    parents = {n.name: 0 for n in network.nodes}
    for children in network.children_of.values():
        for child in children:
            parents[child] += 1
    ready = [n.name for n in network.nodes if parents[n.name] == 0]
    for name in ready:  # grows while it is read
        for child in network.children_of[name]:
            parents[child] -= 1
            if parents[child] == 0:
                ready.append(child)
    return [name for name in ready if name in used]


def node_setup(
    network: Network,
    statistics: Statistics | None,
    name: str,
    order: list[str],
    expected: Mapping[str, float],
) -> NodeSetup:
    """What one node has to know of the network."""
    rank = {node: index for index, node in enumerate(order)}
    part = compile_part(network, name, statistics)
    owners: dict[str, tuple[int, str] | None] = {}
    for arc in part.locations[: len(part.inputs)]:
        owner = network.node_of(arc.source)
        owners[arc.name] = None if owner is None else (rank[owner], owner)
    return NodeSetup(name, rank[name], part, owners, expected)


def _same_setup(one: NodeSetup, other: NodeSetup) -> bool:
    arrays: list[Callable[[FlowModel], Floats]] = [
        lambda m: m.capacities,
        lambda m: m.weights,
        lambda m: m.feed.values,
        lambda m: m.load.values,
        lambda m: m.delivered.values,
    ]
    return (
        one.part.locations == other.part.locations
        and one.part.outputs == other.part.outputs
        and one.owners == other.owners
        and all(np.array_equal(array(one.part), array(other.part)) for array in arrays)
    )
