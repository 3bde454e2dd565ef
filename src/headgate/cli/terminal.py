"""The two places a command writes to: stdout for the answer, stderr for everything else."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console

__all__ = ["errors", "output", "print_json", "quiet_interrupt"]


def output() -> Console:
    """Stdout. Names are shown as they are: brackets and colons in them mean nothing."""
    return Console(highlight=False, markup=False, emoji=False)


def errors() -> Console:
    """Stderr: errors, warnings and progress, so that stdout can be piped."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(data: Any) -> None:
    """Plain JSON and nothing else on stdout."""
    print(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False))


@contextmanager
def quiet_interrupt() -> Iterator[Callable[[], bool]]:
    """Within the block Ctrl-C raises nothing; the function that is given says if it was pressed.

    An exception in the midst of a call to the JVM would break the connection to Spark, and
    Spark's own handler cancels all jobs. Pressed again, it ends the command as usual.
    """
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
