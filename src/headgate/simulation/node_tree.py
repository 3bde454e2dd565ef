"""Many nodes in a tree, each with its own coordinator, in virtual time.

Every node runs a real `Coordinator` in distributed mode: it measures its own inputs,
exchanges tables with its parent, and shares its time between the classes of its
queries. A message takes one step of time to arrive. In every step, from the root to the
leaves, a node hears its messages, observes its rates, and runs the batches of its
queries in the turns that it grants; what its gates let through is what its children
measure in the same step.

A batch is one step's worth of a query's tuples, counted and not simulated one by one;
fractions of tuples are carried over. Deterministic: no random numbers are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headgate.coordinator import (
    BatchCompleted,
    BatchStarted,
    ClassSettings,
    Coordinator,
    CoordinatorSettings,
    Decision,
    GateCount,
    GrantTurn,
    QuerySettings,
    RatesObserved,
    SendTable,
    SetKeepFraction,
    TableReceived,
    Tick,
)
from headgate.coordinator.events import NeighbourMessage
from headgate.network import Network
from headgate.planning import FlowModel, compile_flow
from headgate.planning.cut_tables.dfit import expected_rates, nodes_in_order
from headgate.planning.cut_tables.table_node import TableNodeSettings
from headgate.planning.flow_model import Floats, compile_part

__all__ = ["REPLAN_ABOVE", "NodeTree", "TreeStep"]

REPLAN_ABOVE = 0.01  # a node decides anew when a rate has moved by more than this share


@dataclass(frozen=True)
class TreeStep:
    """What happened in one step: score of the whole tree, traffic, and kept tuples by class.

    overloaded_nodes: nodes and links above their capacity.
    largest_load_share: the largest load of a node or link, as a share of its capacity.
    """

    time_seconds: float
    score: float
    overloaded_nodes: int
    largest_load_share: float
    messages: int
    message_bytes: int
    offered_by_class: Mapping[str, int]
    kept_by_class: Mapping[str, int]


@dataclass
class _SimulatedNode:
    name: str
    part: FlowModel
    coordinator: Coordinator
    gates: Mapping[str, str]  # by query: the gate in front of it
    classes: Mapping[str, str]
    seconds_per_tuple: Mapping[str, float]
    keep: dict[str, float] = field(default_factory=dict)
    batch: int = 0
    inbox: list[NeighbourMessage] = field(default_factory=list)

    def fractions(self) -> Floats:
        """What each gate of the node keeps now."""
        return np.array([self.keep.get(arc.name, 1.0) for arc in self.part.locations])


class _Account:
    """Offered and kept tuples by class, of one step."""

    def __init__(self) -> None:
        self.offered: dict[str, int] = {}
        self.kept: dict[str, int] = {}

    def add(self, query_class: str, offered: int, kept: int) -> None:
        self.offered[query_class] = self.offered.get(query_class, 0) + offered
        self.kept[query_class] = self.kept.get(query_class, 0) + kept


class NodeTree:
    """A network whose nodes decide alone; `step` moves virtual time by one second.

    replan_margin: nodes decide for rates that are higher by `REPLAN_ABOVE`; see
    `CoordinatorSettings`.
    """

    def __init__(
        self,
        network: Network,
        classes: ClassSettings,
        tables: TableNodeSettings | None = None,
        *,
        replan_margin: bool = True,
    ) -> None:
        self.network = network
        self._replan_margin = replan_margin
        self.model = compile_flow(network, gates_between_nodes=True)
        self.time_seconds = 0.0
        self._location = {arc: index for index, arc in enumerate(self.model.locations)}
        self._order = nodes_in_order(network)
        self._expected = expected_rates(network, None, 10.0)
        self._tables = tables or TableNodeSettings()
        self._nodes = {name: self._node(name, classes) for name in self._order}

    def step(self, rates: Mapping[str, float]) -> TreeStep:
        """One second at these stream rates (tuples per second)."""
        measured: dict[str, float] = {}
        keep = np.ones(len(self.model.locations))
        sent: list[NeighbourMessage] = []
        account = _Account()
        for name in self._order:
            node = self._nodes[name]
            entering = _entering(node.part, rates, measured)
            decisions = self._listen(node)
            decisions += node.coordinator.handle(RatesObserved(self.time_seconds, entering))
            sent += _carry_out(node, decisions)
            inputs = np.array(list(entering.values()))
            self._run_queries(node, node.part.evaluate(inputs, node.fractions()).offered, account)
            fractions = node.fractions()
            flow = node.part.evaluate(inputs, fractions)
            measured.update(zip(node.part.outputs, flow.delivered.tolist(), strict=True))
            keep[[self._location[arc] for arc in node.part.locations]] *= fractions
        for message in sent:
            self._nodes[message.receiver].inbox.append(message)
        flow = self.model.evaluate(self.model.rates(rates), keep)
        over = int(np.sum(flow.loads > self.model.capacities))
        fullest = self.model.fullest(flow)
        now, self.time_seconds = self.time_seconds, self.time_seconds + 1.0
        size = sum(message.size_bytes for message in sent)
        return TreeStep(
            now, flow.score, over, fullest, len(sent), size, account.offered, account.kept
        )

    def _run_queries(self, node: _SimulatedNode, offered: Floats, account: _Account) -> None:
        """A batch for each query, in the turns that the node's coordinator grants."""
        arriving = dict(zip((a.name for a in node.part.locations), offered.tolist(), strict=True))
        waiting = {query: round(arriving[gate]) for query, gate in node.gates.items()}
        decisions: list[Decision] = []
        for query, count in waiting.items():
            event = BatchStarted(self.time_seconds, query, node.batch, {node.gates[query]: count})
            decisions += node.coordinator.handle(event)
        while granted := [d.query for d in decisions if isinstance(d, GrantTurn)]:
            _carry_out(node, decisions)
            decisions = []
            for query in granted:
                gate, count = node.gates[query], waiting[query]
                kept = round(count * node.keep.get(gate, 1.0))
                account.add(node.classes[query], count, kept)
                busy = kept * node.seconds_per_tuple[query]
                counts = {gate: GateCount(count, kept, count - kept)}
                done = BatchCompleted(
                    self.time_seconds, query, node.batch, busy, busy, counts, busy, {}, float(count)
                )
                decisions += node.coordinator.handle(done)
            decisions += node.coordinator.handle(Tick(self.time_seconds + 0.999))
        node.batch += 1

    def _node(self, name: str, classes: ClassSettings) -> _SimulatedNode:
        network = self.network
        here = [o for o in network.operators if o.node == name]
        names = {o.name for o in here}
        queries = {q.name: q for q in network.queries if q.input in names}
        gates = {
            query.name: f"{network.operator_by_name[query.input].inputs[0]}->{query.input}"
            for query in queries.values()
        }
        settings = CoordinatorSettings(
            queries={
                query.name: QuerySettings((gates[query.name],), query_class=query.query_class)
                for query in queries.values()
            },
            network=network,
            node=name,
            classes=classes,
            replan_above=REPLAN_ABOVE,
            replan_margin=self._replan_margin,
            tables=self._tables,
            expected_rates_per_second=self._expected,
        )
        return _SimulatedNode(
            name,
            compile_part(network, name),
            Coordinator(settings),
            gates,
            {q.name: q.query_class or "" for q in queries.values()},
            {
                q.name: network.operator_by_name[q.input].cost_seconds or 0.0
                for q in queries.values()
            },
        )

    def _listen(self, node: _SimulatedNode) -> list[Decision]:
        inbox, node.inbox = node.inbox, []
        decisions: list[Decision] = []
        for message in inbox:
            decisions += node.coordinator.handle(TableReceived(self.time_seconds, message))
        return decisions


def _entering(
    part: FlowModel, rates: Mapping[str, float], measured: Mapping[str, float]
) -> dict[str, float]:
    """The rates at the inputs of a part: of streams, or of what its parent sends."""
    arcs = part.locations[: len(part.inputs)]
    return {arc.name: rates.get(arc.source, measured.get(arc.name, 0.0)) for arc in arcs}


def _carry_out(node: _SimulatedNode, decisions: Sequence[Decision]) -> list[NeighbourMessage]:
    """Set the gates; return what is to be sent."""
    for decision in decisions:
        if isinstance(decision, SetKeepFraction):
            node.keep[decision.gate] = decision.keep_fraction
    return [d.message for d in decisions if isinstance(d, SendTable)]
