"""The solver planner: the 2007 region quadtree with a maximum percent error.

Decides in advance. The box of rates is divided, worst region first, until no region's
error is above `max_error`; at run time a point finds its region and takes its plan.
What is guaranteed, what is not and what it costs: see `region_planner`.

Reference: 2007, section 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import PlanningError
from headgate.network import Network, Statistics
from headgate.planning.flow_model import Floats
from headgate.planning.regions.region_planner import RegionPlanner, RegionSettings, Stop
from headgate.planning.regions.region_quadtree import Ids

__all__ = ["SolverPlanner", "SolverSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverSettings(RegionSettings):
    """max_error: share of the best score that may be lost, at every point of the box."""

    max_error: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.max_error <= 1.0:
            raise PlanningError(
                f"max_error is a fraction above 0 and at most 1, got {self.max_error!r}; "
                "0.05 means 5 %"
            )


class SolverPlanner(RegionPlanner):
    """Plans made in advance, each within `max_error` of the best at every point it serves.

    `stop` ends the advance planning early; `improve` goes on with it later, and
    `error_reached` says at any time how far it has come.

    Example: `SolverPlanner(network).plan({"orders": 3000.0}).keep_fraction`.
    """

    name = "solver"

    def __init__(
        self,
        network: Network,
        statistics: Statistics | None = None,
        settings: SolverSettings | None = None,
        stop: Stop | None = None,
    ) -> None:
        self.settings = settings or SolverSettings()
        super().__init__(network, statistics, self.settings, stop)

    @property
    def error_reached(self) -> float:
        return self.error

    @property
    def error_wanted(self) -> float:
        return self.settings.max_error

    def _priorities(self, ids: Ids) -> Floats:
        return self.tree.error[ids]

    def _floor(self) -> float:
        return self.settings.max_error
