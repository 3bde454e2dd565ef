"""What the class loop is told once in a load cycle, gathered from the queries of each class."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.control import ClassLoad
from headgate.coordinator.class_loop import ClassLoop, ClassNeeds
from headgate.coordinator.query_state import QueryState

__all__ = ["class_cycle"]


def class_cycle(
    classes: ClassLoop, queries: Mapping[str, QueryState], ages_seconds: Mapping[str, float]
) -> dict[str, float] | None:
    """One load cycle; returns the new portions when capacity has moved.

    ages_seconds: mean age of what waits now, of queries that wait for their turn.
    """
    by_class: dict[str, list[QueryState]] = {}
    for state in queries.values():
        if state.settings.query_class is not None:
            by_class.setdefault(state.settings.query_class, []).append(state)
    targets: dict[str, float] = {
        name: min(given)
        for name, states in by_class.items()
        if (given := [t for s in states if (t := s.settings.latency_target_seconds) is not None])
    }
    loads = {name: [_load(classes, state) for state in states] for name, states in by_class.items()}
    if classes.settings.batch_every is None:
        responses: dict[str, float | None] = {
            name: _mean_taken(states) for name, states in by_class.items()
        }
    else:
        near: dict[str, list[float]] = {}
        for query, state in queries.items():
            query_class, ratio = (
                state.settings.query_class,
                _nearness(state, ages_seconds.get(query)),
            )
            if query_class is not None and ratio is not None:
                near.setdefault(query_class, []).append(ratio)
        responses = {n: sum(r) / len(r) * targets[n] for n, r in near.items()}
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


def _mean_taken(states: list[QueryState]) -> float | None:
    taken = [r for state in states if (r := state.take_response()) is not None]
    return sum(taken) / len(taken) if taken else None


def _nearness(state: QueryState, age_seconds: float | None) -> float | None:
    """Response over target of one query. Micro-batches come seldom: the last response stands,
    unless what waits now is older already."""
    last, target = state.last_response, state.settings.latency_target_seconds
    if last is None or target is None:
        return None
    return max(last, age_seconds or 0.0) / target


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
