"""`headgate check`: every problem with its line, or what the network is."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import TWO_CHAINS, Headgate

BROKEN = (
    TWO_CHAINS.replace("input: a1,", "input: a9,")
    .replace("cost: 2s", "cost: -2s")
    .replace("node: A, cost: 1s", "node: Z, cost: 1s")
)


def test_a_valid_network_is_summarised(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("check", two_chains)
    assert result.exit_code == 0
    assert "two chains is valid." in result.stdout
    assert "4 delay" in result.stdout
    assert "Overloaded: B is asked for 400 % of its capacity." in result.stdout


def test_every_problem_is_shown_with_its_line(headgate: Headgate, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    result = headgate("check", path)
    text = " ".join(result.stderr.split())
    assert result.exit_code == 2
    assert "3 problems" in text
    for line in (9, 10, 11):
        assert f"broken.yaml:{line}:" in text


def test_problems_as_json(headgate: Headgate, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    result = headgate("check", path, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 2
    assert found["valid"] is False
    assert [problem["line"] for problem in found["problems"]] == [9, 10, 11]
    assert found["problems"][1]["field"] == ["operators", "b1", "cost"]


def test_a_summary_as_json(headgate: Headgate, two_chains: Path) -> None:
    found = json.loads(headgate("check", two_chains, "--json").stdout)
    assert found["valid"] is True
    assert found["network"]["drop_locations"] == ["a->a1", "b->b1"]
    assert found["network"]["load_at_usual_rates"]["A"]["load"] == 3.0


def test_missing_statistics_are_listed(headgate: Headgate, tmp_path: Path) -> None:
    path = tmp_path / "unmeasured.yaml"
    unmeasured = TWO_CHAINS.replace(", cost: 3s, selectivity: 1", "").replace("{rate: 1/s}", "{}")
    path.write_text(unmeasured)
    result = headgate("check", path)
    assert result.exit_code == 0
    assert "the rate of stream a" in result.stdout
    assert "the cost of operator a2" in result.stdout
    assert "the selectivity of operator a2" in result.stdout
