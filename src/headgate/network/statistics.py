"""What is known about a network in numbers: costs, selectivities, windows.

Statistics are given by hand in the network, measured while it runs, or both: a
measured value stands in front of the one in the description.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.errors import StatisticsError
from headgate.network.elements import Operator, OperatorKind
from headgate.network.model import Network

__all__ = ["OperatorStatistics", "Statistics", "check_rates"]


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """The numbers a planner needs of one operator; None means not measured yet."""

    cost_seconds: float | None = None
    selectivity: float | None = None
    window_tuples: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Statistics:
    """Measured numbers by operator name. Empty means: use the description's own."""

    operators: Mapping[str, OperatorStatistics] = field(default_factory=dict)

    def cost_seconds(self, operator: Operator) -> float:
        """CPU seconds for one input tuple of `operator`."""
        return self._value(
            operator, "cost", operator.cost_seconds, _of(self, operator).cost_seconds
        )

    def selectivity(self, operator: Operator) -> float:
        """Output tuples for one input tuple; a union passes everything unless told otherwise."""
        given = operator.selectivity
        if given is None and operator.kind in (OperatorKind.UNION, OperatorKind.MAP):
            given = 1.0
        return self._value(operator, "selectivity", given, _of(self, operator).selectivity)

    def gains(self, operator: Operator) -> tuple[float, ...]:
        """Output tuples for one tuple of each input, in the order of `inputs`.

        A join's tuple meets the windows of all other inputs (2007, section 3.3);
        every other operator treats its inputs alike.
        """
        selectivity = self.selectivity(operator)
        if operator.kind is not OperatorKind.JOIN:
            return (selectivity,) * len(operator.inputs)
        windows = _of(self, operator).window_tuples or operator.window_tuples
        if windows is None:
            raise StatisticsError(
                f"operator {operator.name!r}: the join's windows are not known; "
                "give windows (tuples held per input) or measure them first"
            )
        return tuple(
            selectivity * math.prod(w for j, w in enumerate(windows) if j != i)
            for i in range(len(windows))
        )

    @staticmethod
    def _value(operator: Operator, what: str, given: float | None, measured: float | None) -> float:
        value = given if measured is None else measured
        if value is None:
            raise StatisticsError(
                f"operator {operator.name!r}: its {what} is not known; give it in the network "
                "or measure it first"
            )
        if not (math.isfinite(value) and value >= 0):
            raise StatisticsError(
                f"operator {operator.name!r}: its {what} must be a number of at least 0, "
                f"got {value!r}"
            )
        return value


_NOTHING = OperatorStatistics()


def _of(statistics: Statistics, operator: Operator) -> OperatorStatistics:
    return statistics.operators.get(operator.name, _NOTHING)


def check_rates(network: Network, rates_per_second: Mapping[str, float]) -> dict[str, float]:
    """A rate for every stream, in the network's order.

    A stream that is not named takes the rate of its description. Unknown names,
    missing rates and impossible values raise StatisticsError with the way out.
    """
    from_outside = set(rates_per_second) - set(network.stream_by_name)
    if from_outside:
        known = ", ".join(network.stream_by_name)
        raise StatisticsError(
            f"rates for unknown streams {', '.join(sorted(from_outside))}; the streams are {known}"
        )
    rates: dict[str, float] = {}
    for stream in network.streams:
        rate = rates_per_second.get(stream.name, stream.rate_per_second)
        if rate is None:
            raise StatisticsError(
                f"no rate for stream {stream.name!r}; give one (--rates {stream.name}=...) "
                "or write it into the network"
            )
        if not (math.isfinite(rate) and rate >= 0):
            raise StatisticsError(
                f"the rate of stream {stream.name!r} must be a number of at least 0, got {rate!r}"
            )
        rates[stream.name] = float(rate)
    return rates
