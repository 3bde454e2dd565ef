"""`headgate check-policy`: every problem with its line, or what each level would drop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app

POLICIES = Path(__file__).parents[2] / "examples" / "policies"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


def check_policy(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["check-policy", *(str(word) for word in words)])


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_valid_policy_is_summarised() -> None:
    result = check_policy(POLICIES / "pulse.xml")
    assert result.exit_code == 0
    assert "pulse is valid: 3 levels." in result.stdout
    assert "drop WITHIN" in result.stdout


def test_a_sample_shows_what_each_level_drops_and_what_the_digests_say() -> None:
    result = check_policy(POLICIES / "pulse.yaml", "--sample", POLICIES / "pulse.jsonl")
    assert result.exit_code == 0, result.output
    assert "On a queue of 400 events" in result.stdout
    assert "The digest of what level 3 drops:" in result.stdout
    assert "MEAN(PulseRate):" in result.stdout


def test_the_sample_as_json() -> None:
    found = json.loads(
        check_policy(POLICIES / "pulse.yaml", "--sample", POLICIES / "pulse.jsonl", "--json").stdout
    )
    levels = found["sample"]["levels"]
    dropped = [level["dropped"] for level in levels]
    assert dropped == sorted(dropped)
    assert 0 < dropped[0] < 400
    assert all(level["microseconds_per_event"] >= 0 for level in levels)
    assert found["sample"]["digest_of_last_level"][""]["COUNT"] == dropped[-1]
    assert found["policy"]["levels"][1] == ["drop WITHIN"]


def test_every_problem_is_shown_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.yaml", "policy: p\nlevels:\n  - {filter: GTT}\n  - {filter: GT}\n")
    result = check_policy(path)
    assert result.exit_code == 2
    text = " ".join(result.stderr.split())
    assert "bad.yaml:3: levels.1.filter: unknown filter 'GTT'" in text
    assert "bad.yaml:4: levels.2.sense: missing" in text
    found = json.loads(check_policy(path, "--json").stdout)
    assert found["valid"] is False
    assert {problem["line"] for problem in found["problems"]} == {3, 4}


def test_a_sample_that_does_not_fit_is_said() -> None:
    result = check_policy(POLICIES / "vehicles.yaml", "--sample", POLICIES / "pulse.jsonl")
    assert result.exit_code == 0
    assert "The sample does not fit the policy" in result.stdout
    assert "no attribute 'speed'" in result.stdout


def test_levels_that_need_spark_are_not_tried(tmp_path: Path) -> None:
    path = write(
        tmp_path / "sql.yaml",
        "policy: p\nlevels:\n  - {filter: EVERY, sense: keep, count: 2}\n"
        "  - {filter: SPARK_SQL, sense: keep, predicate: v > 5}\n",
    )
    result = check_policy(path, "--sample", POLICIES / "pulse.jsonl")
    assert result.exit_code == 0
    assert "Level 2 has a filter that runs on Spark only; not tried." in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no events"),
        ('{"v": 1}\n[]\n', ":2: expected a JSON object"),
        ("{", ":1: expected a JSON object"),
        ("[" * 100_000, ":1: expected a JSON object"),
    ],
)
def test_a_bad_sample_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    sample = write(tmp_path / "sample.jsonl", text)
    result = check_policy(POLICIES / "pulse.yaml", "--sample", sample)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_missing_sample_is_one_clear_error(tmp_path: Path) -> None:
    result = check_policy(POLICIES / "pulse.yaml", "--sample", tmp_path / "none.jsonl")
    assert result.exit_code == 2
    assert "cannot read the sample" in result.stderr
