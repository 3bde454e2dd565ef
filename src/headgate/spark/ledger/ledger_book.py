"""The ledgers of all queries of one driver: batch reports become rows on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.decision import EVERYTHING
from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.ledger.book import Book
from headgate.spark.ledger.ledger_file import COUNTED, UNCOUNTED, LedgerFile, LedgerLine
from headgate.spark.ledger.lines import rows_from
from headgate.spark.ledger.report import GateSums
from headgate.spark.policies.policy_run import outcome_of

__all__ = ["LedgerBook"]

_HELD_ROWS = 10_000
_LONGEST_DIGEST = 20_000


class LedgerBook(Book):
    """The ledgers; see `book` for what happens when a disk refuses."""

    def __init__(self, alarms: Alarms) -> None:
        super().__init__(alarms, "ledger", _HELD_ROWS)
        self._replayed: dict[str, int] = {}

    def open(
        self,
        run: QueryRun,
        directory: Path,
        run_id: str,
        committed: Sequence[int],
        replayed: int | None = None,
    ) -> None:
        """Begin or continue the ledger of a query; note batches whose numbers were lost.

        replayed: the batch that Spark runs again. A sink that has it already passes over it,
        and then nothing is counted.
        """

        def first_lines(file: LedgerFile) -> list[LedgerLine]:
            last = file.last_batch(run.query_id)
            if replayed is not None and replayed > last:
                self._replayed[run.key] = replayed
            lost = [batch for batch in committed if batch > last]
            return [_lost(run, run_id, batch, gate) for batch in lost for gate in run.gates]

        with self._lock:
            self._begin(run, directory, run_id, first_lines)

    def enter(self, run: QueryRun, report: BatchReport, rates: Mapping[str, float]) -> None:
        """Rows for one finished batch."""
        with self._lock:
            lines = _lines(run, report, rates)
            if self._replayed.pop(run.key, None) == report.batch:
                passed_over = [gate for gate in run.gates if gate not in report.gates]
                lines += [_lost(run, report.run_id, report.batch, gate) for gate in passed_over]
            self._write(run, lines)

    def event_times(self, run: QueryRun, last_batch: int | None) -> tuple[dict[str, int], bool]:
        """Largest event time (microseconds) by gate, and whether all batches are in.

        A batch whose numbers were lost has no time later than that at which it was missed.
        """
        place = self._places.get(run.key)
        largest: dict[str, int] = {}
        newest = -1
        with self._lock:
            parts = [] if place is None else self._sums_of(place.directory).gate_parts()
            for part in parts:
                if part.query_id == run.query_id:
                    newest = max(newest, part.last_batch)
                    micros = part.event_time_micros
                    if micros is not None:
                        largest[part.gate] = max(micros, largest.get(part.gate, micros))
        return largest, last_batch is None or newest >= last_batch

    def sums(self) -> dict[tuple[str, str], GateSums]:
        """Sums over all rows by (query, gate), in time that does not grow with the rows."""
        total: dict[tuple[str, str], GateSums] = {}
        for directory in list(self.directories):
            with self._lock:
                sums = self._sums_of(directory)
                try:
                    sums.catch_up()
                    found = sums.sums()
                except OSError as error:
                    text = f"cannot read {directory}: {error}; its sums are left out"
                    self._alarms.raise_alarm("ledger", str(directory), text)
                    continue
            for key, one in found.items():
                total.setdefault(key, GateSums()).merge(one)
        return total

    def rows(self) -> Iterator[dict[str, Any]]:
        """All of them: for tests and measurements."""
        for directory in list(self.directories):
            for path in reversed(list(self.newest_first(directory))):
                yield from (row for row, _ in rows_from(path, 0) if row is not None)


def _lines(run: QueryRun, report: BatchReport, rates: Mapping[str, float]) -> list[LedgerLine]:
    decisions = [report.decision_of(gate) for gate in report.gates]
    why = run.why.get(report.batch)
    return [
        LedgerLine(
            report.end_seconds,
            run.name,
            report.query_id,
            report.run_id,
            report.batch,
            gate,
            COUNTED,
            seen.offered,
            seen.kept,
            seen.dropped,
            None if decision is None else decision.threshold(gate) / EVERYTHING,
            None if decision is None else decision.version,
            None if decision is None else decision.salt,
            "replayed" if why is None else why.get(gate, ""),
            report.latency_mean_seconds(),
            report.latency_percentiles_seconds().get(95.0),
            report.duration_seconds,
            rates.get(gate),
            run.query_class,
            report.held_seconds,
            seen.lost,
            seen.event_time_max_micros,
            result_rows=report.result_rows,
            result_latency_mean_seconds=report.result_latency_mean_seconds(),
            result_latency_p95_seconds=report.result_latency_p95_seconds(),
            letters=None if seen.letters is None else seen.letters.written,
            letters_left=None if seen.letters is None else seen.letters.left,
            would_keep=run.would_keep.get(report.batch, {}).get(gate),
            **_policy_fields(run, report, gate, seen),
        )
        for (gate, seen), decision in zip(report.gates.items(), decisions, strict=True)
    ]


def _policy_fields(
    run: QueryRun, report: BatchReport, gate: str, seen: GateReport
) -> dict[str, Any]:
    """What the ledger says of a policy; nothing for a gate without one."""
    policy = run.policies.get(gate)
    if policy is None:
        return {}
    level = 0 if report.decision is None else report.decision.level(gate)
    try:
        outcome = outcome_of(policy.gate, seen)
    except ValueError:
        return {"level": level}
    text = json.dumps(outcome.digest.results()) if seen.dropped else None
    if text is not None and len(text) > _LONGEST_DIGEST:
        text = None  # it stands whole in the digests
    return {
        "level": level,
        "dropped_by_level": outcome.dropped_by_level(seen.offered, level),
        "odd": outcome.odd,
        "digest": text,
    }


def _lost(run: QueryRun, run_id: str, batch: int, gate: str) -> LedgerLine:
    nothing: tuple[None, ...] = (None,) * 6
    offered, kept, dropped, keep, version, salt = nothing
    return LedgerLine(
        time.time(),
        run.name,
        run.query_id,
        run_id,
        batch,
        gate,
        UNCOUNTED,
        offered,
        kept,
        dropped,
        keep,
        version,
        salt,
        "the driver stopped before it was counted",
        query_class=run.query_class,
    )
