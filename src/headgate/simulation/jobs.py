"""Which operators run together, behind which gates, with which latency target.

Micro-batches: operators of one node that feed each other are one job, as one
streaming query on Spark is. Input buffer: all operators of a node are one job, as
a DISSP node has one buffer. A job has a gate at each arc that enters it, and at each
arc behind a split inside it.

A query's latency target is divided evenly among the jobs on the longest way to it. A
job takes the smallest share of the queries that it feeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headgate.control import ServiceKind
from headgate.network import Arc, Network, Operator, Statistics

__all__ = ["Job", "jobs_of", "loss_gains"]


@dataclass(frozen=True)
class Job:
    """A part of the network that runs as one on one node.

    inputs:  arcs that enter it, each with a gate.
    splits:  arcs behind a split, each with a gate that follows the plan only.
    outputs: arcs to queries and to other jobs.
    """

    name: str
    node: str
    network: Network
    operators: tuple[Operator, ...]
    inputs: tuple[Arc, ...]
    splits: tuple[Arc, ...]
    outputs: tuple[Arc, ...]
    target_seconds: float | None
    query_class: str | None = None
    keep_at_least: float = 0.0

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """Queries whose results come out of this job."""
        return tuple(a.target for a in self.outputs if a.target in self.network.query_by_name)

    @cached_property
    def cost_of_input(self) -> Mapping[str, float]:
        """CPU seconds that one tuple of each input arc costs in this job, on average."""
        statistics = Statistics()
        behind: dict[str, float] = {}
        for operator in reversed(self.operators):
            out = sum(behind.get(a.name, 0.0) for a in self.network.arcs_from[operator.name])
            cost = statistics.cost_seconds(operator)
            for source, gain in zip(operator.inputs, statistics.gains(operator), strict=True):
                behind[Arc(source, operator.name).name] = cost + gain * out
        return {arc.name: behind[arc.name] for arc in self.inputs}


def jobs_of(network: Network, service: ServiceKind, target_seconds: float | None) -> list[Job]:
    """The jobs in the order of flow. `target_seconds` stands in front of the network's targets."""
    groups = _groups(network, service)
    job_of = {name: number for number, group in enumerate(groups) for name in group}
    depths = _depths(network, job_of, len(groups))
    shares = _target_shares(network, job_of, depths, len(groups), target_seconds)
    used: set[str] = set()
    return [
        _job(network, service, number, job_of, shares[number], used)
        for number in range(len(groups))
    ]


def loss_gains(network: Network) -> dict[str, dict[str, float]]:
    """Results that each query misses for one tuple dropped on an arc, by arc and query."""
    statistics = Statistics()
    by_arc = {Arc(q.input, q.name).name: {q.name: 1.0} for q in network.queries}
    for operator in reversed(network.operators_in_order):
        results: dict[str, float] = {}
        for arc in network.arcs_from[operator.name]:
            for query, gain in by_arc[arc.name].items():
                results[query] = results.get(query, 0.0) + gain
        for source, gain in zip(operator.inputs, statistics.gains(operator), strict=True):
            by_arc[Arc(source, operator.name).name] = {q: gain * r for q, r in results.items()}
    return by_arc


def _groups(network: Network, service: ServiceKind) -> list[list[str]]:
    """Names of the operators of each job, jobs and operators in the order of flow."""
    key = {o.name: o.name for o in network.operators}

    def root(name: str) -> str:
        while key[name] != name:
            name = key[name]
        return name

    if service is ServiceKind.INPUT_BUFFER:
        first: dict[str, str] = {}
        for operator in network.operators_in_order:
            key[operator.name] = first.setdefault(operator.node, operator.name)
    else:
        for operator in network.operators_in_order:
            for source in operator.inputs:
                if network.node_of(source) == operator.node:
                    key[root(operator.name)] = root(source)
    groups: dict[str, list[str]] = {}
    for operator in network.operators_in_order:
        groups.setdefault(root(operator.name), []).append(operator.name)
    return list(groups.values())


def _depths(network: Network, job_of: Mapping[str, int], count: int) -> list[int]:
    """Jobs on the longest way up to and with each job; nodes that feed each other count once."""
    depths = [1] * count
    for operator in network.operators_in_order:
        for source in operator.inputs:
            if source in job_of and job_of[source] != job_of[operator.name]:
                reached = depths[job_of[source]] + 1
                depths[job_of[operator.name]] = min(
                    count, max(depths[job_of[operator.name]], reached)
                )
    return depths


def _target_shares(
    network: Network,
    job_of: Mapping[str, int],
    depths: Sequence[int],
    count: int,
    given_seconds: float | None,
) -> list[float | None]:
    shares: list[float | None] = [None] * count
    for query in network.queries:
        target = query.latency_target_seconds if given_seconds is None else given_seconds
        if target is None or query.input not in job_of:
            continue
        share = target / depths[job_of[query.input]]
        for number in _feeders(network, job_of, query.input):
            known = shares[number]
            shares[number] = share if known is None else min(known, share)
    return shares


def _feeders(network: Network, job_of: Mapping[str, int], name: str) -> set[int]:
    """Jobs of an operator and of everything above it."""
    found: set[int] = set()
    seen, ahead = {name}, [name]
    while ahead:
        operator = network.operator_by_name[ahead.pop()]
        found.add(job_of[operator.name])
        for source in operator.inputs:
            if source in job_of and source not in seen:
                seen.add(source)
                ahead.append(source)
    return found


def _job(
    network: Network,
    service: ServiceKind,
    number: int,
    job_of: Mapping[str, int],
    target_seconds: float | None,
    used: set[str],
) -> Job:
    members = [o for o in network.operators_in_order if job_of[o.name] == number]
    names = {o.name for o in members}
    inputs = [Arc(s, o.name) for o in members for s in o.inputs if s not in names]
    leaving = [a for o in members for a in network.arcs_from[o.name]]
    splits = [a for a in leaving if len(network.arcs_from[a.source]) > 1]
    outputs = [a for a in leaving if a.target not in names]
    queries = [
        network.query_by_name[a.target] for a in outputs if a.target in network.query_by_name
    ]
    classes = {q.query_class for q in queries}
    alone = len(queries) == 1 and service is ServiceKind.MICRO_BATCH
    name = queries[0].name if alone else members[0].node
    if name in used:
        name = f"{members[0].node}/{members[0].name}"
    used.add(name)
    return Job(
        name,
        members[0].node,
        network,
        tuple(members),
        tuple(inputs),
        tuple(splits),
        tuple(outputs),
        target_seconds,
        classes.pop() if len(classes) == 1 else None,
        max((q.keep_at_least for q in queries), default=0.0),
    )
