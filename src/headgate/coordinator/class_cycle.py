"""What the class loop is told once in a load cycle, gathered from the queries of each class."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.control import ClassLoad
from headgate.coordinator.class_loop import ClassLoop, ClassNeeds
from headgate.coordinator.query_state import QueryState

__all__ = ["class_cycle"]


def class_cycle(classes: ClassLoop, queries: Iterable[QueryState]) -> dict[str, float] | None:
    """One load cycle; returns the new portions when capacity has moved."""
    by_class: dict[str, list[QueryState]] = {}
    for state in queries:
        if state.settings.query_class is not None:
            by_class.setdefault(state.settings.query_class, []).append(state)
    targets = {
        name: min(given)
        for name, states in by_class.items()
        if (given := [t for s in states if (t := s.settings.latency_target_seconds) is not None])
    }
    loads = {name: [_load(classes, state) for state in states] for name, states in by_class.items()}
    responses = {
        name: _response(classes, states, targets.get(name)) for name, states in by_class.items()
    }
    guarantees = {
        name: _guarantee(states, loads[name])
        for name, states in by_class.items()
        if any(state.settings.keep_at_least for state in states)
    }
    return classes.cycle(
        {name: _sum(parts) for name, parts in loads.items()},
        responses,
        ClassNeeds(targets, guarantees),
    )


def _load(classes: ClassLoop, state: QueryState) -> ClassLoad:
    every, target = classes.settings.batch_every, state.settings.latency_target_seconds
    if every is None or target is None:
        return ClassLoad(state.load)
    return state.load_with_batch_every(every * target)


def _response(
    classes: ClassLoop, states: list[QueryState], target_seconds: float | None
) -> float | None:
    """Mean response of the class. Micro-batches come seldom: their last response stands, and
    counts by how near it is to the query's own target."""
    if classes.settings.batch_every is None:
        taken = [r for state in states if (r := state.take_response()) is not None]
        return sum(taken) / len(taken) if taken else None
    near = [
        state.last_response / target
        for state in states
        if state.last_response is not None
        and (target := state.settings.latency_target_seconds) is not None
    ]
    return sum(near) / len(near) * target_seconds if near and target_seconds is not None else None


def _guarantee(states: list[QueryState], loads: list[ClassLoad]) -> float:
    """The share of the class's load that its queries are guaranteed."""
    total = sum(load.total for load in loads)
    if total <= 0.0:
        return 0.0
    pairs = zip(states, loads, strict=True)
    return sum(state.settings.keep_at_least * load.total for state, load in pairs) / total


def _sum(loads: list[ClassLoad]) -> ClassLoad:
    return ClassLoad(
        sum(load.private_load for load in loads), sum(load.shared_load for load in loads)
    )
