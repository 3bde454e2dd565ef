"""The query network, the node and the input of the 2011 paper's experiments (section V).

Three classes with priorities 6, 3 and 1 and delay targets of 300, 400 and 500 ms, each
with the same 11 queries: four selects, five aggregates and two window joins. A class has
two streams, each read by one operator; a select query is one filter, an aggregate query
a filter and an aggregate, a join query a window join of the two streams.

The paper gives neither costs nor the length of a round. Here a run of an operator costs
23 µs, and 10 µs for each tuple of a filter or an aggregate, 20 µs of a join and 2 µs of a
reader; a round is 22.5 ms and a run takes at most 50 tuples. These were fitted to the
paper's tables I to III (some 25 combinations were tried), so our numbers there are no
independent check of the model. With 1300 tuples/s everywhere

- a class of large batches needs 26 % of the node, so that three fit with room to spare;
- classes 1 and 2, left to themselves, read so often and so few tuples that they need 40 %
  each, and class 3 gets too little: the total load is about the capacity, as in the paper;
- results of classes 1 and 2 take about 3 ms.

Arrivals are evenly spaced, as the paper's constant rates are, and then delayed by up to
1 ms at random: without it six streams in step would make a rhythm of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from headgate.coordinator.settings import ClassSettings
from headgate.network import Network, NetworkBuilder
from headgate.simulation.arrivals import Arrivals, Constant, Steps
from headgate.simulation.operator_run import OperatorLoad, OperatorSetup

__all__ = [
    "CLASSES",
    "S_STEPS_CLASS1",
    "class_network",
    "class_settings",
    "constant_load",
    "paper_setup",
    "step_load",
]

CLASSES = ("class1", "class2", "class3")
S_STEPS_CLASS1 = (2600.0, 1200.0, 2600.0, 1600.0, 2600.0)
"""Tuples per second of class 1 in S_steps. The text of the paper gives no numbers for its
figure 6. Some 20 sets were tried; this one lets class 1 need nearly all of its original
60 % of the node, then half of it, and so on, and take its capacity back at the 100th second,
as the paper says. Class 2 has to shed only while class 1 uses its whole portion in small
batches, that is before it has first lent capacity: sets that begin low cost class 2 nothing.
With rates up to some 1600 throughout hardly anything has to be shed."""

_PRIORITIES = MappingProxyType({"class1": 6.0, "class2": 3.0, "class3": 1.0})
_DELAY_TARGETS_SECONDS = MappingProxyType({"class1": 0.3, "class2": 0.4, "class3": 0.5})
_TUPLE_SECONDS = 10e-6
_JOIN_SECONDS = 20e-6
_READ_SECONDS = 2e-6
_RUN_SECONDS = 23e-6
_ROUND_SECONDS = 22.5e-3
_MOST_TUPLES_PER_RUN = 50
_JITTER_SECONDS = 1e-3


def class_settings(
    redistribute_every: int = 10, keep_at_least: Mapping[str, float] | None = None
) -> ClassSettings:
    """The paper's classes; headrooms begin at 0.6, 0.3 and 0.1 (section IV-B).

    redistribute_every: load cycles between two redistributions; 0 means no lending.
    keep_at_least:      guaranteed share of a class's data (beyond the paper).
    """
    return ClassSettings(
        priorities=_PRIORITIES,
        delay_targets_seconds=_DELAY_TARGETS_SECONDS,
        redistribute_every=redistribute_every,
        round_seconds=_ROUND_SECONDS,
        keep_at_least=keep_at_least or {},
        initial_headroom=1.0,
    )


def paper_setup(network: Network | None = None) -> OperatorSetup:
    """The node of the experiments; every operator has the same fixed cost for a run."""
    network = network or class_network()
    return OperatorSetup(
        network,
        dict.fromkeys(network.operator_by_name, _RUN_SECONDS),
        class_settings(),
        _MOST_TUPLES_PER_RUN,
    )


def class_network(classes: Sequence[str] = CLASSES, shared_readers: bool = False) -> Network:
    """The 11 queries for each class. With `shared_readers` all classes read the same two
    streams through the same two operators (beyond the paper)."""
    b = NetworkBuilder("classes")
    node = b.node("node")
    readers = _readers(b, "all", node) if shared_readers else ()
    for name in classes:
        _queries(b, name, node, readers or _readers(b, name, node))
    return b.build()


def constant_load(rate_per_second: float = 1300.0, seconds: float = 120.0) -> OperatorLoad:
    """S_c: the same constant rate on every stream."""
    return _load(dict.fromkeys(CLASSES, Constant(rate_per_second)), seconds)


def step_load(
    step_seconds: float = 50.0, class1_per_second: Sequence[float] = S_STEPS_CLASS1
) -> OperatorLoad:
    """S_steps: classes 2 and 3 at 1500 and 900 tuples/s, class 1 changes at every step."""
    steps = Steps(tuple(class1_per_second), step_seconds)
    arrivals = {"class1": steps, "class2": Constant(1500.0), "class3": Constant(900.0)}
    return _load(arrivals, step_seconds * len(class1_per_second))


def _load(arrivals: Mapping[str, Arrivals], seconds: float) -> OperatorLoad:
    streams = {f"{name}.{side}": a for name, a in arrivals.items() for side in ("a", "b")}
    return OperatorLoad(streams, seconds, _JITTER_SECONDS)


def _readers(b: NetworkBuilder, name: str, node: str) -> tuple[str, str]:
    first, second = (
        b.map(f"{name}.read_{side}", b.stream(f"{name}.{side}"), node, cost_seconds=_READ_SECONDS)
        for side in ("a", "b")
    )
    return first, second


def _queries(b: NetworkBuilder, name: str, node: str, readers: Sequence[str]) -> None:
    """Four selects, five aggregates, two joins; selects and aggregates take turns."""
    for i in range(4):
        query = f"{name}.select{i + 1}"
        _filter(b, query, readers[i % 2], node)
        b.query(f"{query}.out", query, query_class=name)
    for i in range(5):
        query = f"{name}.aggregate{i + 1}"
        where = _filter(b, f"{query}.where", readers[i % 2], node)
        b.aggregate(query, where, node, cost_seconds=_TUPLE_SECONDS, selectivity=0.2)
        b.query(f"{query}.out", query, query_class=name)
    for i in range(2):
        query = f"{name}.join{i + 1}"
        sizes = {"selectivity": 0.001, "window_tuples": (100.0, 100.0)}
        b.join(query, tuple(readers), node, cost_seconds=_JOIN_SECONDS, **sizes)
        b.query(f"{query}.out", query, query_class=name)


def _filter(b: NetworkBuilder, name: str, source: str, node: str) -> str:
    return b.filter(name, source, node, cost_seconds=_TUPLE_SECONDS, selectivity=0.5)
