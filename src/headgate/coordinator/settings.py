"""What the coordinator is asked to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headgate.errors import UsageError
from headgate.network import Network
from headgate.planning.cut_tables.table_node import TableNodeSettings

__all__ = ["ClassSettings", "CoordinatorSettings", "Mode", "QuerySettings", "upstream_gates"]


class Mode(StrEnum):
    """on: shed when needed. off: measure and say what would be shed. open: keep all, at once."""

    ON = "on"
    OFF = "off"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """One query and its gates.

    gates:                  names of the gates in front of it; drop locations of the network,
                            where there is one.
    latency_target_seconds: None means no latency feedback for this query.
    controller:             a name of `headgate.control.LATENCY_CONTROLLERS`.
    controller_settings:    further settings of that controller.
    keep_at_least:          share of its tuples that is kept whatever happens, 0 to 1.
    drop_older_seconds:     tuples older than this are dropped at the gate; None keeps them.
    after:                  by gate: the gates of this query that its tuples passed before. Empty
                            means that all gates stand side by side. A tuple that passes two
                            gates was offered at the first and is kept at the last.
    """

    gates: tuple[str, ...]
    latency_target_seconds: float | None = None
    query_class: str | None = None
    controller: str = "model"
    controller_settings: Mapping[str, Any] = field(default_factory=dict)
    keep_at_least: float = 0.0
    drop_older_seconds: float | None = None
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.gates)) != len(self.gates):
            raise UsageError(f"a gate is named twice: {', '.join(self.gates)}")
        if not 0.0 <= self.keep_at_least <= 1.0:
            raise UsageError(f"keep_at_least must be from 0 to 1, got {self.keep_at_least!r}")
        target = self.latency_target_seconds
        if target is not None and not (math.isfinite(target) and target > 0):
            raise UsageError(f"latency_target_seconds must be above 0, got {target!r}")
        named = {*self.after, *(gate for before in self.after.values() for gate in before)}
        unknown = sorted(named - set(self.gates))
        if unknown:
            raise UsageError(
                f"after names {', '.join(unknown)}, which is no gate of the query; its gates "
                f"are {', '.join(self.gates) or 'none'}"
            )
        upstream_gates(self.after)

    @property
    def quantile(self) -> float:
        """The quantile of latency that the target is for; the mean counts as 0.5."""
        percentile = self.controller_settings.get("percentile")
        return 0.5 if percentile is None else float(percentile) / 100.0


def upstream_gates(after: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """All gates in front of each gate, from those directly in front of it.

    >>> sorted(upstream_gates({"b": ("a",), "c": ("b",)})["c"])
    ['a', 'b']
    """
    found: dict[str, frozenset[str]] = {}

    def collect(gate: str, path: tuple[str, ...]) -> frozenset[str]:
        if gate in path:
            raise UsageError(
                f"after goes in a circle: {' after '.join((*path[path.index(gate) :], gate))}"
            )
        if gate not in found:
            direct = after.get(gate, ())
            behind = (collect(other, (*path, gate)) for other in direct)
            found[gate] = frozenset(direct).union(*behind)
        return found[gate]

    return {gate: collect(gate, ()) for gate in after}


@dataclass(frozen=True, slots=True)
class ClassSettings:
    """Priority classes on one node.

    priorities:            by class; shares of the machine follow from them.
    delay_targets_seconds: by class, for the adaptive headroom.
    cycle_seconds:         time between two ticks (load cycles).
    redistribute_every:    cycles between two redistributions; 0 switches lending off.
    round_seconds:         length of one round of turns.
    keep_at_least:         guaranteed share of a class's data.
    initial_headroom:      capacity assumed for the whole node at the start.
    grace_seconds:         how long a turn waits for the next batch of a class that has time
                           left. Without it a query that needs a moment to come back would
                           lose its turn to any other that happens to wait.
    late_above:            a class whose response is above this share of its delay target has
                           a queue: it does not lend. Raise it where a batch alone takes long.
    default_delay_seconds: delay target of a class that has none, neither here nor by the latency
                           targets of its queries; None never sheds for such a class.
    least_turns:           so many queries may have a turn at once, however wide they are.
    cores:                 and as many more as long as their tasks are fewer than the cores,
    most_idle:             or while more than this share of the cores is seen to have no task though
                           a query waits: a batch leaves them idle while it is planned and
                           committed. 1: nobody counts.
    batch_every:           for micro-batches, which have a fixed cost. A class asks for what it
                           needs with a batch in each such share of its delay target, not for
                           what small batches happen to cost. None: costs as they come.
    due_above:             for micro-batches too. Turns go first to queries whose results would be
                           older than this share of their target; time that no such query wants
                           goes to the others, and is not charged. 0: every query is due.
    by_quota:              for micro-batches too, which are charged for their part of the time. The
                           estimate of a class's capacity is what its turns give it, unless its
                           response is short (then it may be higher) or above the target (lower).
    ease:                  while a class sheds and its response is short, each look that finds so
                           leaves at most this share of the shedding. The paper's equation (1)
                           is slow where the cost of a tuple is learnt wrongly from few tuples.
    least_keep:            no class sheds more than all but this share: without any result it
                           would never learn that it could keep more.
    one_shedder:           one headroom for all classes together (the baseline of the paper).
    """

    priorities: Mapping[str, float]
    delay_targets_seconds: Mapping[str, float] = field(default_factory=dict)
    cycle_seconds: float = 0.15
    redistribute_every: int = 10
    round_seconds: float = 0.1
    keep_at_least: Mapping[str, float] = field(default_factory=dict)
    initial_headroom: float = 0.8
    grace_seconds: float = 0.02
    late_above: float = 0.1
    default_delay_seconds: float | None = 1.0
    least_turns: int = 1
    cores: int = 1
    most_idle: float = 1.0
    batch_every: float | None = None
    due_above: float = 0.0
    by_quota: bool = False
    ease: float = 1.0
    least_keep: float = 0.0
    one_shedder: bool = False


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The smallest useful installation is one query with one gate and a latency target.

    network:     where there is one, plans bound what its gates keep.
    node:        the node of the network that this coordinator runs on; None plans for all.
    classes:     turns and shares by priority.
    replan_above: relative change of a rate that makes the plan be computed again.
    replan_margin: a node of a distributed plan decides for rates that are higher by
                 `replan_above`, because it does not look again before they are. So it
                 stays within its capacity and gives up at most that share under overload.
                 False decides for the rates as they are. No matter for a central plan.
    tables:      how a node's tables are made and when they are sent again.
    expected_rates_per_second: the largest rate to prepare tables for, by arc; None means
                 ten times what the described rates lead to.
    """

    queries: Mapping[str, QuerySettings] = field(default_factory=dict)
    mode: Mode = Mode.ON
    network: Network | None = None
    node: str | None = None
    classes: ClassSettings | None = None
    replan_above: float = 0.01
    replan_margin: bool = True
    tables: TableNodeSettings = field(default_factory=TableNodeSettings)
    expected_rates_per_second: Mapping[str, float] | None = None
