"""Highest rate first: which operator of a class runs next?

The 2011 paper, section III-A, level 2. The priority of an operator is its output rate:
the results that a tuple in front of it will become, divided by the seconds that this
takes, both added up along all paths to the class's queries. What yields results
fastest goes first, which keeps the mean response time low.

Operators that read a stream run only when no other operator of the class has work:
what is already inside is finished before more is let in.

Cost: linear in operators and arcs once, then O(operators that wait) per question.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from headgate.network import Network, Operator, Statistics

__all__ = ["HighestRateOrder"]


class HighestRateOrder:
    """The operators of one class in the order of their output rate.

    `query_class` None takes the operators of all queries. `rate_per_second` holds the
    priority of each operator; `sources` are those that read a stream.
    """

    def __init__(
        self, network: Network, statistics: Statistics, query_class: str | None = None
    ) -> None:
        queries = {
            q.name for q in network.queries if query_class is None or q.query_class == query_class
        }
        results: dict[str, float] = {}
        seconds: dict[str, float] = {}
        for operator in reversed(network.operators_in_order):
            targets = [arc.target for arc in network.arcs_from[operator.name]]
            through = float(sum(t in queries for t in targets))
            below = [t for t in targets if t in results]
            if through == 0.0 and not below:
                continue  # of no use to this class
            gain = _mean_gain(operator, statistics)
            results[operator.name] = gain * (through + sum(results[t] for t in below))
            seconds[operator.name] = statistics.cost_seconds(operator) + gain * sum(
                seconds[t] for t in below
            )
        self.rate_per_second = {
            name: results[name] / seconds[name] if seconds[name] > 0.0 else math.inf
            for name in results
        }
        self.sources = frozenset(
            o.name
            for o in network.operators
            if o.name in results and any(i in network.stream_by_name for i in o.inputs)
        )
        self.order = tuple(
            sorted(
                results, key=lambda name: (name in self.sources, -self.rate_per_second[name], name)
            )
        )
        self._rank = {name: rank for rank, name in enumerate(self.order)}

    def next_operator(self, waiting: Collection[str]) -> str | None:
        """The operator to run, of those with tuples in front of them; None if there is none."""
        ranked = [name for name in waiting if name in self._rank]
        return min(ranked, key=self._rank.__getitem__, default=None)


def _mean_gain(operator: Operator, statistics: Statistics) -> float:
    gains = statistics.gains(operator)
    return sum(gains) / len(gains)
