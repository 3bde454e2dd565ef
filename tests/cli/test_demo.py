"""`headgate demo` as far as it goes without Spark; tests/spark/test_demo.py runs it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from headgate.cli import demo
from headgate.demo.recording import Recording
from headgate.errors import DemoError
from headgate.spark.local_session import check_machine
from tests.cli.conftest import Headgate
from tests.demo.recordings import recording


def test_without_java_the_command_says_what_to_install_and_what_else_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, headgate: Headgate
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = headgate("demo", "--out", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.strip() == (
        "Error: the demo runs on Spark, and Java is missing. Spark needs Java 17 or 21: install "
        "openjdk-17-jre-headless (Debian, Ubuntu), java-17-openjdk-headless (Fedora) or openjdk@17 "
        "(Homebrew), or set JAVA_HOME. `headgate demo --simulated` needs no Java: it computes on a "
        "model and runs nothing."
    )


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DemoError, match=r'needs Java 17 or 21; .*/java says: openjdk version "11'):
        check_machine()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    check_machine()
    java.write_text("not a program" + os.linesep)
    java.chmod(0o644)
    with pytest.raises(DemoError, match="Java is missing"):
        check_machine()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "soon"), "--target: "),
        (("--target", "10s"), "--seconds 28 does not go with a target of 10 s; give 80 to 3600"),
        (("--simulated", "--json"), "--simulated goes with --seconds and --out only"),
    ],
)
def test_bad_options_are_refused_before_anything_starts(
    headgate: Headgate, words: tuple[str, ...], message: str
) -> None:
    result = headgate("demo", *words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("measured", [True, False])
def test_ctrl_c_stops_spark_and_keeps_what_was_measured(
    headgate: Headgate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: bool
) -> None:
    """With a stand-in for Spark: what a person's Ctrl-C does to a real JVM is not tested here."""
    stops: list[str] = []

    def interrupted(_spark: object, made: Recording, *_: object) -> None:
        if measured:
            done = recording()
            made.capacity, made.scenario, made.runs = done.capacity, done.scenario, done.runs
        raise KeyboardInterrupt

    fake = SimpleNamespace(
        sparkContext=SimpleNamespace(setLogLevel=lambda _: None), stop=lambda: stops.append("spark")
    )
    monkeypatch.setattr(demo, "check_machine", lambda: None)
    monkeypatch.setattr(demo, "machine", dict)
    monkeypatch.setattr(demo, "start_spark", lambda *_, **__: fake)
    monkeypatch.setattr(demo, "_watch", interrupted)
    result = headgate("demo", "--out", tmp_path)
    assert result.exit_code == 130
    assert stops == ["spark"]
    assert (tmp_path / "report.html").exists() is measured
    assert ("Stopped early" if measured else "Nothing was written") in result.stderr
