"""A network made ready to run: operators with queues, gates and places in the order.

Each class gets its operators in highest-rate order (2011 paper, section III-A, level 2).
Operators that read a stream stand apart, once for each stream.

An operator that several classes need (beyond the paper) is a part of each of them: it
is run by whichever of them has the turn, and that class pays for it with its turn. A
class sheds at the arcs into its own operators, that is behind the last shared one. These
stand apart too: others fill them, so the first of them in highest-rate order could keep
the rest from ever running.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from headgate.control import HighestRateOrder, classes_of_operators
from headgate.errors import UsageError
from headgate.network import Network, Operator, Statistics
from headgate.simulation.operator_queues import ClassGate, InputQueue

__all__ = ["OperatorPart", "Parts", "Reader", "build_parts"]


class OperatorPart:
    """One operator while it runs.

    fixed_seconds, marginal_seconds: a run over n tuples takes fixed + n * marginal.
    gains:    results for one tuple of each input.
    queue:    batches that wait: count, mean arrival time, gain. `waiting` is their sum.
    places:   for each class that needs it, the class's index and the bit of its rank.
    targets:  where results go: part, gain there, gate or None.
    answers:  indices of the classes that have a query here, once for each query.
    runs, taken, produced, busy_seconds: runs, tuples in, tuples out, time, since the start.
    carry:    the part of a result that is not yet whole.
    """

    __slots__ = (
        "answers",
        "busy_seconds",
        "carry",
        "fixed_seconds",
        "gains",
        "marginal_seconds",
        "name",
        "places",
        "produced",
        "queue",
        "runs",
        "taken",
        "targets",
        "waiting",
    )

    def __init__(self, operator: Operator, statistics: Statistics, fixed_seconds: float) -> None:
        self.name = operator.name
        self.fixed_seconds = fixed_seconds
        self.marginal_seconds = statistics.cost_seconds(operator)
        self.gains = statistics.gains(operator)
        self.queue: deque[tuple[int, float, float]] = deque()
        self.waiting = 0
        self.places: tuple[tuple[int, int], ...] = ()
        self.targets: list[tuple[OperatorPart, float, ClassGate | None]] = []
        self.answers: list[int] = []
        self.runs = 0
        self.taken = 0
        self.produced = 0
        self.busy_seconds = 0.0
        self.carry = 0.0


Reader = tuple[OperatorPart, float, InputQueue]


class Parts:
    """The running parts of a network, for the classes in their given order.

    ranked:  for each class its operators that read no stream, highest rate first.
    inner:   for each class the bits of those of them that no shared operator feeds.
    fed:     for each class those of them that a shared operator feeds.
    readers: for each class its stream-reading operators: part, gain, queue, in order.
    inputs:  the queues that each stream feeds.
    gates:   the gate of each class.
    """

    def __init__(
        self, network: Network, classes: Sequence[str], fixed_seconds: Mapping[str, float]
    ) -> None:
        self.classes = tuple(classes)
        self.operators = _operators(network, fixed_seconds)
        self.gates = tuple(ClassGate() for _ in self.classes)
        self.inputs: dict[str, list[InputQueue]] = {s.name: [] for s in network.streams}
        self.ranked: list[list[OperatorPart]] = []
        self.inner: list[int] = []
        self.fed: list[list[OperatorPart]] = []
        self.readers: list[list[Reader]] = []


def build_parts(
    network: Network, classes: Sequence[str], fixed_seconds: Mapping[str, float]
) -> Parts:
    """Wire the network up. `fixed_seconds` by operator; an operator not named has none."""
    parts = Parts(network, classes, fixed_seconds)
    users = _users(network, parts.classes)
    queues = _wire_operators(network, parts, users)
    _wire_answers(network, parts)
    for name in parts.classes:
        _rank_class(network, parts, name, users, queues)
    return parts


def _rank_class(
    network: Network,
    parts: Parts,
    name: str,
    users: Mapping[str, frozenset[str]],
    queues: Mapping[str, Sequence[tuple[float, InputQueue]]],
) -> None:
    """Put the operators of one class in order."""
    index, inner = len(parts.ranked), 0
    ranked: list[OperatorPart] = []
    fed: list[OperatorPart] = []
    readers: list[Reader] = []
    for operator in HighestRateOrder(network, Statistics(), name).order:
        part = parts.operators[operator]
        if operator in queues:
            readers += [(part, gain, queue) for gain, queue in queues[operator]]
            continue
        bit = 1 << len(ranked)
        ranked.append(part)
        part.places = (*part.places, (index, bit))
        if _is_fed_by_others(network, users, operator):
            fed.append(part)
        else:
            inner |= bit
    parts.ranked.append(ranked)
    parts.inner.append(inner)
    parts.fed.append(fed)
    parts.readers.append(readers)


def _is_fed_by_others(network: Network, users: Mapping[str, frozenset[str]], operator: str) -> bool:
    inputs = network.operator_by_name[operator].inputs
    return len(users[operator]) == 1 and any(len(users[i]) > 1 for i in inputs)


def _operators(network: Network, fixed_seconds: Mapping[str, float]) -> dict[str, OperatorPart]:
    unknown = sorted(set(fixed_seconds) - set(network.operator_by_name))
    if unknown:
        raise UsageError(f"fixed costs for unknown operators {', '.join(unknown)}")
    statistics = Statistics()
    found = {}
    for o in network.operators:
        part = OperatorPart(o, statistics, fixed_seconds.get(o.name, 0.0))
        if part.marginal_seconds <= 0.0:
            raise UsageError(f"operator {o.name!r}: its cost must be above 0 to be simulated")
        found[o.name] = part
    return found


def _users(network: Network, classes: tuple[str, ...]) -> dict[str, frozenset[str]]:
    users = classes_of_operators(network)
    for name, needed_by in users.items():
        if not needed_by <= set(classes):
            raise UsageError(f"operator {name!r} serves a class that is not simulated")
    return users


def _wire_operators(
    network: Network, parts: Parts, users: Mapping[str, frozenset[str]]
) -> dict[str, list[tuple[float, InputQueue]]]:
    """Connect the arcs between operators; returns the stream queues of each operator."""
    queues: dict[str, list[tuple[float, InputQueue]]] = {}
    for operator in network.operators:
        part = parts.operators[operator.name]
        from_streams = [name in parts.inputs for name in operator.inputs]
        if any(from_streams) and not all(from_streams):
            raise UsageError(
                f"operator {operator.name!r} reads a stream and an operator; "
                "put a map behind the stream"
            )
        for name, gain in zip(operator.inputs, part.gains, strict=True):
            gate = _gate(parts, users, name, operator.name)
            if name in parts.inputs:
                queue = InputQueue(gate)
                parts.inputs[name].append(queue)
                queues.setdefault(operator.name, []).append((gain, queue))
            else:
                parts.operators[name].targets.append((part, gain, gate))
    return queues


def _gate(
    parts: Parts, users: Mapping[str, frozenset[str]], source: str, target: str
) -> ClassGate | None:
    """A class sheds where its own part begins."""
    if len(users[target]) != 1 or (source in users and len(users[source]) == 1):
        return None
    return parts.gates[parts.classes.index(next(iter(users[target])))]


def _wire_answers(network: Network, parts: Parts) -> None:
    for query in network.queries:
        if query.input not in parts.operators:
            raise UsageError(f"query {query.name!r} reads a stream; put an operator between")
        parts.operators[query.input].answers.append(parts.classes.index(query.query_class or ""))
