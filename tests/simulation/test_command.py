"""`headgate simulate` and `headgate explain`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app

NETWORK = """\
network: small
nodes:
  n: {capacity: 1}
streams:
  orders: {rate: 300/s}
operators:
  work: {kind: delay, input: orders, node: n, cost: 1ms, selectivity: 1}
queries:
  alerts: {input: work, latency: 1s}
"""


@pytest.fixture
def network_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(NETWORK)
    return path


def headgate(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


FLASH = "orders=poisson:flash:base=300,peak=3000,at=5,for=10"


def test_summary_files_and_explanation(network_file: Path, tmp_path: Path) -> None:
    journal, rows, picture = (tmp_path / name for name in ("j.jsonl", "r.csv", "p.png"))
    result = headgate(
        "simulate", network_file, "--load", FLASH, "--seconds", "20",
        "--journal", journal, "--csv", rows, "--plot", picture,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "simulated" in result.output
    assert "Every tuple is accounted for" in result.output
    assert "alerts" in result.output
    assert picture.stat().st_size > 10_000
    with rows.open() as file:
        table = list(csv.DictReader(file))
    assert all(int(r["offered"]) == int(r["kept"]) + int(r["dropped"]) for r in table)
    why = headgate("explain", journal, "--query", "alerts", "--at", "12s")
    assert why.exit_code == 0
    assert "the latency target could not be met otherwise" in why.output
    assert (
        "everything fits" in headgate("explain", journal, "--query", "alerts", "--at", "3").output
    )


def test_json_is_the_same_for_the_same_seed(network_file: Path) -> None:
    words = ("simulate", network_file, "--load", FLASH, "--seconds", "12", "--json", "--seed", "3")
    first, again = headgate(*words), headgate(*words)
    assert first.stdout == again.stdout
    data = json.loads(first.stdout)
    assert data["simulated"] is True
    assert data["ledger_balances"] is True
    job = data["jobs"]["alerts"]
    assert job["arrived"] == job["processed"] + job["dropped"] + job["waiting"] + job["lost"]
    assert job["dropped"] > 0


@pytest.mark.parametrize("controller", ["model", "paper", "none", "tail-drop", "rate-cap"])
def test_controllers_on_an_input_buffer(network_file: Path, controller: str) -> None:
    result = headgate(
        "simulate", network_file, "--controller", controller, "--service", "input-buffer",
        "--seconds", "5", "--target", "500ms", "--fail", "n=2s,1s",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "failed as given at 2 s" in result.output


def test_a_trace_is_played_at_a_scale(network_file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("minute,requests\n1998-06-24 21:40:00,6000\n1998-06-24 21:41:00,12000\n")
    result = headgate(
        "simulate", network_file, "--load", f"orders=trace:{trace},scale=60", "--seconds", "4",
        "--json",
    )  # fmt: skip
    assert json.loads(result.stdout)["jobs"]["alerts"]["arrived"] == 2 * (100 + 200)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--load", "order=5"), "unknown stream 'order'"),
        (("--controller", "modell"), "no such controller"),
        (("--target", "soon"), "--target soon"),
        (("--fail", "n"), "expected node=at,for"),
        (("--fail", "x=1s,1s"), "no node 'x'"),
        (("--seconds", "0"), "longer than 0 s"),
        (("--load", "orders=trace:nowhere.csv"), "cannot read the trace"),
    ],
)
def test_what_is_wrong_is_said(
    network_file: Path, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = headgate("simulate", network_file, *words)
    assert result.exit_code == 2
    assert message in result.output


def test_a_query_that_is_not_in_the_journal(network_file: Path, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    headgate("simulate", network_file, "--seconds", "1", "--journal", journal)
    result = headgate("explain", journal, "--query", "alert", "--at", "1s")
    assert result.exit_code == 2
    assert "no such query" in result.output
