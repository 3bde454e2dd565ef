"""Digests of what gates with a policy dropped, on disk beside the ledger and as a table.

`<checkpoint>/headgate/digests/*.jsonl`, one line for each gate and batch that dropped
something, with the guarantees of `ledger_file`. `content` is the digest itself: digests
of many batches merge with `headgate.reduction.merge_digests`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.ledger.book import Book
from headgate.spark.ledger.ledger_sums import DirectorySums
from headgate.spark.ledger.ledger_table import lines_at
from headgate.spark.ledger.lines import parse_line
from headgate.spark.policies.policy_run import PolicyRun, outcome_of

__all__ = ["DIGEST_SCHEMA", "DigestBook", "DigestLine", "digest_rows", "digest_table"]

_HELD = 1000
DIGEST_SCHEMA = (
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


class DigestBook(Book):
    """The digests; see `book` for what happens when a disk refuses."""

    def __init__(self, alarms: Alarms) -> None:
        super().__init__(alarms, "digests", _HELD)

    def open(self, run: QueryRun, directory: Path, run_id: str) -> None:
        """Begin or continue the digests of a query that has policies."""
        if run.policies:
            with self._lock:
                self._begin(run, directory, run_id, lambda _: ())

    def enter(self, run: QueryRun, report: BatchReport, rates: Mapping[str, float]) -> None:
        """Lines for one finished batch."""
        del rates
        with self._lock:
            self._write(run, _lines(run, report))

    def _new_sums(
        self, directory: Path, elsewhere: Mapping[str, int], fetch: Callable[[str], Path] | None
    ) -> DirectorySums:
        return DirectorySums(directory, parse_line, False, elsewhere, fetch)


def digest_table(spark: SparkSession, addresses: Sequence[str]) -> DataFrame:
    """One row for each gate, batch and group that lost something; read when it is used."""
    if addresses:
        lines = lines_at(spark, addresses, DIGEST_SCHEMA).dropDuplicates(
            ["query_id", "batch", "gate"]
        )
    else:
        lines = spark.createDataFrame([], DIGEST_SCHEMA)
    return digest_rows(lines)


def digest_rows(lines: DataFrame) -> DataFrame:
    """One row for each group of each line."""
    return lines.selectExpr("* except (groups, content)", "inline(groups)", "content")


def _lines(run: QueryRun, report: BatchReport) -> Iterator[DigestLine]:
    """ValueError where a policy's notes cannot be read."""
    for gate, seen in report.gates.items():
        policy = run.policies.get(gate)
        if policy is not None and seen.dropped:
            yield _line(run, report, gate, seen, policy)


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
