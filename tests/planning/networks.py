"""Small networks with literal numbers, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.network import Network, NetworkBuilder


def chains(
    costs: Sequence[Sequence[float]],
    weights: Sequence[float] | None = None,
    capacities: Sequence[float] | None = None,
) -> Network:
    """One chain a row of `costs`; entry i of a row runs on node Ni."""
    builder = NetworkBuilder("chains")
    for index in range(len(costs[0])):
        builder.node(f"N{index}", 1.0 if capacities is None else capacities[index])
    for number, chain in enumerate(costs):
        source = builder.stream(f"r{number}", 1.0)
        for index, cost in enumerate(chain):
            name = f"o{number}_{index}"
            source = builder.delay(name, source, f"N{index}", cost_seconds=cost, selectivity=1.0)
        builder.query(f"q{number}", source, weight=1.0 if weights is None else weights[number])
    return builder.build()


def split(rate: float = 0.2, **query_settings: float) -> Network:
    """The split example: shared cost 1, branches 2 and 5, one node."""
    builder = NetworkBuilder("split")
    builder.node("A")
    builder.stream("r", rate)
    builder.delay("shared", "r", "A", cost_seconds=1.0, selectivity=1.0)
    builder.delay("cheap", "shared", "A", cost_seconds=2.0, selectivity=1.0)
    builder.delay("dear", "shared", "A", cost_seconds=5.0, selectivity=1.0)
    builder.query("q_cheap", "cheap", **query_settings)
    builder.query("q_dear", "dear", **query_settings)
    return builder.build()


TABLE_1 = chains([(1.0, 3.0), (2.0, 1.0)])
