"""Digests of what gates with a policy dropped, on disk beside the ledger and as a table.

`<checkpoint>/headgate/digests/*.jsonl`, one line for each gate and batch that dropped
something, with the guarantees of `ledger_file`. `content` is the digest itself: digests
of many batches merge with `headgate.reduction.merge_digests`.

Called on the event thread. A disk that refuses raises an alarm; lines are held in memory
until it works again, at most `_HELD` of a query (oldest out).
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.alarms import Alarms
from headgate.spark.ledger_file import LedgerFile
from headgate.spark.policy_run import PolicyRun, outcome_of
from headgate.spark.progress import BatchReport, GateReport
from headgate.spark.query_run import QueryRun

__all__ = ["DigestBook", "DigestLine", "digest_table"]

_HELD = 1000
_LINE_SCHEMA = (
    "time_seconds double, query string, query_id string, run_id string, batch bigint, "
    "gate string, policy string, level int, dropped bigint, "
    "groups array<struct<group: string, dropped_of_group: bigint, results: map<string, string>>>, "
    "content string"
)


@dataclass(frozen=True, slots=True)
class DigestLine:
    """What one gate dropped in one batch."""

    time_seconds: float
    query: str
    query_id: str
    run_id: str
    batch: int
    gate: str
    policy: str
    level: int
    dropped: int
    groups: list[dict[str, Any]]
    content: str


class DigestBook:
    """Opened files by the key of their run."""

    def __init__(self, alarms: Alarms) -> None:
        self.directories: list[Path] = []
        self._alarms = alarms
        self._files: dict[str, LedgerFile] = {}
        self._held: dict[str, deque[DigestLine]] = {}
        self._lock = threading.Lock()

    def open(self, run: QueryRun, directory: Path, run_id: str) -> None:
        """Begin or continue the digests of a query that has policies."""
        if not run.policies:
            return
        with self._lock:
            try:
                self._files[run.key] = LedgerFile(directory, run_id)
            except OSError as error:
                self._alarms.raise_alarm("digests", run.name, f"cannot read {directory}: {error}")
                return
            self._held[run.key] = deque(maxlen=_HELD)
            if directory not in self.directories:
                self.directories.append(directory)

    def enter(self, run: QueryRun, report: BatchReport, rates: Mapping[str, float]) -> None:
        """Lines for one finished batch."""
        del rates
        with self._lock:
            file = self._files.get(run.key)
            if file is None:
                return
            held = self._held[run.key]
            try:
                held.extend(_lines(run, report))
                file.append(held)
                held.clear()
            except (OSError, ValueError) as error:
                with suppress(OSError):  # closing tries to write once more
                    file.close()
                text = f"cannot write {file.directory}: {error}; {len(held)} lines wait in memory"
                self._alarms.raise_alarm("digests", run.name, text)

    def close(self, run: QueryRun) -> None:
        with self._lock:
            file = self._files.pop(run.key, None)
            if file is not None:
                file.close()

    def close_all(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()


def digest_table(spark: SparkSession, directories: Iterable[Path]) -> DataFrame:
    """One row for each gate, batch and group that lost something; read when it is used."""
    paths = [f"file://{path.absolute()}" for path in directories if any(path.glob("*.jsonl"))]
    if paths:
        reader = spark.read.schema(_LINE_SCHEMA).option("mode", "DROPMALFORMED")
        lines = reader.json(paths).dropDuplicates(["query_id", "batch", "gate"])
    else:
        lines = spark.createDataFrame([], _LINE_SCHEMA)
    return lines.selectExpr("* except (groups, content)", "inline(groups)", "content")


def _lines(run: QueryRun, report: BatchReport) -> list[DigestLine]:
    found = []
    for gate, seen in report.gates.items():
        policy = run.policies.get(gate)
        if policy is not None and seen.dropped:
            found.append(_line(run, report, gate, seen, policy))
    return found


def _line(
    run: QueryRun, report: BatchReport, gate: str, seen: GateReport, policy: PolicyRun
) -> DigestLine:
    digest = outcome_of(policy.gate, seen).digest
    groups = [
        {
            "group": label,
            "dropped_of_group": found.pop("dropped"),
            "results": {title: json.dumps(result) for title, result in found.items()},
        }
        for label, found in digest.results().items()
    ]
    return DigestLine(
        report.end_seconds,
        run.name,
        report.query_id,
        report.run_id,
        report.batch,
        gate,
        policy.gate.policy.name,
        0 if report.decision is None else report.decision.level(gate),
        seen.dropped,
        groups,
        digest.to_bytes().decode(),
    )
