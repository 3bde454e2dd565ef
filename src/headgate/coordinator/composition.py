"""How plan, class share, feedback, guarantee and mode become one keep fraction."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.coordinator.decisions import Bound, Why
from headgate.coordinator.settings import Mode

__all__ = ["composed_keep", "scaled_to"]


def composed_keep(
    plan: float | None,
    feedback: float | None,
    class_limit: float | None,
    keep_at_least: float,
    mode: Mode,
    note: str,
) -> tuple[Why, float]:
    """The keep fraction of one gate and the reason for it.

    The smallest of the loops' answers counts, because each speaks of another limit:
    the plan also of nodes downstream, the class of its share, the feedback of the
    latency that was measured. A guaranteed minimum lifts the result.

    >>> why, keep = composed_keep(0.8, 0.5, None, 0.0, Mode.ON, "")
    >>> keep, why.bound.value
    (0.5, 'feedback')
    """
    wanted, bound = 1.0, Bound.NOTHING
    if plan is not None and plan < wanted:
        wanted, bound = max(0.0, plan), Bound.PLAN
    if class_limit is not None and class_limit < wanted:
        wanted, bound = max(0.0, class_limit), Bound.CLASS
    if feedback is not None and feedback < wanted:
        wanted, bound = feedback if feedback > 0.0 else 0.0, Bound.FEEDBACK
    if wanted < keep_at_least:
        wanted, bound = keep_at_least, Bound.GUARANTEE
    keep = wanted
    if mode is not Mode.ON and wanted < 1.0:
        keep, bound = 1.0, Bound.MODE
    return Why(bound, wanted, plan, feedback, class_limit, note), keep


def scaled_to(
    fraction: float, planned: Mapping[str, float], waiting: Mapping[str, int]
) -> dict[str, float]:
    """Keep `fraction` of all that waits, spread over the gates in the ratio of the plan.

    A gate that would keep more than everything keeps everything, and the others take
    over its part. Gates without a count weigh as one tuple.

    >>> scaled_to(0.5, {"a": 1.0, "b": 0.5}, {"a": 100, "b": 100})
    {'a': 0.6666666666666666, 'b': 0.3333333333333333}
    """
    counts = {gate: max(waiting.get(gate, 0), 1) for gate in planned}
    budget = fraction * sum(counts.values())
    keep = dict.fromkeys(planned, 0.0)
    open_gates = [gate for gate in planned if planned[gate] > 0.0] or list(planned)
    ratio = {gate: planned[gate] if planned[gate] > 0.0 else 1.0 for gate in open_gates}
    while open_gates:
        weight = sum(counts[gate] * ratio[gate] for gate in open_gates)
        level = budget / weight
        full = [gate for gate in open_gates if level * ratio[gate] >= 1.0]
        if not full:
            keep.update({gate: level * ratio[gate] for gate in open_gates})
            break
        for gate in full:
            keep[gate] = 1.0
            budget -= counts[gate]
            open_gates.remove(gate)
        budget = max(0.0, budget)
    return keep
