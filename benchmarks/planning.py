"""Planning: exact plans and tables against the papers' methods, and single decisions.

`python -m benchmarks planning` writes benchmarks/results/planning.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.glpk_quadtree import GlpkQuadtree
from benchmarks.large_network import large_network
from benchmarks.measure import compare, percentiles_ms, time_of
from headgate.network import Network
from headgate.planning import DfitPlanner, ExactPlanner, SolverPlanner, SolverSettings, compile_flow
from headgate.planning.cut_tables.cuts import chain_table
from headgate.planning.flow_model import Floats
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.reproduce.networks import figure9, inputs
from headgate.reproduce.plan_generation import paper_box

__all__ = ["run"]

ERROR = 0.05
PAPER_BYTES_8_INPUTS = 42_472 * 184  # 2007, table 3


def run() -> dict[str, Any]:
    """All measurements of this file."""
    return {
        "against_glpk_at_5_percent": {name: against_glpk(name) for name in "abcde"},
        "eight_inputs_at_10_percent": eight_inputs(),
        "one_decision_ms": {
            "100_locations_20_nodes": decisions(99, 20, 2000),
            "1000_locations_100_nodes": decisions(999, 100, 500),
        },
        "bytes_on_the_wire": wire(),
    }


def against_glpk(letter: str) -> dict[str, Any]:
    """From a network to the first plan: exact (error 0) and solver (5 %) against GLPK (5 %)."""
    network = figure9(letter)
    box = paper_box(network)
    overload = {name: 0.9 * rate for name, rate in box.items()}
    settings = SolverSettings(max_error=ERROR, max_rates_per_second=box)

    def theirs() -> None:
        GlpkQuadtree(network, box).divide(ERROR)

    def ours() -> None:
        ExactPlanner(network).plan(overload)

    return {
        "exact_and_one_plan": compare(ours, theirs),
        "exact_and_one_plan_repeated_seconds": _seconds_when_repeated(ours),
        "exact_table": compare(lambda: chain_table(compile_flow(network)), theirs),
        "solver": compare(lambda: SolverPlanner(network, settings=settings), theirs),
    }


def _seconds_when_repeated(call: Callable[[], None]) -> float:
    """The mean of many calls in a row, with warm caches: what is left of the first one."""

    def many() -> None:
        for _ in range(200):
            call()

    return time_of(many) / 200


def eight_inputs() -> dict[str, Any]:
    """The paper's hour: 8 inputs, 10 %."""
    network = inputs(8)
    fit = sorted(
        time_of(lambda: FitPlanner(network, settings=FitSettings(max_error=0.1))) for _ in range(5)
    )
    table = sorted(time_of(lambda: chain_table(compile_flow(network))) for _ in range(5))
    return {
        "paper_seconds": 3600,
        "fit_median_seconds": fit[2],
        "fit_entries": FitPlanner(network, settings=FitSettings(max_error=0.1)).entries,
        "exact_table_median_seconds": table[2],
        "exact_table_rows": chain_table(compile_flow(network)).rows,
    }


def decisions(locations: int, nodes: int, count: int) -> dict[str, Any]:
    """Single decisions of a warm planner while rates drift, and while all jump at once."""
    network = large_network(locations, nodes)
    planner = ExactPlanner(network)
    rng = np.random.default_rng(1)
    usual = np.array([s.rate_per_second or 0.0 for s in network.streams])
    planner.plan_rates(usual)
    drift = _drifting(usual, count, rng)
    jumps = [usual * rng.exponential(1.0, len(usual)) for _ in range(count // 4)]
    return {
        "locations": len(planner.model.locations),
        "rates_drift_5_percent": percentiles_ms([_call(planner, r) for r in drift]),
        "rates_drift_5_percent_cpu": _cpu_percentiles_ms(planner, drift),
        "all_rates_jump": percentiles_ms([_call(planner, r) for r in jumps]),
        "all_rates_jump_cpu": _cpu_percentiles_ms(planner, jumps),
        "largest_gap": max(planner.plan_rates(r).gap for r in drift[:50]),
    }


def wire() -> dict[str, Any]:
    """Bytes a child sends its parent for the 8-input network: cuts against sampled tables."""
    network: Network = inputs(8)
    planner = DfitPlanner(network)
    exact = len(next(n.table for n in planner.nodes.values() if n.recipient).encoded())
    return {
        "exact_table_bytes": exact,
        "all_messages_bytes": planner.bytes_sent,
        "paper_table_bytes": PAPER_BYTES_8_INPUTS,
        "ratio_to_paper": PAPER_BYTES_8_INPUTS / exact,
    }


def _drifting(usual: Floats, count: int, rng: np.random.Generator) -> list[Floats]:
    rates, walk = [], usual.copy()
    for _ in range(count):
        walk = np.clip(walk * np.exp(rng.normal(0.0, 0.05, len(usual))), usual / 3, usual * 3)
        rates.append(walk.copy())
    return rates


def _cpu_percentiles_ms(planner: ExactPlanner, rates: list[Floats]) -> dict[str, float]:
    """The same in CPU time of this thread: what a machine with other work on it cannot blur."""
    seconds = []
    for point in rates:
        start = time.thread_time()
        planner.plan_rates(point)
        seconds.append(time.thread_time() - start)
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1e3
    return {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(most), "calls": len(rates)}


def _call(planner: ExactPlanner, rates: Floats) -> Any:
    return lambda: planner.plan_rates(rates)
