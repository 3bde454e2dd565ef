"""One function that runs a network under a load in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.control import ServiceKind
from headgate.errors import UsageError
from headgate.network import Network, Statistics
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.buffers import BufferSimulation
from headgate.simulation.micro_batches import MicroBatchSimulation
from headgate.simulation.record import SimulationResult
from headgate.simulation.settings import SimulationSettings

__all__ = ["simulate"]


def simulate(
    network: Network,
    load: Mapping[str, Arrivals],
    settings: SimulationSettings,
    progress: Callable[[float], None] | None = None,
) -> SimulationResult:
    """Run `network` under `load` (arrivals by stream) and say what happened.

    `progress` is called with the virtual time. Decisions come from the real coordinator.

    Guarantees: the same arguments give the same result and the same journal; the books
    balance after every batch (arrived = processed + dropped + waiting + lost, and the
    ledger's offered = kept + dropped). Not guaranteed: that Spark behaves like the model.

    >>> from headgate.network import NetworkBuilder
    >>> from headgate.simulation.arrivals import Constant
    >>> b = NetworkBuilder("one")
    >>> work = b.delay("work", b.stream("s"), b.node("n"), cost_seconds=0.01, selectivity=1.0)
    >>> _ = b.query("q", work)
    >>> settings = SimulationSettings(seconds=20.0, latency_target_seconds=1.0)
    >>> result = simulate(b.build(), {"s": Constant(300.0)}, settings)
    >>> outcome = result.jobs["q"]
    >>> outcome.arrived == outcome.processed + outcome.dropped + outcome.waiting
    True
    """
    _check(network, settings)
    run = BufferSimulation if settings.service is ServiceKind.INPUT_BUFFER else MicroBatchSimulation
    return run(network, load, settings).run(progress)


def _check(network: Network, settings: SimulationSettings) -> None:
    statistics = Statistics()
    for operator in network.operators:  # raises where a number is missing
        statistics.cost_seconds(operator)
        statistics.gains(operator)
    for query in network.queries:
        if query.input in network.stream_by_name:
            raise UsageError(f"query {query.name!r} reads a stream; put an operator between them")
    for node in network.nodes:
        if node.capacity <= 0.0 and any(o.node == node.name for o in network.operators):
            raise UsageError(f"node {node.name!r} has no capacity; nothing can run on it")
    for failure in settings.failures:
        if failure.node not in network.node_by_name:
            known = ", ".join(network.node_by_name)
            raise UsageError(f"no node {failure.node!r} to fail; the nodes are {known}")
