"""A real terminal for tests: a command runs in it until somebody presses Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

HEADGATE = Path(sys.executable).with_name("headgate")


def until_ctrl_c(shown: str, times: int, *words: str | Path) -> tuple[int, str]:
    """Run `headgate` and press Ctrl-C when `shown` was drawn so often; exit code and output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        [HEADGATE, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C is for this terminal
    )
    os.close(theirs)
    seen, pressed = "", False
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            seen += os.read(ours, 65_536).decode(errors="replace")
        except OSError:  # the other end is closed: the command has ended
            break
        if not pressed and seen.count(shown) >= times:
            os.write(ours, b"\x03")
            pressed = True
    os.close(ours)
    code = process.wait(timeout=60)
    if not pressed:
        pytest.fail(f"{shown!r} was not drawn {times} times: {seen[-3000:]}")
    return code, seen
