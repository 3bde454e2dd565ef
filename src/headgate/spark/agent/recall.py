"""What a query that starts again knows from its ledger: costs and rates of its last batches.

Without it the first batch of every run would be taken on blindly, and after a
pause it is the largest one.

The ledger is read from its newest row back, until there are enough batches or `_MOST_BYTES` are
read: a long ledger costs no more than a short one.

Left out: batches that were not counted, and the first batch of each run, whose time went
into starting up. Not recalled: percentiles, and what was learnt of the model's bias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.ledger.ledger_file import COUNTED
from headgate.spark.ledger.lines import newest_rows

__all__ = ["read_recent", "recalled_batches"]

_BATCHES = 30
_MOST_BYTES = 16 * 1024 * 1024


def read_recent(
    parts: Iterable[Path], query_id: str, gates: Iterable[str]
) -> list[tuple[BatchReport, dict[str, float]]]:
    """`recalled_batches` of a query from the files of its ledger, the newest file first. OSError.

    The oldest batch that is read of a run is taken for its first one.
    """
    wanted = set(gates)
    rows: list[Mapping[str, Any]] = []
    enough = (_BATCHES + 2) * max(1, len(wanted))
    for row in newest_rows(parts, _MOST_BYTES):
        if row["query_id"] == query_id:
            rows.append(row)
            if len(rows) == enough:
                batches = recalled_batches(reversed(rows), wanted)
                if len(batches) == _BATCHES:
                    return batches
                enough *= 2
    return recalled_batches(reversed(rows), wanted)


def recalled_batches(
    rows: Iterable[Mapping[str, Any]], gates: Iterable[str]
) -> list[tuple[BatchReport, dict[str, float]]]:
    """Pure: the last batches of all `gates`, with the arrival rates, oldest first."""
    wanted = set(gates)
    batches: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        batches.setdefault((row["run_id"], row["batch"]), {})[row["gate"]] = row
    first_of_run: dict[str, int] = {}
    for run_id, batch in batches:
        first_of_run[run_id] = min(batch, first_of_run.get(run_id, batch))
    known = sorted(
        (batch, lines)
        for (run_id, batch), lines in batches.items()
        if set(lines) == wanted
        and batch > first_of_run[run_id]
        and all(line["status"] == COUNTED and line["duration_seconds"] for line in lines.values())
    )
    return [_report(batch, lines) for batch, lines in known[-_BATCHES:]]


def _report(
    batch: int, lines: Mapping[str, Mapping[str, Any]]
) -> tuple[BatchReport, dict[str, float]]:
    line = next(iter(lines.values()))
    end, duration = line["time_seconds"], line["duration_seconds"]
    latency = line["latency_mean_seconds"]
    arrived = None if latency is None else end - latency
    gates = {
        name: GateReport(seen["offered"], seen["kept"], arrived) for name, seen in lines.items()
    }
    rates = {name: seen["arrival_rate_per_second"] or 0.0 for name, seen in lines.items()}
    report = BatchReport(
        line["query_id"], line["run_id"], batch, end - duration, duration, None, gates
    )
    return report, rates
