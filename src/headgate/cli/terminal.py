"""The two places a command writes to: stdout for the answer, stderr for everything else."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

__all__ = ["errors", "output", "print_json"]


def output() -> Console:
    """Stdout. Names are shown as they are: brackets and colons in them mean nothing."""
    return Console(highlight=False, markup=False, emoji=False)


def errors() -> Console:
    """Stderr: errors, warnings and progress, so that stdout can be piped."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(data: Any) -> None:
    """Plain JSON and nothing else on stdout."""
    print(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False))
