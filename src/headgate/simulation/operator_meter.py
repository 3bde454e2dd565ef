"""What a running node knows of its load: measured costs and rates, and what follows.

Costs are busy seconds over tuples, both forgotten slowly; they contain the batch sizes
of the last seconds, because the cost of a tuple depends on its batch. Rates are what
arrived in a load cycle, before any gate, forgotten faster.

The load of a class is computed from them by `headgate.control.class_loads` (2011 paper,
section II), operators shared between classes included.

Cost: linear in operators, once in a load cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.control import ClassLoad, class_loads
from headgate.network import Network, OperatorStatistics, Statistics
from headgate.simulation.operator_parts import OperatorPart

__all__ = ["LoadMeter"]

_FORGET_COSTS = 0.1
"""Of a measured cost this share is forgotten in a cycle: the last ten cycles count."""
_FORGET_RATES = 0.5


class LoadMeter:
    """Turns counters of the engine into the load of each class."""

    def __init__(
        self,
        network: Network,
        operators: Mapping[str, OperatorPart],
        priorities: Mapping[str, float],
    ) -> None:
        self._network = network
        self._operators = operators
        self._priorities = priorities
        self._seen = dict.fromkeys(operators, (0, 0.0))
        self._recent = dict.fromkeys(operators, (0.0, 0.0))
        self._rates: dict[str, float] = {}

    def cycle(self, rates_per_second: Mapping[str, float]) -> dict[str, ClassLoad]:
        """The loads after one more cycle; `rates_per_second` is what each stream offered."""
        for stream, rate in rates_per_second.items():
            old = self._rates.get(stream, rate)
            self._rates[stream] = old + _FORGET_RATES * (rate - old)
        measured = {name: self._cost(name, part) for name, part in self._operators.items()}
        return class_loads(self._network, Statistics(measured), self._rates, self._priorities)

    def _cost(self, name: str, part: OperatorPart) -> OperatorStatistics:
        """Seconds for one tuple lately; a tuple on its own if there was none."""
        seen_tuples, seen_seconds = self._seen[name]
        tuples, seconds = self._recent[name]
        tuples = (1.0 - _FORGET_COSTS) * tuples + part.taken - seen_tuples
        seconds = (1.0 - _FORGET_COSTS) * seconds + part.busy_seconds - seen_seconds
        self._seen[name] = part.taken, part.busy_seconds
        self._recent[name] = tuples, seconds
        alone = part.fixed_seconds + part.marginal_seconds
        return OperatorStatistics(cost_seconds=seconds / tuples if tuples > 0.0 else alone)
