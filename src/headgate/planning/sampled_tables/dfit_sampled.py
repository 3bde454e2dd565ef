"""The sampled distributed planner (D-FIT): nodes that only talk to their neighbours.

Each node is a `FitNode`; this module holds them, carries their messages in a fixed
order and adds their decisions up to one plan, so that they can be compared with the
other planners. Nothing is decided here: tables, entries and local plans are the nodes'.
The whole network is used for two things that no node can do alone: to see whether a
tree is overloaded at all, and to prove how good the plan is.

Guarantees: those of `fit`, entry by entry, while the threshold is 0. With a threshold
a node keeps some old rows after a change; plans stay feasible and `plan.gap` stays
true, but the error is not bounded in advance.

Reference: 2007, sections 6, 7 and 8.2.5; 2006, section 3.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headgate.errors import PlanningError
from headgate.network import Network, Statistics
from headgate.planning.flow_model import Floats, FlowModel, compile_flow
from headgate.planning.plan import Plan
from headgate.planning.sampled_tables.fit_messages import FitMessage, Kind
from headgate.planning.sampled_tables.fit_node import FitNode
from headgate.planning.sampled_tables.node_part import NodePart, node_parts
from headgate.planning.sampled_tables.sample_points import FitSettings
from headgate.planning.sampled_tables.score_bounds import ScoreBounds
from headgate.planning.sampled_tables.tree_shedding import (
    Shedding,
    TreePlace,
    location_numbers,
    shedding_plan,
    tree_places,
)
from headgate.planning.sampled_tables.tree_tables import trees_of

__all__ = ["SampledDfit", "SampledDfitSettings", "Traffic", "deliver"]

_MESSAGES = 100_000  # in one exchange; more means that nodes never agree


@dataclass(frozen=True, slots=True)
class SampledDfitSettings(FitSettings):
    """As for `fit`, and threshold: the difference of score up to which an old row stays
    after a change (see `fit_delta`); 0 sends every change.
    """

    threshold: float = 0.0

    def __post_init__(self) -> None:
        FitSettings.__post_init__(self)
        if not 0.0 <= self.threshold < 1.0:
            raise PlanningError(f"threshold must be from 0 to below 1, not {self.threshold!r}")


@dataclass
class Traffic:
    """What went over the wire, by kind: messages, table rows and bytes."""

    messages: dict[Kind, int] = field(default_factory=dict)
    rows: dict[Kind, int] = field(default_factory=dict)
    size_bytes: dict[Kind, int] = field(default_factory=dict)

    def count(self, message: FitMessage) -> None:
        kind = message.kind
        self.messages[kind] = self.messages.get(kind, 0) + 1
        self.size_bytes[kind] = self.size_bytes.get(kind, 0) + message.size_bytes
        self.rows[kind] = self.rows.get(kind, 0) + len(message.body.get("scores", ()))


def deliver(
    nodes: Mapping[str, FitNode], messages: Iterable[FitMessage], *, as_json: bool = False
) -> Traffic:
    """Carry messages, first in first out, until nobody has anything to say.

    as_json writes and reads each message as text on its way, as a transport would.
    """
    waiting = deque(messages)
    traffic = Traffic()
    for _ in range(_MESSAGES):
        if not waiting:
            return traffic
        message = waiting.popleft()
        traffic.count(message)
        if as_json:
            message = FitMessage.from_json(message.to_json())
        waiting.extend(nodes[message.receiver].handle(message))
    raise PlanningError(f"the nodes have exchanged {_MESSAGES} messages without coming to an end")


class SampledDfit:
    """Sampled tables made by nodes that only talk to their neighbours (D-FIT, 2007).

    Example: `SampledDfit(network).plan({"a": 30.0}).keep_fraction`.
    """

    name = "dfit-sampled"

    def __init__(
        self,
        network: Network,
        statistics: Statistics | None = None,
        settings: SampledDfitSettings | None = None,
    ) -> None:
        self.settings = settings or SampledDfitSettings()
        self.nodes: dict[str, FitNode] = {}
        self.traffic = self.change(network, statistics)

    def change(self, network: Network, statistics: Statistics | None = None) -> Traffic:
        """Give every node its part of a network; those whose part is new speak up."""
        parts = node_parts(network, statistics)
        trees = trees_of(parts)
        self.model = compile_flow(network, statistics)
        self._bounds = ScoreBounds(self.model)
        for name in set(self.nodes) - set(parts):
            del self.nodes[name]
        messages: list[FitMessage] = []
        for tree in trees:
            for name in reversed(tree):
                messages += self._given(parts[name])
        places = tree_places(self.model, trees)
        self._trees = [
            _TalkingTree(self.model, {name: self.nodes[name] for name in tree}, place)
            for tree, place in zip(trees, places, strict=True)
        ]
        return deliver(self.nodes, messages)

    def plan(self, rates_per_second: Mapping[str, float]) -> Plan:
        """What the nodes decide at these rates, in tuples per second by stream."""
        return self.plan_rates(self.model.rates(rates_per_second))

    def plan_rates(self, rates: Floats) -> Plan:
        """`plan` for checked rates in the order of the network's streams."""
        return shedding_plan(self.name, self.model, rates, self._trees, self._bounds)

    def _given(self, part: NodePart) -> list[FitMessage]:
        node = self.nodes.get(part.node)
        if node is None:
            node = FitNode(part, self.settings, self.settings.threshold)
            self.nodes[part.node] = node
            return node.start()
        return [] if node.part == part else node.change(part)


class _TalkingTree:
    """A tree whose nodes decide by messages; the first node is the root."""

    def __init__(self, model: FlowModel, nodes: Mapping[str, FitNode], place: TreePlace) -> None:
        self.place = place
        self._model, self._nodes = model, nodes

    def shed(self, rates: Floats) -> Shedding:
        """Measure at every node, let the root decide, collect what each node does."""
        offered = self._model.input_rates(rates)
        messages: list[FitMessage] = []
        for node in self._nodes.values():
            arcs = node.stream_arcs
            seen = offered[location_numbers(self._model, arcs)]
            messages += node.measure(dict(zip(arcs, seen.tolist(), strict=True)))
        deliver(self._nodes, messages)
        root = next(iter(self._nodes.values()))
        deliver(self._nodes, root.decide())
        keep: dict[str, float] = {}
        kept: dict[str, float] = {}
        for node in self._nodes.values():
            keep |= node.decision.keep_fraction
            kept |= node.decision.kept_rate
        return Shedding(
            location_numbers(self._model, keep),
            np.array(list(keep.values())),
            location_numbers(self._model, kept),
            np.array(list(kept.values())),
            float("inf"),
        )
