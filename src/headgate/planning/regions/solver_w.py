"""The solver-w planner: the region quadtree under a distribution of rates.

Decides in advance, as `solver` does, but spends its effort where the rates are likely
to be: regions are ranked by probability x error, and dividing ends when the sum of
these over all regions, the expected maximum error, is no more than `max_expected_error`.

Guarantees: those of `region_planner`, with `error_reached` the expected maximum error.
A single point can be worse than that by far where the workload says it is unlikely;
`error` is the worst of any region, and `plan.gap` is proven for the point at hand.
Not guaranteed: anything when the rates follow another distribution; and rates beyond a
box that the settings made smaller than the useful rates are not counted at all
(`uncovered` says how likely they are).

Reference: 2007, section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.errors import PlanningError, StatisticsError
from headgate.network import Network, Statistics, check_rates
from headgate.planning.flow_model import Floats
from headgate.planning.regions.region_planner import RegionPlanner, RegionSettings, Stop
from headgate.planning.regions.region_quadtree import Ids
from headgate.planning.regions.workload import ExponentialRates, Workload

__all__ = ["SolverWPlanner", "SolverWSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverWSettings(RegionSettings):
    """What is enough, and for which rates.

    max_expected_error: the sum over all regions of probability x error to come down to.
    workload:           the distribution of the rates; None means independent exponential
                        rates with the streams' described rates as their means.
    """

    max_expected_error: float = 0.01
    workload: Workload | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.max_expected_error <= 1.0:
            raise PlanningError(
                "max_expected_error is a fraction above 0 and at most 1, got "
                f"{self.max_expected_error!r}; 0.01 means 1 %"
            )


class SolverWPlanner(RegionPlanner):
    """Plans made in advance, with a small expected error for the rates that are likely.

    Example:
        workload = ExponentialRates((2000.0, 50.0))
        SolverWPlanner(network, settings=SolverWSettings(workload=workload))
    """

    name = "solver-w"

    def __init__(
        self,
        network: Network,
        statistics: Statistics | None = None,
        settings: SolverWSettings | None = None,
        stop: Stop | None = None,
    ) -> None:
        self.settings = settings or SolverWSettings()
        self.workload = _workload(network, self.settings.workload)
        super().__init__(network, statistics, self.settings, stop)

    @property
    def error_reached(self) -> float:
        return float(np.sum(self._priority[: self.tree.count][self.tree.is_leaf]))

    @property
    def error_wanted(self) -> float:
        return self.settings.max_expected_error

    @property
    def uncovered(self) -> float:
        """The probability of rates beyond a box smaller than the useful rates."""
        return max(0.0, 1.0 - float(self.probability(self.workload, np.array([0]))[0]))

    def summary(self) -> dict[str, Any]:
        return {**super().summary(), "uncovered": self.uncovered}

    def _priorities(self, ids: Ids) -> Floats:
        self.tree.probability[ids] = self.probability(self.workload, ids)
        return self.tree.probability[ids] * self.tree.error[ids]

    def _enough(self, priorities: Floats) -> int:
        """A division takes away at most a region's own share of the expected error."""
        excess = self.error_reached - self.error_wanted
        return 1 + int(np.searchsorted(np.cumsum(priorities), excess))


def _workload(network: Network, given: Workload | None) -> Workload:
    if given is None:
        return ExponentialRates(tuple(check_rates(network, {}).values()))
    if given.streams != len(network.streams):
        raise StatisticsError(
            f"the workload describes {given.streams} streams and network {network.name!r} has "
            f"{len(network.streams)}; give one mean or column for each, in the network's order"
        )
    return given
