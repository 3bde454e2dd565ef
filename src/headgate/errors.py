"""Every exception that Headgate raises on purpose.

    HeadgateError
    ├── NetworkError          a network description is wrong (all problems at once)
    ├── StatisticsError       a cost, selectivity, window or rate is missing or impossible
    ├── PolicyError           a reduction policy is wrong (all problems at once)
    ├── PlanningError         a planner cannot give a plan
    │   ├── GuaranteesCollideError     the guaranteed minimums cannot all be met
    │   └── PlanningTimeoutError       the solver reached its time limit
    ├── DemoError             the demo cannot run on this machine
    └── UsageError            a command or a call was asked for something it does not have

A message says what was wrong, where, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "DemoError",
    "GuaranteesCollideError",
    "HeadgateError",
    "NetworkError",
    "PlanningError",
    "PlanningTimeoutError",
    "PolicyError",
    "Problem",
    "StatisticsError",
    "UsageError",
]


class HeadgateError(Exception):
    """The root of the tree: catch this to catch everything Headgate raises."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a description of a network or a policy.

    `field` is the path to the value, for example ``("operators", "parse", "cost")``.
    `line` is 1-based and None where the description does not come from a file.
    """

    field: tuple[str | int, ...]
    message: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = ".".join(str(part) for part in self.field)
        if self.file is not None:
            at = self.file if self.line is None else f"{self.file}:{self.line}"
            return f"{at}: {place}: {self.message}" if place else f"{at}: {self.message}"
        return f"{place}: {self.message}" if place else self.message


class NetworkError(HeadgateError):
    """A network description is wrong. `problems` holds every problem found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(_listed(self.problems, "network"))


class PolicyError(HeadgateError):
    """A reduction policy is wrong. `problems` holds every problem found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(_listed(self.problems, "policy"))


def _listed(problems: Sequence[Problem], what: str) -> str:
    head = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return f"{head} in the {what}:\n" + "\n".join(f"  {p}" for p in problems)


class StatisticsError(HeadgateError):
    """A cost, selectivity, window or rate is missing or impossible."""


class PlanningError(HeadgateError):
    """A planner cannot give a plan."""


class GuaranteesCollideError(PlanningError):
    """The guaranteed minimum keep fractions cannot all be met at these rates.

    `queries` is a smallest set that collides: without any one of them, the
    others could be met. `constraints` names the nodes and links that are full.
    """

    def __init__(self, queries: Sequence[str], constraints: Sequence[str]) -> None:
        self.queries = tuple(queries)
        self.constraints = tuple(constraints)
        who = ", ".join(self.queries)
        where = ", ".join(self.constraints)
        verb = "does not fit" if len(self.queries) == 1 else "do not fit together"
        super().__init__(
            f"the guaranteed minimum of {who} {verb} on {where}: "
            "lower a keep_at_least, raise the capacity, or plan for lower rates"
        )


class PlanningTimeoutError(PlanningError):
    """The solver reached its time limit before it had a plan."""


class DemoError(HeadgateError):
    """A command cannot run Spark on this machine, or Spark failed under it."""


class UsageError(HeadgateError):
    """A command or a call was asked for something it does not have."""
