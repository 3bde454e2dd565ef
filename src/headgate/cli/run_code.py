"""Where `headgate run` finds the Python operators of a network file.

A console script has the directory of the script on its path, not the one in which it was started.
So these directories are added for as long as the command runs: here, and for Spark's workers, which
import the same modules. Workers on other machines find them only where they have the same
directories (a shared file system); elsewhere the code has to be installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["own_code", "with_python_path"]

_EXECUTORS = "spark.executorEnv.PYTHONPATH"
_VARIABLE = "PYTHONPATH"


@contextmanager
def own_code(*directories: Path) -> Iterator[list[str]]:
    """Within the block modules of these directories can be imported; their absolute paths."""
    added = list(dict.fromkeys(str(directory.absolute()) for directory in directories))
    before, variable = list(sys.path), os.environ.get(_VARIABLE)
    sys.path[:0] = [path for path in added if path not in sys.path]
    os.environ[_VARIABLE] = _joined(added, variable)  # for workers that Spark starts here
    try:
        yield added
    finally:
        sys.path[:] = before
        if variable is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = variable


def with_python_path(settings: Mapping[str, str], directories: list[str]) -> dict[str, str]:
    """Settings of Spark whose executors look in the directories too, after what is asked for.

    >>> with_python_path({"spark.executorEnv.PYTHONPATH": "/lib"}, ["/work"])
    {'spark.executorEnv.PYTHONPATH': '/lib:/work'}
    """
    given = settings.get(_EXECUTORS)
    first = [given] if given else []
    return {**settings, _EXECUTORS: os.pathsep.join([*first, *directories])}


def _joined(directories: list[str], variable: str | None) -> str:
    return os.pathsep.join([*directories, *([variable] if variable else [])])
