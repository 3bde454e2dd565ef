from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.ledger.temporary import make_directory, temporary_directory

PROGRAM = """
from headgate.spark.ledger.temporary import make_directory, temporary_directory
own = temporary_directory("ledger")
make_directory(own / "ledger")
print(oct(own.stat().st_mode & 0o777), own)
"""


def test_directories_go_when_the_process_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    mode, path = done.stdout.split()
    assert mode == "0o700"
    assert not Path(path).exists()


def test_a_full_disk_is_no_matter_before_the_directory_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    path = temporary_directory("ledger") / "ledger"
    assert not path.parent.exists()
    make_directory(path)
    make_directory(path)
    assert path.is_dir()
