"""One sentence on why a tuple was dropped."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.coordinator.decisions import Bound, SetKeepFraction, Why
from headgate.coordinator.journal import JournalEntry

__all__ = ["because", "explain", "sentence"]


def explain(entries: Iterable[JournalEntry], query: str, time_seconds: float) -> str:
    """Why tuples of `query` were dropped (or kept) at `time_seconds`.

    Looks for the decision of the query that stood at that time: the last one that was
    taken at or before it.
    """
    standing: dict[str, tuple[float, SetKeepFraction]] = {}
    for entry in entries:
        if entry.event.time_seconds > time_seconds:
            break
        for decision in entry.decisions:
            if isinstance(decision, SetKeepFraction) and decision.query == query:
                standing[decision.gate] = (entry.event.time_seconds, decision)
    if not standing:
        return f"No decision about {query} was taken up to {time_seconds:g} s."
    return " ".join(sentence(at, decision) for at, decision in standing.values())


def sentence(at_seconds: float, decision: SetKeepFraction) -> str:
    """What one decision says, and why."""
    batch = "" if decision.batch is None else f" of batch {decision.batch}"
    share = f"{100 * (1 - decision.keep_fraction):.3g} %"
    where = f"At {at_seconds:g} s, {share} of the tuples of {decision.query}{batch} were to go "
    return f"{where}at gate {decision.gate}: {because(decision.why, decision.keep_fraction)}."


def because(why: Why, keep_fraction: float) -> str:
    """The reason of one decision, in words."""
    wanted = f"{100 * (1 - why.wanted):.3g} %"
    texts = {
        Bound.NOTHING: "everything fits",
        Bound.PLAN: "the plan for the whole network leaves no room for them",
        Bound.FEEDBACK: f"the latency target could not be met otherwise ({why.note})",
        Bound.CLASS: "the share of its class is used up",
        Bound.GUARANTEE: "more would have gone, but a guaranteed minimum is kept",
        Bound.MODE: f"shedding is switched off; otherwise {wanted} would have gone",
    }
    others = {"the plan": why.plan, "the class": why.class_limit, "latency feedback": why.feedback}
    named = {
        "the plan": why.bound is Bound.PLAN,
        "the class": why.bound is Bound.CLASS,
        "latency feedback": why.bound is Bound.FEEDBACK,
    }
    milder = [
        f"{name} alone would have kept {100 * value:.3g} %"
        for name, value in others.items()
        if value is not None and not named[name] and value > keep_fraction
    ]
    text = texts[why.bound]
    return text if not milder or why.bound is Bound.NOTHING else f"{text} ({', '.join(milder)})"
