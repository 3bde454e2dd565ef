"""The demo's report: JSON for programs, one HTML file for people, the main chart alone.

All three come from the same recording and the same findings. The HTML file holds its
charts and its style; it loads nothing from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headgate import __version__
from headgate.demo.charts import latency_chart, standalone
from headgate.demo.findings import Findings, find, headline, ledger_sentence
from headgate.demo.page import page
from headgate.demo.recording import Recording, Run

__all__ = ["CHART_TITLE", "Files", "content", "save"]

CHART_TITLE = "How old results are"


@dataclass(frozen=True, slots=True)
class Files:
    """Where the report is."""

    page: Path
    content: Path
    chart: Path


def content(recording: Recording) -> dict[str, Any]:
    """What the JSON file holds. Times in seconds, rates in rows per second."""
    findings = find(recording)
    scenario = recording.scenario
    return {
        "headgate": __version__,
        "simulated": False,
        "headline": headline(recording, findings),
        "stopped_early": recording.stopped_early,
        "machine": dict(recording.machine),
        "settings": asdict(recording.settings),
        "capacity": None if recording.capacity is None else asdict(recording.capacity),
        "scenario": None
        if scenario is None
        else {
            "calm_per_second": scenario.calm_per_second,
            "crowd_per_second": scenario.crowd_per_second,
            "crowd_begins": scenario.crowd_begins,
            "crowd_ends": scenario.crowd_ends,
        },
        "findings": asdict(findings),
        "ledger": ledger_sentence(recording, findings),
        "runs": {name: _run(run) for name, run in recording.runs.items()},
    }


def save(recording: Recording, directory: Path) -> Files:
    """Write report.json, report.html and latency.svg; the numbers first."""
    if recording.scenario is None:
        raise ValueError("nothing was measured")
    directory.mkdir(parents=True, exist_ok=True)
    files = Files(directory / "report.html", directory / "report.json", directory / "latency.svg")
    text = json.dumps(content(recording), indent=2, allow_nan=False, ensure_ascii=False)
    files.content.write_text(text + "\n", encoding="utf-8")
    findings: Findings = find(recording)
    files.page.write_text(page(recording, recording.scenario, findings), encoding="utf-8")
    chart = latency_chart(recording, recording.scenario, CHART_TITLE)
    files.chart.write_text(standalone(chart), encoding="utf-8")
    return files


def _run(run: Run) -> Mapping[str, Any]:
    ledger = run.ledger
    return {
        "ledger": None
        if ledger is None
        else {
            "offered": ledger.offered,
            "kept": ledger.kept,
            "dropped": ledger.dropped,
            "balances": ledger.balances(run.batches),
            "rows": [asdict(row) for row in ledger.rows],
        },
        "batches": [{**asdict(batch), "dropped": batch.dropped} for batch in run.batches],
    }
