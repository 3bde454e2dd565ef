"""What the command's tests share: a runner, and small network files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app

TWO_CHAINS = """\
network: two chains
nodes:
  A: {capacity: 1}
  B: {capacity: 1}
streams:
  a: {rate: 1/s}
  b: {rate: 1/s}
operators:
  a1: {kind: delay, input: a, node: A, cost: 1s, selectivity: 1}
  b1: {kind: delay, input: b, node: A, cost: 2s, selectivity: 1}
  a2: {kind: delay, input: a1, node: B, cost: 3s, selectivity: 1}
  b2: {kind: delay, input: b1, node: B, cost: 1s, selectivity: 1}
queries:
  top: {input: a2, class: gold}
  bottom: {input: b2}
"""

Headgate = Callable[..., Result]


@pytest.fixture
def headgate(monkeypatch: pytest.MonkeyPatch) -> Headgate:
    """Runs the command in this process, 100 columns wide, without colours."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("HEADGATE_DATA", raising=False)

    def run(*words: str | Path) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words])

    return run


@pytest.fixture
def two_chains(tmp_path: Path) -> Path:
    """Table 1 of the papers: at rates (1, 1) the best plan keeps (1/5, 2/5)."""
    path = tmp_path / "two_chains.yaml"
    path.write_text(TWO_CHAINS)
    return path
