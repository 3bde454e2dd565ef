"""How long a batch takes for the task seconds in it: what is fixed, and how wide it runs. Pure.

With so many cores at hand, all busy, a task second takes one by that of the batch. How near a
query comes to it is learnt. When executors come or go, what was learnt is scaled to the new
number: a query that kept 0.8 of two cores busy is believed to keep 0.8 of four busy, until seen.

Guarantees: memory is constant. A task second never takes less than a quarter of all cores would.
"""

from __future__ import annotations

from headgate.control import OperatorCosts, OperatorCostSettings

__all__ = ["BatchLength"]

_TASKS = "tasks"
_FIXED_SECONDS = 0.2
_WIDEST = 4.0  # times the cores


class BatchLength:
    """
    >>> length = BatchLength(cores=2)
    >>> length.seconds_per_task_second
    0.5
    >>> length.follow(4)
    >>> length.seconds_per_task_second
    0.25
    """

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._learnt = _learning(1.0 / cores, _FIXED_SECONDS)

    @property
    def fixed_seconds(self) -> float:
        """Of a batch without a task: planned and committed."""
        return self._learnt.fixed_seconds

    @property
    def seconds_per_task_second(self) -> float:
        return max(self._learnt.cost_seconds[_TASKS], 1.0 / (_WIDEST * self._cores))

    def observe(self, task_seconds: float, duration_seconds: float) -> None:
        self._learnt.observe({_TASKS: task_seconds}, duration_seconds)

    def follow(self, cores: int) -> None:
        """There are so many cores now."""
        if cores == self._cores:
            return
        scaled = self._learnt.cost_seconds[_TASKS] * self._cores / cores
        self._learnt = _learning(scaled, self._learnt.fixed_seconds)
        self._cores = cores


def _learning(seconds_per_task_second: float, fixed_seconds: float) -> OperatorCosts:
    return OperatorCosts(
        {_TASKS: seconds_per_task_second},
        OperatorCostSettings(
            believed_scale=0.3,
            believed_ratio=0.3,
            fixed_seconds=fixed_seconds,
            fixed_deviation_seconds=0.3,
            drift=0.01,
            common_drift=0.02,
        ),
    )
