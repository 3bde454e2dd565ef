"""The code blocks of README.md and docs/ are tests.

- ```python blocks run, each on its own.
- ```yaml blocks that begin with a comment such as `# orders.yaml` are files: they are
  there, under that name, when any other block of the same page runs.
- ```console blocks: each `$ headgate ...` line runs in this process, 100 columns wide.
  The lines below it must be in the output, in that order; a line `...` stands for any
  lines. The exit code must be 0, unless `$ echo $?` and the expected code follow.

Every block runs in a directory of its own that has `examples/` in it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from typer.testing import CliRunner

from headgate.cli import app

ROOT = Path(__file__).parent

# A test never fails because the machine is slow, and CI draws the same examples every time.
settings.register_profile("headgate", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("headgate")

YAML_FILE = re.compile(r"^```yaml\n(?P<text># (?P<name>[\w-]+\.yaml)\n.*?)^```", re.M | re.S)


@pytest.fixture
def block_directory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Where a block runs: the examples and the page's own YAML files, nothing else."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    document: Document = request.node.example.document
    for match in YAML_FILE.finditer(document.text):
        (tmp_path / match["name"]).write_text(match["text"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("HEADGATE_DATA", raising=False)
    return tmp_path


def run_console_block(example: Example) -> str | None:
    """What is wrong with the block; None if it is right."""
    exit_code = 0
    for command, shown in _commands(str(example.parsed)):
        if command == "echo $?":
            if shown != [str(exit_code)]:
                return f"$ {command}: the exit code is {exit_code}, the page says {shown}"
            exit_code = 0
            continue
        if exit_code != 0:
            return f"the command before $ {command} ended with exit code {exit_code}"
        words = shlex.split(command)
        if words[0] != "headgate":
            return f"$ {command}: only headgate runs here; use a ```shell block for the rest"
        result = CliRunner().invoke(app, words[1:])
        exit_code = result.exit_code
        missing = _first_missing(shown, result.output.splitlines())
        if missing is not None:
            where = f"$ {command}\ndoes not print, or not in this place:\n{missing}\n\n"
            return where + f"It prints:\n{result.output}"
    return f"the last command ended with exit code {exit_code}" if exit_code else None


def _commands(block: str) -> Iterator[tuple[str, list[str]]]:
    command: str | None = None
    shown: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, shown
            command, shown = line[2:].strip(), []
        elif line.strip():
            shown.append(line.rstrip())
    if command is not None:
        yield command, shown


def _first_missing(shown: list[str], printed: list[str]) -> str | None:
    """The first shown line that is not printed after the one before it."""
    lines = iter(line.rstrip() for line in printed)
    for wanted in shown:
        if wanted.strip() != "..." and wanted not in lines:  # `in` moves the iterator on
            return wanted
    return None


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("console", run_console_block)],
    patterns=["README.md", "docs/*.md"],
    fixtures=["block_directory"],
).pytest()
