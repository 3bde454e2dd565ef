"""What pyspark logs of errors of analysis, beside raising them.

Its loggers are of a class of their own. Whoever asks Python for one of these names first gets a
plain one for good, with which pyspark then fails; so they are asked for in its way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

__all__ = ["silence_query_context", "without_query_context"]

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def silence_query_context() -> None:
    """From now on errors of analysis are only raised."""
    for logger in _loggers():
        logger.setLevel(logging.CRITICAL)


@contextmanager
def without_query_context() -> Iterator[None]:
    """The same within the block."""
    loggers = _loggers()
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _loggers() -> list[logging.Logger]:
    return [PySparkLogger.getLogger(name) for name in _LOGGERS]
