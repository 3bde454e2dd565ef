"""What was shed, why, for whom: the sums of the ledger as a dictionary and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headgate.spark.agent.alarms import Alarm
from headgate.spark.agent.classes import ClassView, jain_index

__all__ = ["GateSums", "Report", "sum_up"]


@dataclass(slots=True)
class GateSums:
    """Sums over all counted batches of one gate of one query.

    would_drop: tuples that would have been dropped while shedding was off.
    """

    batches: int = 0
    uncounted_batches: int = 0
    offered: int = 0
    kept: int = 0
    dropped: int = 0
    lost: int = 0
    dropped_because: dict[str, int] = field(default_factory=dict)
    last_keep_fraction: float | None = None
    last_latency_mean_seconds: float | None = None
    query_class: str | None = None
    result_rows: int = 0
    last_result_latency_mean_seconds: float | None = None
    letters: int | None = None
    letters_left: int = 0
    would_drop: float = 0.0

    @property
    def balances(self) -> bool:
        return self.offered == self.kept + self.dropped

    def add(self, row: Mapping[str, Any]) -> None:
        """One row of the ledger, later than those before."""
        self.query_class = row.get("query_class")
        if row["offered"] is None:
            self.uncounted_batches += 1
            return
        self.batches += 1
        self.offered += row["offered"]
        self.kept += row["kept"]
        self.dropped += row["dropped"]
        self.lost += row.get("lost") or 0
        would_keep = row.get("would_keep")
        if would_keep is not None:
            self.would_drop += (1.0 - would_keep) * row["offered"]
        if row.get("letters") is not None:
            self.letters = (self.letters or 0) + row["letters"]
            self.letters_left += row.get("letters_left") or 0
        if row["dropped"]:
            self._because(row["why"] or "unknown", row["dropped"])
        self.last_keep_fraction = row["keep_fraction"]
        if row["latency_mean_seconds"] is not None:
            self.last_latency_mean_seconds = row["latency_mean_seconds"]
        self.result_rows += row.get("result_rows") or 0
        if row.get("result_latency_mean_seconds") is not None:
            self.last_result_latency_mean_seconds = row["result_latency_mean_seconds"]

    def merge(self, later: GateSums) -> None:
        """Sums over other batches, that came later."""
        self.query_class = later.query_class
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        for why, count in later.dropped_because.items():
            self._because(why, count)
        if later.letters is not None:
            self.letters = (self.letters or 0) + later.letters
        if later.batches:
            self.last_keep_fraction = later.last_keep_fraction
        if later.last_latency_mean_seconds is not None:
            self.last_latency_mean_seconds = later.last_latency_mean_seconds
        if later.last_result_latency_mean_seconds is not None:
            self.last_result_latency_mean_seconds = later.last_result_latency_mean_seconds

    def _because(self, why: str, count: int) -> None:
        self.dropped_because[why] = self.dropped_because.get(why, 0) + count


_ADDED = (
    "batches",
    "uncounted_batches",
    "offered",
    "kept",
    "dropped",
    "lost",
    "result_rows",
    "letters_left",
    "would_drop",
)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """`sums` by (query, gate). `print(report)` shows a table; `as_dict` is for programs."""

    mode: str
    targets_seconds: Mapping[str, float | None]
    sums: Mapping[tuple[str, str], GateSums]
    alarms: Sequence[Alarm]
    classes: Sequence[ClassView] = ()

    @property
    def fairness(self) -> float:
        """Jain's index of the share of its data that each class keeps; 1 is even."""
        return jain_index(1.0 - view.loss for view in self.classes)

    @property
    def balances(self) -> bool:
        return all(sums.balances for sums in self.sums.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "balances": self.balances,
            "gates": [
                {
                    "query": query,
                    "gate": gate,
                    "class": sums.query_class,
                    "latency_target_seconds": self.targets_seconds.get(query),
                    "batches": sums.batches,
                    "uncounted_batches": sums.uncounted_batches,
                    "offered": sums.offered,
                    "kept": sums.kept,
                    "dropped": sums.dropped,
                    "would_drop": round(sums.would_drop),
                    "lost": sums.lost,
                    "letters": sums.letters,
                    "letters_left": sums.letters_left,
                    "dropped_because": dict(sums.dropped_because),
                    "last_keep_fraction": sums.last_keep_fraction,
                    "last_latency_mean_seconds": sums.last_latency_mean_seconds,
                    "result_rows": sums.result_rows,
                    "last_result_latency_mean_seconds": sums.last_result_latency_mean_seconds,
                }
                for (query, gate), sums in self.sums.items()
            ],
            "classes": [view.as_dict() for view in self.classes],
            "fairness": self.fairness,
            "alarms": [f"{alarm.kind}, {alarm.subject}: {alarm.text}" for alarm in self.alarms],
        }

    def __str__(self) -> str:
        lines = [f"Headgate is {self.mode}."]
        lines += [str(view) for view in self.classes]
        for (query, gate), sums in self.sums.items():
            share = 100.0 * sums.dropped / sums.offered if sums.offered else 0.0
            target = self.targets_seconds.get(query)
            lines.append(
                f"{query} / {gate}: {sums.offered} offered = {sums.kept} kept + {sums.dropped} "
                f"dropped ({share:.3g} %) in {sums.batches} batches"
            )
            if round(sums.would_drop):
                more = f"about {sums.would_drop:.0f} more would have been dropped"
                lines.append(f"  {more}, but shedding was off")
            if sums.lost:
                lines.append(f"  {sums.lost} were gone at the source before they could be offered")
            if sums.uncounted_batches:
                lines.append(f"  {sums.uncounted_batches} batches could not be counted")
            for why, count in sorted(sums.dropped_because.items(), key=lambda item: -item[1]):
                lines.append(f"  {count} because of {why}")
            if sums.letters is not None:
                left = f", {sums.letters_left} could not be" if sums.letters_left else ""
                lines.append(f"  {sums.letters} of the dropped were written as dead letters{left}")
            if sums.last_latency_mean_seconds is not None:
                wanted = "no target" if target is None else f"target {target:g} s"
                lines.append(f"  last latency {sums.last_latency_mean_seconds:.3g} s ({wanted})")
            if sums.last_result_latency_mean_seconds is not None:
                age = sums.last_result_latency_mean_seconds
                lines.append(
                    f"  {sums.result_rows} results; the oldest tuple of the last ones came "
                    f"{age:.3g} s before they did, on average"
                )
        lines += [f"alarm: {told}" for told in _grouped(self.alarms)[-10:]]
        return "\n".join(lines)

    __repr__ = __str__


def sum_up(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], GateSums]:
    """Sums by (query, gate) over ledger rows; a row that comes twice counts once."""
    sums: dict[tuple[str, str], GateSums] = {}
    seen: set[tuple[str, int, str]] = set()
    for row in rows:
        key = (row["query_id"], row["batch"], row["gate"])
        if key not in seen:
            seen.add(key)
            sums.setdefault((row["query"], row["gate"]), GateSums()).add(row)
    return sums


def _grouped(alarms: Iterable[Alarm]) -> list[str]:
    """Each alarm once, by when it was last raised, with how often."""
    last: dict[tuple[str, str, str], tuple[int, float]] = {}
    for alarm in alarms:
        key = (alarm.kind, alarm.subject, alarm.text)
        count, _ = last.pop(key, (0, 0.0))
        last[key] = count + 1, alarm.time_seconds
    return [
        f"{kind}, {subject}: {text} ({_clock(when)}{f', {count} times' if count > 1 else ''})"
        for (kind, subject, text), (count, when) in last.items()
    ]


def _clock(time_seconds: float) -> str:
    return datetime.fromtimestamp(time_seconds).strftime("%H:%M:%S")
