"""Directories of Headgate's own for as long as the process lives.

Guarantees: only the owner can read them; they are removed when the Python process ends in the
usual way. Not guaranteed: after a kill or a crash of Python they stay.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from pathlib import Path

__all__ = ["make_directory", "temporary_directory"]

_made: set[Path] = set()
_owner = os.getpid()


def temporary_directory(kind: str) -> Path:
    """A directory that nobody else uses. It is made when `make_directory` needs it, so a disk
    that is full now can be in order then.
    """
    try:
        beside = Path(tempfile.gettempdir())
    except OSError:  # no directory takes a file just now
        beside = Path(os.sep, "tmp")
    path = beside / f"headgate-{kind}-{uuid.uuid4().hex}"
    if not _made:
        atexit.register(_remove_all)
    _made.add(path)
    return path


def make_directory(directory: Path) -> None:
    """Make it and those above it. OSError."""
    for own in _made.intersection((directory, *directory.parents)):
        own.mkdir(mode=0o700, exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)


def _remove_all() -> None:
    if os.getpid() != _owner:  # a fork of the process
        return
    for path in _made:
        shutil.rmtree(path, ignore_errors=True)
