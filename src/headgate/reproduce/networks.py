"""The papers' query networks, built in Python: one function a network.

Costs are CPU seconds for one tuple and every node has a capacity of 1, so a load of
1 is a full node. Where a paper gives costs in milliseconds they stand in seconds
here, so rates are tuples per second.

Example: `ExactPlanner(table1()).plan({}).score` is 0.6.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import UsageError
from headgate.network import Network, NetworkBuilder

__all__ = [
    "FIGURE9_COSTS_MS",
    "fan_out",
    "figure9",
    "inputs",
    "split",
    "spread",
    "table1",
    "two_servers",
]

# Figure 9 of 2007: cost of the first and of the second chain on the first server;
# the second server has them swapped, so that both servers carry the same sum.
FIGURE9_COSTS_MS = {"a": (48, 48), "b": (64, 32), "c": (72, 24), "d": (80, 16), "e": (88, 8)}


def table1() -> Network:
    """Figure 1 and table 1 (both papers): two chains over the nodes A and B."""
    b = NetworkBuilder("table1")
    first, second = b.node("A"), b.node("B")
    for name, on_a, on_b in (("r1", 1.0, 3.0), ("r2", 2.0, 1.0)):
        stream = b.stream(name, rate_per_second=1.0)
        here = b.delay(f"{name}.A", stream, node=first, cost_seconds=on_a, selectivity=1.0)
        there = b.delay(f"{name}.B", here, node=second, cost_seconds=on_b, selectivity=1.0)
        b.query(f"{name}.out", there)
    return b.build()


def spread() -> Network:
    """The spread example of 2006: node B of figure 1 with selectivities 0.5 and 1."""
    b = NetworkBuilder("spread")
    node = b.node("B")
    for name, cost, selectivity in (("r1", 3.0, 0.5), ("r2", 1.0, 1.0)):
        stream = b.stream(name, rate_per_second=0.5)
        only = b.delay(f"{name}.B", stream, node, cost_seconds=cost, selectivity=selectivity)
        b.query(f"{name}.out", only)
    return b.build()


def split() -> Network:
    """The split example (2007, figure 7): shared cost 1, branches of cost 2 and 5."""
    b = NetworkBuilder("split")
    node = b.node("A")
    stream = b.stream("r", rate_per_second=0.2)
    shared = b.delay("shared", stream, node, cost_seconds=1.0, selectivity=1.0)
    for name, cost in (("top", 2.0), ("bottom", 5.0)):
        b.query(f"{name}.out", b.delay(name, shared, node, cost_seconds=cost, selectivity=1.0))
    return b.build()


def two_servers(
    first_server_ms: Sequence[float], name: str, rate_per_second: float = 20.0
) -> Network:
    """Chains over two servers; each pair of costs is swapped on the second server.

    `first_server_ms` has an even length: stream i costs its i-th entry on the first
    server and its neighbour's on the second.
    """
    b = NetworkBuilder(name)
    one, two = b.node("server1"), b.node("server2")
    for i, cost_ms in enumerate(first_server_ms):
        stream = b.stream(f"r{i + 1}", rate_per_second=rate_per_second)
        on_one = b.delay(f"r{i + 1}.1", stream, one, cost_seconds=cost_ms / 1e3, selectivity=1.0)
        swapped = first_server_ms[i ^ 1] / 1e3
        on_two = b.delay(f"r{i + 1}.2", on_one, two, cost_seconds=swapped, selectivity=1.0)
        b.query(f"r{i + 1}.out", on_two)
    return b.build()


def figure9(letter: str) -> Network:
    """The five networks of growing imbalance, "a" to "e"; "b" is the paper's (64, 32)."""
    if letter not in FIGURE9_COSTS_MS:
        raise UsageError(f"figure 9 has the networks a, b, c, d and e, not {letter!r}")
    return two_servers(FIGURE9_COSTS_MS[letter], f"figure9{letter}")


def inputs(count: int) -> Network:
    """Figure 14 and table 3: 2, 4 or 8 inputs, with the costs of (64, 32) divided among them."""
    if count < 2 or count % 2:
        raise UsageError(f"the number of inputs must be even and at least 2, not {count}")
    pairs = count // 2
    return two_servers((64 / pairs, 32 / pairs) * pairs, f"inputs{count}")


def fan_out(k: int) -> Network:
    """Figure 13: one server, one shared operator, 2^k branches behind it.

    The paper gives no costs. Here the shared operator costs 0.5 ms and branch j costs
    j ms (j = 1 .. 2^k): every branch has a quality/load ratio of its own, and the
    dearest branch is a better place to drop than the input.
    """
    if k < 0:
        raise UsageError(f"the fan-out is 2^k with k of at least 0, not {k}")
    b = NetworkBuilder(f"fanout{2**k}")
    node = b.node("server")
    stream = b.stream("r", rate_per_second=1000.0)
    shared = b.delay("shared", stream, node, cost_seconds=5e-4, selectivity=1.0)
    for j in range(1, 2**k + 1):
        branch = b.delay(f"branch{j}", shared, node, cost_seconds=j * 1e-3, selectivity=1.0)
        b.query(f"branch{j}.out", branch)
    return b.build()
