"""How much of the machine does each class ask for?

Load is server seconds asked for in one second: for each operator its cost times the
rate of its input, which follows from the rates of the streams and the selectivities
before it (2011 paper, section II). A class is charged for the operators that its
queries need.

Operators shared between classes (beyond the paper, which excludes them): the cost of
an operator that several classes need is charged to them in proportion to their
priorities. So the whole cost is charged exactly once, each class's charge is the same
share of what it is entitled to, and sharing with another class is never dearer than
having the operator alone. Shedding for one class happens behind the last operator it
shares; a shared operator still runs for the others. Therefore `ClassLoad` keeps the
private part, which shedding can lower, apart from the shared part, which it cannot.

Guarantees: the loads of all classes sum to the load of all operators that any class
needs. Non-guarantees: costs that depend on the batch size are taken as measured now.
Cost: linear in operators and arcs, times the number of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.errors import UsageError
from headgate.network import Network, Statistics, check_rates

__all__ = ["ClassLoad", "class_loads", "classes_of_operators", "operator_loads"]

_NO_CLASS = ""


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """Server seconds per second that a class asks for."""

    private_load: float
    shared_load: float = 0.0

    @property
    def total(self) -> float:
        return self.private_load + self.shared_load


def operator_loads(
    network: Network, statistics: Statistics, rates_per_second: Mapping[str, float]
) -> dict[str, float]:
    """Server seconds per second of each operator when nothing is shed."""
    rates = check_rates(network, rates_per_second)
    loads: dict[str, float] = {}
    for operator in network.operators_in_order:
        inputs = [rates[name] for name in operator.inputs]
        gains = statistics.gains(operator)
        loads[operator.name] = statistics.cost_seconds(operator) * sum(inputs)
        rates[operator.name] = sum(g * r for g, r in zip(gains, inputs, strict=True))
    return loads


def classes_of_operators(network: Network) -> dict[str, frozenset[str]]:
    """The classes whose queries need each operator; a query without a class has the class ''."""
    needed: dict[str, set[str]] = {o.name: set() for o in network.operators}
    for query in network.queries:
        if query.input in needed:
            needed[query.input].add(query.query_class or _NO_CLASS)
    for operator in reversed(network.operators_in_order):
        for name in operator.inputs:
            if name in needed:
                needed[name] |= needed[operator.name]
    return {name: frozenset(classes) for name, classes in needed.items()}


def class_loads(
    network: Network,
    statistics: Statistics,
    rates_per_second: Mapping[str, float],
    priorities: Mapping[str, float],
) -> dict[str, ClassLoad]:
    """The load of every class in `priorities`, shared operators charged by priority."""
    private = dict.fromkeys(priorities, 0.0)
    shared = dict.fromkeys(priorities, 0.0)
    users = classes_of_operators(network)
    for name, load in operator_loads(network, statistics, rates_per_second).items():
        classes = users[name]
        missing = sorted(classes - set(priorities))
        if missing:
            raise UsageError(
                f"operator {name!r} is needed by class {', '.join(map(repr, missing))}, which has "
                "no priority; give every class of the network one"
            )
        if len(classes) == 1:
            private[next(iter(classes))] += load
            continue
        total = sum(priorities[c] for c in classes)
        for c in classes:
            shared[c] += load * priorities[c] / total
    return {c: ClassLoad(private[c], shared[c]) for c in priorities}
