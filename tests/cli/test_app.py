"""The application as a whole: version, help, completion, the demo."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from matplotlib.image import imread

from headgate import __version__
from headgate.cli.demo_steps import shop_network, steps_at
from headgate.cli.terminal import quiet_interrupt
from tests.cli.conftest import Headgate


def test_version(headgate: Headgate) -> None:
    result = headgate("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"headgate {__version__}"


def test_help_lists_the_commands(headgate: Headgate) -> None:
    result = headgate("--help")
    assert result.exit_code == 0
    for command in ("plan", "check", "reproduce", "demo"):
        assert re.search(rf"\b{command}\b", result.stdout)
    assert "--install-completion" in result.stdout


def test_an_unknown_command_is_an_error(headgate: Headgate) -> None:
    result = headgate("plann")
    assert result.exit_code == 2
    assert "plan" in result.stderr


def test_the_simulated_demo_tells_its_story(headgate: Headgate, tmp_path: Path) -> None:
    result = headgate("demo", "--simulated", "--seconds", "0", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "It does not run Spark." in result.stdout
    assert "Proven optimal" in result.stdout
    assert imread(tmp_path / "overload.png").std() > 0.05


def test_the_simulated_demo_shows_growing_trouble() -> None:
    usual, double, triple = steps_at(shop_network(), (1.0, 2.0, 3.0))
    assert usual.plan_share == 1.0
    assert usual.falls_behind_seconds_per_minute == 0.0
    assert 1.0 > double.plan_share > triple.plan_share
    assert triple.plan_share >= triple.even_share
    assert triple.falls_behind_seconds_per_minute > double.falls_behind_seconds_per_minute


def test_even_drops_are_what_the_network_says() -> None:
    [step] = steps_at(shop_network(), (3.0,))
    model = step.plan.model
    scaled = model.unshed(step.plan.rates * step.even_share)
    assert model.is_feasible(scaled)
    assert scaled.score / model.unshed(step.plan.rates).score == pytest.approx(step.even_share)


def test_ctrl_c_is_noted_once_and_the_second_one_ends_the_command() -> None:
    before = signal.getsignal(signal.SIGINT)
    with quiet_interrupt() as pressed:
        assert not pressed()
        signal.raise_signal(signal.SIGINT)
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def imported_by(statement: str) -> set[str]:
    """The distributions of what a fresh Python has loaded behind the statement."""
    script = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    known = packages_distributions()
    return {d.lower() for name in done.stdout.split() for d in known.get(name, ())}


def test_attach_loads_nothing_that_the_extra_spark_does_not_install() -> None:
    """What the installing of the README gives must be enough; here everything is installed."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    extras = {name: {_name(line) for line in lines} for name, lines in optional.items()}
    loaded = imported_by("import headgate; headgate.attach")
    assert {"pyspark", "numpy"} <= loaded
    assert loaded & (set.union(*extras.values()) - extras["spark"]) == set()
    assert "datasketches" not in loaded  # needed by two digests only, also on executors


def _name(requirement: str) -> str:
    return re.split(r"[<>=]", requirement)[0].lower()
