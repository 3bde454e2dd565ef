"""Which queries of a network run together as one Spark query. Pure, no pyspark.

A Spark query has one output, its own turns and its own batches. So all queries that are
connected by operators, and of one class, become one Spark query: what they share is done once.
Queries of different classes take turns apart and cannot share a batch; an operator that several
classes need runs once for each, and is named `operator@class`. Without priorities classes are of
no account: then what is connected runs together.

All nodes of the file become one node, the Spark application; its links are of no account.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from headgate.errors import UsageError
from headgate.network import Network, Node, Operator, Query

__all__ = ["NODE", "Group", "RunningNetwork", "as_it_runs"]

NODE = "spark"
_USUAL_PERIOD_SECONDS = 2.0
_PERIOD_OF_TARGET = 0.6
_WITHOUT_CLASS = "other"


@dataclass(frozen=True, slots=True)
class Group:
    """One Spark query.

    operators: names in the running network, each after what feeds it.
    """

    name: str
    query_class: str | None
    queries: tuple[Query, ...]
    operators: tuple[str, ...]

    @property
    def latency_target_seconds(self) -> float | None:
        """The shortest of its queries': they have their batches in common."""
        targets = [q.latency_target_seconds for q in self.queries]
        return min((target for target in targets if target is not None), default=None)

    @property
    def keep_at_least(self) -> float:
        """The largest guarantee of its queries. What each gate owes to it depends on the plan,
        see `planning.guarantees`; this is what the class of the group has to have capacity for.
        """
        return max((q.keep_at_least for q in self.queries), default=0.0)

    @property
    def period_seconds(self) -> float:
        """Time between two batches.

        A tuple waits half of it for its batch, and at full load all of it for the batch to
        end; so the mean latency stays below the target. Shorter ones would spend more on
        planning and committing batches.
        """
        target = self.latency_target_seconds
        return _USUAL_PERIOD_SECONDS if target is None else _PERIOD_OF_TARGET * target


@dataclass(frozen=True)
class RunningNetwork:
    """The network that is run and planned for. `described` is the file's.

    original: by operator that runs, the name in the file.
    """

    described: Network
    network: Network
    groups: tuple[Group, ...]
    original: dict[str, str]

    def group_of(self, operator: str) -> Group:
        return next(group for group in self.groups if operator in group.operators)


def as_it_runs(network: Network, cores: int, classes: Collection[str] = ()) -> RunningNetwork:
    """The groups and the network that they make, on one node with so many cores.

    classes: those that have a priority; empty lets all that is connected run together.
    """
    unknown = sorted({q.query_class or "" for q in network.queries} - {"", *classes})
    if classes and unknown:
        raise UsageError(
            f"no priority for class {', '.join(unknown)}; the file has queries of it. Give one "
            f"to each class, for example {','.join(f'{name}=1' for name in unknown)}"
        )
    parts = _parts(network, bool(classes))
    users: dict[str, int] = {}
    for _, _, operators in parts:
        for name in operators:
            users[name] = users.get(name, 0) + 1
    made: list[Operator] = []
    queries: list[Query] = []
    groups: list[Group] = []
    original: dict[str, str] = {}
    for query_class, members, operators in parts:
        label = query_class or _WITHOUT_CLASS
        copy = {name: f"{name}@{label}" if users[name] > 1 else name for name in operators}
        for operator in network.operators_in_order:
            if operator.name in copy:
                inputs = tuple(copy.get(name, name) for name in operator.inputs)
                own = copy[operator.name]
                made.append(replace(operator, name=own, inputs=inputs, node=NODE))
                original[own] = operator.name
        own_queries = tuple(replace(q, input=copy.get(q.input, q.input)) for q in members)
        queries.extend(own_queries)
        name = _name_of(network, members, query_class, len(parts))
        ordered = tuple(copy[o.name] for o in network.operators_in_order if o.name in copy)
        groups.append(Group(name, query_class if classes else None, own_queries, ordered))
    running = Network(
        network.name,
        network.streams,
        tuple(made),
        tuple(queries),
        (Node(NODE, float(cores)),),
    )
    return RunningNetwork(network, running, tuple(groups), original)


def _parts(
    network: Network, by_class: bool
) -> list[tuple[str | None, tuple[Query, ...], frozenset[str]]]:
    """Queries with the operators that they need; those that share an operator are one part."""
    found: list[tuple[str | None, list[Query], set[str]]] = []
    for query in network.queries:
        needs = _needed(network, query)
        query_class = query.query_class if by_class else None
        together = [p for p in found if p[0] == query_class and not needs.isdisjoint(p[2])]
        for part in together:
            found.remove(part)
        members = [q for part in together for q in part[1]]
        found.append((query_class, [*members, query], needs.union(*(p[2] for p in together))))
    order = {query.name: place for place, query in enumerate(network.queries)}
    parts = [
        (query_class, tuple(sorted(qs, key=lambda q: order[q.name])), frozenset(needs))
        for query_class, qs, needs in found
    ]
    return sorted(parts, key=lambda part: order[part[1][0].name])


def _needed(network: Network, query: Query) -> set[str]:
    """The operators above the query."""
    needed: set[str] = set()
    waiting = [query.input]
    while waiting:
        operator = network.operator_by_name.get(waiting.pop())
        if operator is not None and operator.name not in needed:
            needed.add(operator.name)
            waiting.extend(operator.inputs)
    return needed


def _name_of(
    network: Network, members: Iterable[Query], query_class: str | None, parts: int
) -> str:
    names = [query.name for query in members]
    if len(names) == 1:
        return names[0]
    if parts == 1:
        return network.name
    return f"{network.name}: {query_class}" if query_class else "+".join(names)[:100]
