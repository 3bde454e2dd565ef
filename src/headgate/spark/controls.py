"""What a person changes while queries run: mode, limits, classes. Part of `Headgate`.

Each change counts from the next batch on. A batch under way keeps its decision, which stands in
the offset log, so that it is exact when it has to run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from headgate.coordinator import Mode
from headgate.coordinator.explain import because
from headgate.errors import UsageError
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.classes import checked_priorities, class_views
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.user_input import seconds_of, share_of

__all__ = ["Controls"]


_BY_EDGE = {
    "limit": "a limit was set by hand",
    "warm-up": "the query has just started, and no cost is known yet",
    "too old": "they had waited for longer than drop_older allows",
    "nothing waits": "nothing was waiting when it was asked",
}


class Controls:
    """See the module."""

    _agent: Agent

    def mode(self, mode: str | None = None) -> str:
        """The mode; with an argument, change it: "on", "off" (measure only) or "open".

        "open" is the kill switch. It acts from the next batch of every query on: a batch under
        way keeps its decision, so that a replay of it is exact.
        """
        if mode is not None:
            try:
                wanted = Mode(mode)
            except ValueError:
                known = ", ".join(m.value for m in Mode)
                raise UsageError(f"no mode {mode!r}; expected one of {known}") from None
            self._agent.set_mode(wanted)
        return self._agent.mode.value

    def limit(self, query: str, gate: str, keep: float) -> None:
        """By hand: at most this share passes, from the next batch on. 1 lifts the limit."""
        share = share_of(keep, "keep")
        for run in self._agent.started(query):
            if gate in run.gates:
                self._agent.set_limit(run, gate, share)
                return
        runs = self._agent.started()
        known = ", ".join(f"{run.name}/{gate}" for run in runs for gate in run.gates)
        raise UsageError(f"no gate {query}/{gate}; running are: {known or 'none'}")

    def drop_older(self, query: str, than: str | float | timedelta | None) -> None:
        """After a stall, let tuples fall that arrived longer ago than this; None keeps them."""
        seconds = None if than is None else seconds_of(than, "than")
        self._agent.set_drop_older(self._run(query), seconds)

    def classes(self, priorities: Mapping[str, float] | None = None) -> dict[str, float]:
        """The priorities; with an argument, change them. What was lent is back then."""
        loop = self._agent.coordinator.classes
        if priorities is not None:
            if loop is None:
                raise UsageError("there are no classes; give them to attach(spark, classes=...)")
            wanted = checked_priorities(priorities)
            used = {s.query_class for s in self._agent.coordinator.queries.values()}
            missing = sorted(name for name in used if name and name not in wanted)
            if missing:
                raise UsageError(f"class {', '.join(missing)} has queries; give it a priority")
            self._agent.set_classes(wanted)
            loop = self._agent.coordinator.classes
        return {} if loop is None else dict(loop.settings.priorities)

    def share(self) -> dict[str, float]:
        """What each class may use of the application now, 0 to 1, with what is lent."""
        return dict(self._agent.coordinator.portions)

    def explain(self, query: str) -> str:
        """Why the last batch of a query kept what it kept, a sentence for each gate."""
        run = self._run(query)
        lines = _reasons(run) or [f"{query} has not run a batch yet."]
        views = class_views(self._agent.coordinator, ())
        return "\n".join([*lines, *(v.share_text() for v in views if v.name == run.query_class)])

    def _run(self, query: str) -> QueryRun:
        for run in self._agent.started(query):
            return run
        known = ", ".join(run.name for run in self._agent.started())
        raise UsageError(f"no query {query!r}; running are: {known or 'none'}")

    def _check_class(self, priority: str | None) -> None:
        known = self.classes()
        if priority is None or priority in known:
            return
        if not known:
            raise UsageError(
                f"priority {priority!r}: there are no classes; attach with "
                f"classes={{{priority!r}: 1, ...}}"
            )
        raise UsageError(f"no class {priority!r}; expected one of {', '.join(known)}")


def _reasons(run: QueryRun) -> list[str]:
    """A sentence for each gate, on the last batch that had tuples."""
    report = run.last_with_tuples
    if report is None:
        return []
    why, decided = run.why.get(report.batch, {}), run.decided.get(report.batch, ())
    sentences = {d.gate: because(d.why, d.keep_fraction) for d in decided}
    told = []
    for gate, seen in report.gates.items():
        share = 100.0 * (1.0 - seen.kept / seen.offered) if seen.offered else 0.0
        named = why.get(gate, "")
        reason = _BY_EDGE.get(named, sentences.get(gate, named)) or "not known any more"
        told.append(
            f"{gate}: batch {report.batch} dropped {share:.3g} % of {seen.offered}: {reason}."
        )
    return told
