"""`headgate run`: what is said before Spark starts, and how the figures are shown. No Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from headgate.cli import run
from headgate.cli.run_code import own_code, with_python_path
from headgate.cli.run_live import summary
from headgate.cli.run_options import (
    aiming_at,
    fed,
    parse_priorities,
    parse_settings,
    read_loads,
    replay_options,
)
from headgate.errors import UsageError
from headgate.network import Source, parse_network
from headgate.spark.local_session import PLAIN_FILES, fast_files
from headgate.spark.networks.network_report import NetworkReport, QueryFigures
from tests.cli.conftest import TWO_CHAINS, Headgate


@pytest.fixture(autouse=True)
def any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "check_machine", lambda *_: None)


def test_a_file_that_cannot_be_run_is_told_what_it_lacks(
    headgate: Headgate, two_chains: Path
) -> None:
    result = headgate("run", two_chains)
    assert result.exit_code == 2
    assert "two_chains.yaml:6: streams.a.source: missing; say where Spark reads" in result.stderr
    assert "two_chains.yaml:7: streams.b.source: missing" in result.stderr
    assert "operators" not in result.stderr  # a delay needs no code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--load", "a"], "expected stream=load"),
        (["--load", "a=1", "--load", "a=2"], "'a' is given twice"),
        (["--load", "c=100", "--stand-ins"], "unknown stream 'c'"),
        (["--stand-ins", "--classes", "gold"], "expected class=priority"),
        (["--stand-ins", "--conf", "spark.x"], "expected key=value"),
    ],
)
def test_wrong_options(
    headgate: Headgate, two_chains: Path, options: list[str], message: str
) -> None:
    result = headgate("run", two_chains, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_options_as_numbers() -> None:
    assert parse_priorities("gold=6, silver=3") == {"gold": 6.0, "silver": 3.0}
    with pytest.raises(UsageError, match="gold=0: expected class=priority"):
        parse_priorities("gold=0")
    assert parse_settings(["spark.driver.memory=2g"]) == {"spark.driver.memory": "2g"}


def test_one_target_for_all() -> None:
    network = aiming_at(parse_network(TWO_CHAINS), "5s")
    assert [q.latency_target_seconds for q in network.queries] == [5.0, 5.0]
    with pytest.raises(UsageError, match="--target 0s: expected a time above 0"):
        aiming_at(network, "0s")


def test_a_load_takes_the_place_of_the_source(tmp_path: Path) -> None:
    loads = read_loads(["a=steps:10,30@2"])
    network = fed(parse_network(TWO_CHAINS), loads)
    assert network.stream_by_name["a"].source == Source("replay")
    assert network.stream_by_name["b"].source is None
    options = replay_options(loads["a"], tmp_path / "load.csv")
    assert options == {"pattern": "trace", "file": str(tmp_path / "load.csv"), "step": "1s"}
    rates = [float(line) for line in (tmp_path / "load.csv").read_text().splitlines()]
    assert rates[:5] == pytest.approx([10.0, 10.0, 30.0, 30.0, 10.0])
    assert len(rates) == 3600


def report(seconds: float = 60.0) -> NetworkReport:
    return NetworkReport(
        "split",
        seconds,
        (QueryFigures("top", 24_000, 400.0, 1.0, 2.5, 3.0),),
        {"split": {"a->shared": (24_000, 24_000, 0), "shared->heavy": (24_000, 6_000, 18_000)}},
        {"shared->heavy": "random"},
        score=480.0,
        best_score=500.0,
        predicted_load=1.9,
        measured_load=1.8,
        capacity=1.95,
        rates={"a": 400.0},
        load_error_mean_abs=0.08,
    )


def test_the_figures_at_the_end() -> None:
    console = Console(width=100, no_color=True)
    with console.capture() as capture:
        console.print(summary(report()))
    text = capture.get()
    assert "Score: 480 weighted tuples/s, 96.0 % of 500" in text
    assert (
        "Load: predicted 1.9, measured 1.8 (+5.6 %, 8.0 % off in a single batch) of 1.95"
        in " ".join(text.split())
    )
    assert "shared->heavy    24,000    6,000    18,000       25.0 %   random" in text
    assert report().to_dict()["score_of_best"] == pytest.approx(0.96)
    assert report().to_dict()["load_error_mean_abs"] == 0.08
    assert report().to_dict()["gates"]["split"]["shared->heavy"]["dropped"] == 18_000


def test_a_run_without_figures_says_so() -> None:
    empty = NetworkReport("x", 0.0, (), {}, {}, None, None, None, None, 2.0, {})
    console = Console(width=100, no_color=True)
    with console.capture() as capture:
        console.print(summary(empty))
    assert "Too short for figures" in capture.get()


def test_rocks_db_gets_the_usual_file_system() -> None:
    setting = "spark.sql.streaming.stateStore.providerClass"
    package = "org.apache.spark.sql.execution.streaming.state"
    rocks = {setting: f"{package}.RocksDBStateStoreProvider"}
    assert fast_files(rocks) == rocks
    usual = {setting: f"{package}.HDFSBackedStateStoreProvider"}
    assert fast_files(usual) == {**PLAIN_FILES, **usual}


def test_own_code_is_found_for_as_long_as_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/given")
    before = list(sys.path)
    with own_code(tmp_path, tmp_path, Path("/elsewhere")) as added:
        assert added == [str(tmp_path), "/elsewhere"]
        assert sys.path[:2] == added
        assert os.environ["PYTHONPATH"] == os.pathsep.join([*added, "/given"])
    assert sys.path == before
    assert os.environ["PYTHONPATH"] == "/given"
    assert with_python_path({}, ["/work"]) == {"spark.executorEnv.PYTHONPATH": "/work"}
