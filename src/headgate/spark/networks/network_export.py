"""What was measured of queries that no network file describes, as a network. No pyspark.

Each query becomes one operator that reads a stream for each gate at its inputs. The capacity of the
node is its cores. The cost of a tuple is the time that its batch takes for it on all of them, since
nobody else is known to use them meanwhile. The selectivity is what the query delivers for a kept
tuple, 1 where that is not known. What happens inside a query is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.coordinator import QuerySettings
from headgate.coordinator.settings import upstream_gates
from headgate.errors import UsageError
from headgate.network import Network, Node, Operator, OperatorKind, Query, Stream

__all__ = ["MeasuredQuery", "network_of_queries"]

_NODE = "spark"


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """One running query. Rates are tuples per second at its gates.

    seconds_per_tuple: of the time of its batches. selectivity: rows delivered for a kept tuple.
    """

    name: str
    settings: QuerySettings
    rates_per_second: Mapping[str, float]
    seconds_per_tuple: float | None
    selectivity: float | None = None


def network_of_queries(name: str, queries: list[MeasuredQuery], cores: float = 1.0) -> Network:
    """UsageError as long as nothing was measured."""
    known = [query for query in queries if query.seconds_per_tuple and query.rates_per_second]
    if not known:
        raise UsageError("nothing was measured yet; start a query and let it run some batches")
    taken: set[str] = {query.name for query in known}
    streams: list[Stream] = []
    operators: list[Operator] = []
    outputs: list[Query] = []
    for query in known:
        upstream = upstream_gates(query.settings.after)
        first = [gate for gate in query.settings.gates if not upstream.get(gate)]
        inputs = []
        for gate in first:
            stream = _free(gate, taken)
            inputs.append(stream)
            streams.append(Stream(stream, query.rates_per_second.get(gate, 0.0)))
        work = _free(f"{query.name} work", taken)
        cost = cores * (query.seconds_per_tuple or 0.0)
        selectivity = query.selectivity or 1.0  # a window that is still open delivers nothing
        operators.append(Operator(work, OperatorKind.SQL, tuple(inputs), _NODE, cost, selectivity))
        outputs.append(
            Query(
                query.name,
                work,
                1.0,
                query.settings.query_class,
                query.settings.latency_target_seconds,
                query.settings.keep_at_least,
            )
        )
    return Network(name, tuple(streams), tuple(operators), tuple(outputs), (Node(_NODE, cores),))


def _free(wanted: str, taken: set[str]) -> str:
    """A name that no other part has; two queries may call their gates the same."""
    plain = " ".join(wanted.replace("->", " to ").split())[:180] or "stream"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain} {number}"
    taken.add(name)
    return name
