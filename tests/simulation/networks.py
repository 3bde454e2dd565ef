"""Small networks for the simulator's tests."""

from __future__ import annotations

from headgate.network import Network, NetworkBuilder


def one_operator(cost_seconds: float, capacity: float = 1.0, selectivity: float = 1.0) -> Network:
    """stream -> work -> query on one node."""
    b = NetworkBuilder("one")
    stream, node = b.stream("s"), b.node("n", capacity=capacity)
    work = b.delay("work", stream, node, cost_seconds=cost_seconds, selectivity=selectivity)
    b.query("q", work)
    return b.build()


def two_nodes(first_cost: float, second_cost: float) -> Network:
    """stream -> first on A -> second on B -> query."""
    b = NetworkBuilder("two")
    one, two = b.node("A"), b.node("B")
    first = b.delay("first", b.stream("s"), one, cost_seconds=first_cost, selectivity=1.0)
    second = b.delay("second", first, two, cost_seconds=second_cost, selectivity=1.0)
    b.query("q", second)
    return b.build()


def split(shared: float = 0.001, top: float = 0.002, bottom: float = 0.005) -> Network:
    """One shared operator, two branches with a query each."""
    b = NetworkBuilder("split")
    node = b.node("n")
    common = b.delay("common", b.stream("s"), node, cost_seconds=shared, selectivity=1.0)
    for name, cost in (("top", top), ("bottom", bottom)):
        branch = b.delay(f"{name}_work", common, node, cost_seconds=cost, selectivity=1.0)
        b.query(name, branch)
    return b.build()
