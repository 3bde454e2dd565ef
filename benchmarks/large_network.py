"""Large random networks for timing one decision."""

from __future__ import annotations

import numpy as np

from headgate.network import Network, NetworkBuilder

__all__ = ["large_network"]


def large_network(locations: int, nodes: int, seed: int = 1) -> Network:
    """About `locations` drop locations over `nodes` nodes: half input arcs, half split arcs.

    Each stream is parsed on one node and feeds two queries on two further nodes, so
    that one stream in three locations is an input and two are behind a split.
    Rates are such that the nodes have 1 to 3 times the load they can carry.
    """
    rng = np.random.default_rng(seed)
    builder = NetworkBuilder(f"{locations} locations on {nodes} nodes")
    for index in range(nodes):
        builder.node(f"n{index}", 1.0)
    streams = locations // 3
    for number in range(streams):
        first, second = sorted(rng.choice(nodes - 1, size=2, replace=False).tolist())
        source = builder.stream(f"s{number}", float(rng.uniform(50, 150)))
        scale = 2.0 * nodes / streams / 100.0 / 3.0
        parsed = builder.map(f"p{number}", source, f"n{first}", cost_seconds=scale * rng.random())
        for branch, node in enumerate((second, nodes - 1 if second < nodes - 1 else second)):
            name = f"f{number}_{branch}"
            builder.filter(
                name,
                parsed,
                f"n{node if branch == 0 else int(rng.integers(second + 1, nodes))}",
                cost_seconds=scale * rng.random() * 2,
                selectivity=float(rng.uniform(0.1, 1.0)),
            )
            builder.query(f"q{number}_{branch}", name, weight=float(rng.uniform(0.1, 10)))
    return builder.build()
