"""Save what an experiment gave: the raw rows first, then the findings, then the figure.

Three files with the experiment's name: `.csv` (raw rows), `.json` (our numbers beside
the paper's, and how they came about) and `.png`. The raw rows are on disk before
anything else is done with them.

Guarantee: the same outcome, seed and versions give the same bytes in all three files.
Columns that measure time differ from run to run, as they must.
"""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headgate.reproduce.experiment import Cell, Experiment, Finding, Outcome, Request, Row
from headgate.reproduce.figures import new_figure, save_png

__all__ = ["Report", "save_report", "versions"]

_PACKAGES = ("headgate", "highspy", "numpy", "matplotlib", "swiglpk")


@dataclass(frozen=True)
class Report:
    """What was saved and where. `content` is what the JSON file holds."""

    experiment: Experiment
    findings: Sequence[Finding]
    content: dict[str, Any]
    rows_file: Path
    findings_file: Path
    figure_file: Path


def save_report(
    experiment: Experiment, request: Request, outcome: Outcome, directory: Path, command: str
) -> Report:
    """Write the three files into `directory`; `command` is the command line to repeat it."""
    directory.mkdir(parents=True, exist_ok=True)
    rows_file, findings_file, figure_file = (
        directory / f"{experiment.name}.{ending}" for ending in ("csv", "json", "png")
    )
    _write_rows(rows_file, outcome.rows)
    content = _content(experiment, request, outcome, command)
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    findings_file.write_text(text + "\n", encoding="utf-8")
    figure = new_figure()
    outcome.draw(figure)
    save_png(figure, figure_file)
    return Report(experiment, outcome.findings, content, rows_file, findings_file, figure_file)


def versions() -> dict[str, str]:
    """Python and the packages that a number can depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _content(
    experiment: Experiment, request: Request, outcome: Outcome, command: str
) -> dict[str, Any]:
    data = request.data_directory
    return {
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "simulated": experiment.simulated,
        "on_spark": experiment.on_spark,
        "command": command,
        "seed": request.seed,
        "quick": request.quick,
        "data_directory": None if data is None else str(data),
        "versions": versions(),
        "files": {"rows": f"{experiment.name}.csv", "figure": f"{experiment.name}.png"},
        "row_count": len(outcome.rows),
        "findings": [_finding(finding) for finding in outcome.findings],
    }


def _finding(finding: Finding) -> dict[str, Cell]:
    return {
        "what": finding.what,
        "ours": _json_cell(finding.ours),
        "paper": _json_cell(finding.paper),
        "note": finding.note,
    }


def _write_rows(path: Path, rows: Sequence[Row]) -> None:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(_csv_row(row.get(column) for column in columns) for row in rows)


def _csv_row(cells: Iterable[Cell]) -> list[str]:
    return [_csv_cell(_plain(cell)) for cell in cells]


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _json_cell(cell: Cell) -> Cell:
    """JSON has no infinity and no undefined number; they become text."""
    plain = _plain(cell)
    return str(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain


def _plain(cell: Any) -> Cell:
    """A Python value for a numpy scalar, so that 0.5 is written as 0.5."""
    value: Cell = cell.item() if hasattr(cell, "item") else cell
    return value
