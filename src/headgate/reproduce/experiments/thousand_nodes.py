"""A thousand nodes in a tree of depth 5 with 10,000 queries, each node deciding alone.

Not in the papers: it shows that exact tables carry the distributed planner to a size
that sampled tables cannot reach. Every node runs a coordinator of its own (see
`headgate.simulation.node_tree`); a message takes one second of virtual time. The load
rises twice in the run. Compared with the exact plan of a planner that knows everything.
"""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from headgate.coordinator import ClassSettings
from headgate.network import Network, NetworkBuilder
from headgate.planning import ExactPlanner
from headgate.planning.cut_tables.table_node import TableNodeSettings
from headgate.planning.cut_tables.value_table import TableSettings
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.simulation.node_tree import NodeTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["THOUSAND_NODES", "tree_network"]

CLASSES = ClassSettings({"gold": 6.0, "silver": 3.0, "bronze": 1.0}, cycle_seconds=1.0)
STREAMS = ("a", "b")
USUAL_RATE = 100.0
TABLE_ERROR = 3e-3  # a table may be off by this share of its largest score


@dataclass(frozen=True)
class _Size:
    nodes_by_level: tuple[int, ...]
    queries: int
    seconds: int


FULL = _Size((1, 5, 25, 150, 819), 10_000, 60)
QUICK = _Size((1, 3, 9), 130, 12)


def tree_network(nodes_by_level: Sequence[int], queries: int, seed: int) -> Network:
    """Two streams enter at the root; each node forwards them and runs queries of its own."""
    rng = np.random.default_rng(seed)
    builder = NetworkBuilder(f"tree of {sum(nodes_by_level)} nodes")
    count = sum(nodes_by_level)
    for stream in STREAMS:
        builder.stream(stream, USUAL_RATE)
    parent = _parents(nodes_by_level)
    for node in range(count):
        builder.node(f"n{node}")
        for stream in STREAMS:
            source = stream if node == 0 else f"{stream}{parent[node]}"
            cost = float(rng.uniform(0.0002, 0.001))
            builder.map(f"{stream}{node}", source, f"n{node}", cost_seconds=cost)
        for number in range(queries // count + (node < queries % count)):
            source = f"{STREAMS[number % len(STREAMS)]}{node}"
            priority = str(rng.choice(list(CLASSES.priorities)))
            name = f"o{node}_{number}"
            builder.filter(
                name,
                source,
                f"n{node}",
                cost_seconds=float(rng.uniform(0.0005, 0.004)),
                selectivity=float(rng.uniform(0.1, 1.0)),
            )
            weight = CLASSES.priorities[priority]
            builder.query(f"q{node}_{number}", name, weight=weight, query_class=priority)
    return builder.build()


def _parents(nodes_by_level: Sequence[int]) -> dict[int, int]:
    parents, first = {}, 0
    for above, here in itertools.pairwise(nodes_by_level):
        for index in range(here):
            parents[first + above + index] = first + index % above
        first += above
    return parents


def _rates(second: int, seconds: int) -> dict[str, float]:
    """Usual, then one stream at three times, then both above the usual rate."""
    phase = 3 * second // seconds
    return {"a": USUAL_RATE * (1, 3, 3)[phase], "b": USUAL_RATE * (1, 1, 2)[phase]}


def _run(request: Request, progress: Progress) -> Outcome:
    size = QUICK if request.quick else FULL
    network = tree_network(size.nodes_by_level, size.queries, request.seed)
    started = time.perf_counter()
    tables = TableSettings(tolerance=TABLE_ERROR)
    settings = TableNodeSettings(refine_above=TABLE_ERROR, tables=tables)
    tree = NodeTree(network, CLASSES, settings)
    exact = ExactPlanner(network)
    rows: list[Row] = []
    for second in range(size.seconds):
        progress(second, size.seconds, f"second {second} of virtual time")
        rates = _rates(second, size.seconds)
        step = tree.step(rates)
        best = exact.plan(rates).score
        kept = {
            f"kept_{name}": step.kept_by_class[name] / step.offered_by_class[name]
            for name in CLASSES.priorities
        }
        rows.append(
            {
                "second": second,
                "score": step.score,
                "best_score": best,
                "gap": max(0.0, 1.0 - step.score / best),
                "overloaded_nodes": step.overloaded_nodes,
                "largest_load_share": step.largest_load_share,
                "messages": step.messages,
                "bytes": step.message_bytes,
                **kept,
                "wall_seconds": time.perf_counter() - started,
            }
        )
    return Outcome(rows, _findings(rows, network), partial(_draw, rows))


def _findings(rows: Sequence[Row], network: Network) -> list[Finding]:
    quiet = next(i for i, row in enumerate(rows) if all(not r["messages"] for r in rows[i:]))
    settled = [float(row["gap"] or 0.0) for row in rows[quiet:]]
    total = sum(int(row["bytes"] or 0) for row in rows)
    return [
        Finding("nodes", len(network.nodes)),
        Finding("queries", len(network.queries)),
        Finding("seconds until no message is on its way", quiet, note="a second is one hop"),
        Finding("bytes exchanged, all nodes", total),
        Finding("bytes exchanged, mean of a node", total / len(network.nodes)),
        Finding("largest gap to the central exact plan, settled", max(settled)),
        Finding(
            "most nodes above their capacity",
            max(int(r["overloaded_nodes"] or 0) for r in rows),
        ),
        Finding(
            "largest load of a node, share of its capacity",
            max(float(r["largest_load_share"] or 0.0) for r in rows),
            note="a node decides for 1 % more than it measures, and anew when more has come",
        ),
        Finding("wall seconds", rows[-1]["wall_seconds"]),
        Finding(
            "peak memory of the process, MB",
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        ),
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    top, bottom = figure.subplots(2, 1, sharex=True)
    seconds = [row["second"] for row in rows]
    top.plot(seconds, [row["best_score"] for row in rows], "--", color=COLOURS[1], label="central")
    top.plot(seconds, [row["score"] for row in rows], color=COLOURS[0], label="each node alone")
    top.set_ylabel("score")
    top.set_ylim(bottom=0.0)
    top.legend(frameon=False)
    bottom.bar(seconds, [float(row["bytes"] or 0) / 1e3 for row in rows], color=COLOURS[2])
    bottom.set_ylabel("kB sent")
    bottom.set_xlabel("second of virtual time")


THOUSAND_NODES = Experiment(
    "thousand-nodes",
    "Distributed plans with exact tables, a coordinator on every node",
    "beyond the papers",
    _run,
    simulated=True,
)
