"""Traces of observed rates for `headgate plan --planner solver-w --trace`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from headgate.cli.trace_file import read_trace
from headgate.errors import UsageError
from tests.planning.networks import TABLE_1


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_column_for_each_stream(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "t.csv", "time,r1,r0\n1,2,1\n2,4,3\n"), TABLE_1)
    assert trace.observed.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_one_column_is_a_shape_scaled_to_the_usual_rates(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "t.csv", "minute,requests\na,10\nb,30\n"), TABLE_1)
    assert sorted(trace.observed[:, 0].tolist()) == [0.5, 1.5]
    assert sorted(trace.observed[:, 1].tolist()) == [0.5, 1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header"),
        ("when,what\na,b\n", "expected a number"),
        ("time,r0,x\n1,1,2\n", "no column for r1"),
        ("time,requests\n1,0\n2,0\n", "its mean is 0"),
    ],
)
def test_a_trace_that_does_not_fit_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_trace(write(tmp_path / "t.csv", text), TABLE_1)


def test_the_command_takes_a_trace_for_solver_w_only(tmp_path: Path) -> None:
    trace = str(write(tmp_path / "t.csv", "time,requests\n1,1\n2,2\n3,3\n"))
    network = "examples/table1.yaml"
    done = CliRunner().invoke(
        app, ["plan", network, "--planner", "solver-w", "--trace", trace, "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["planner"] == "solver-w"
    refused = CliRunner().invoke(app, ["plan", network, "--trace", trace])
    assert refused.exit_code == 2
    assert "--trace; use --planner solver-w" in " ".join(refused.stderr.split())
