"""`headgate reproduce`, with a small experiment of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.errors import PlanningError
from headgate.reproduce.experiment import Experiment, Outcome, Progress, Request
from tests.cli.conftest import Headgate
from tests.reproduce.test_report import coin_toss


def failing(request: Request, progress: Progress) -> Outcome:
    progress(0, 1, f"seed {request.seed}")
    raise PlanningError("the coin stood on its edge; toss again")


KNOWN = {
    "coin": Experiment("coin", "A fair coin", "a test, table 1", coin_toss, simulated=True),
    "edge": Experiment("edge", "An unfair coin", "a test, table 2", failing),
}


@pytest.fixture(autouse=True)
def _only_the_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.cli.reproduce.all_experiments", lambda: KNOWN)


def test_writes_three_files_and_shows_ours_beside_the_papers(
    headgate: Headgate, tmp_path: Path
) -> None:
    result = headgate("reproduce", "coin", "--out", tmp_path, "--quick")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["coin.csv", "coin.json", "coin.png"]
    assert "share of heads" in result.stdout
    assert "simulated" in result.stdout


def test_json_alone_on_stdout(headgate: Headgate, tmp_path: Path) -> None:
    result = headgate("reproduce", "coin", "--out", tmp_path, "--seed", "7", "--json")
    [report] = json.loads(result.stdout)
    assert report["seed"] == 7
    assert report["command"] == "headgate reproduce coin --seed 7"


def test_the_list(headgate: Headgate) -> None:
    assert "A fair coin" in headgate("reproduce", "--list").stdout
    names = [e["name"] for e in json.loads(headgate("reproduce", "--list", "--json").stdout)]
    assert names == ["coin", "edge"]


def test_a_failure_does_not_stop_the_others(headgate: Headgate, tmp_path: Path) -> None:
    result = headgate("reproduce", "edge", "coin", "--out", tmp_path)
    assert result.exit_code == 2
    assert "edge: the coin stood on its edge" in result.stderr
    assert (tmp_path / "coin.png").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["coim"], "unknown experiment 'coim'; did you mean 'coin'?"),
        ([], "give names, or --all; --list shows them"),
        (["coin", "--data", "/no/such/place"], "there is no such directory"),
    ],
)
def test_wrong_input_is_explained(headgate: Headgate, words: list[str], expected: str) -> None:
    result = headgate("reproduce", *words)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())
