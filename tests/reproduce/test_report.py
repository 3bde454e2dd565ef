"""What is saved of an experiment, and how experiments are found."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headgate.errors import UsageError
from headgate.reproduce.catalogue import all_experiments, choose, experiments_in
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request
from headgate.reproduce.report import Report, save_report


def coin_toss(request: Request, progress: Progress) -> Outcome:
    """An experiment of its own: how often a seeded coin shows heads."""
    random = np.random.default_rng(request.seed)
    rows = []
    for toss in range(10):
        progress(toss, 10, f"toss {toss}")
        rows.append({"toss": toss, "heads": bool(random.random() < 0.5), "drawn": random.random()})
    rows.append({"toss": np.int64(10), "note": "fell off the table"})
    heads = float(np.mean([bool(row.get("heads")) for row in rows]))
    findings = [
        Finding("share of heads", np.float64(heads), 0.5, "ten tosses"),
        Finding("infinite patience", float("inf")),
    ]
    return Outcome(rows, findings, lambda figure: figure.add_subplot().plot([0, 1]))


COIN = Experiment("coin", "A fair coin", "a test, table 1", coin_toss, simulated=True)


def _ignore(done: int, total: int, what: str) -> None:
    assert 0 <= done <= total
    assert what


def saved(directory: Path, seed: int = 1) -> Report:
    request = Request(seed=seed)
    return save_report(COIN, request, coin_toss(request, _ignore), directory, "headgate ...")


def test_raw_rows_have_every_column_and_plain_numbers(tmp_path: Path) -> None:
    with saved(tmp_path).rows_file.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["toss", "heads", "drawn", "note"]
    assert rows[0]["heads"] in {"true", "false"}
    assert float(rows[3]["drawn"]) < 1.0
    assert rows[-1] == {"toss": "10", "heads": "", "drawn": "", "note": "fell off the table"}


def test_findings_carry_how_they_came_about(tmp_path: Path) -> None:
    content = json.loads(saved(tmp_path).findings_file.read_text())
    assert content["simulated"] is True
    assert content["seed"] == 1
    assert {"python", "numpy", "headgate"} <= set(content["versions"])
    assert content["findings"][0]["paper"] == 0.5
    assert content["findings"][1] == {
        "what": "infinite patience",
        "ours": "inf",
        "paper": None,
        "note": "",
    }


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = saved(tmp_path / "first"), saved(tmp_path / "second")
    for one, other in zip(_files(first), _files(second), strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert saved(tmp_path / "third", seed=2).rows_file.read_bytes() != first.rows_file.read_bytes()


def test_raw_rows_are_safe_when_the_drawing_fails(tmp_path: Path) -> None:
    outcome = coin_toss(Request(), _ignore)

    def fail(figure: object) -> None:
        raise RuntimeError(f"no ink for {figure}")

    with pytest.raises(RuntimeError, match="no ink"):
        save_report(COIN, Request(), Outcome(outcome.rows, [], fail), tmp_path, "headgate ...")
    assert (tmp_path / "coin.csv").exists()
    assert (tmp_path / "coin.json").exists()


def test_experiments_are_found_in_reading_order() -> None:
    names = ["figure-10", "figure-9", "table-1"]
    module = ModuleType("some_experiments")
    for name in names:
        setattr(module, name.replace("-", "_"), Experiment(name, name, "a test", coin_toss))
    assert list(experiments_in([module])) == ["figure-9", "figure-10", "table-1"]


def test_two_experiments_of_one_name_are_refused() -> None:
    modules = [ModuleType("first"), ModuleType("second")]
    for module in modules:
        module.coin = Experiment("coin", "A coin", "a test", coin_toss)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="two experiments are named 'coin'"):
        experiments_in(modules)


def test_the_real_experiments_have_names_and_sources() -> None:
    for name, experiment in all_experiments().items():
        assert name == experiment.name
        assert experiment.title
        assert experiment.source


def test_a_choice_is_made_once_and_in_order() -> None:
    known = {"coin": COIN}
    assert choose(["coin", "coin"], known) == [COIN]


def _files(report: Report) -> Sequence[Path]:
    return report.rows_file, report.findings_file, report.figure_file
