"""Why a query ended, in one line: Spark's text holds the cause somewhere in a page. Pure.

Python code of an operator fails with a traceback in the middle of Spark's message. Its last line
is the cause, and its frames say whose code it was. An error in SQL shows the text that failed.
Not guaranteed: an operator is named only where its own file or its own text is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

__all__ = ["OperatorCode", "failure_of"]

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)(?:, in (\S+))?')
_SHOWN_SQL = re.compile(r"^== SQL .*==\s*\n(.+)$", re.M)
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """Where the code of an operator stands: lines of a file, or SQL."""

    operator: str
    file: str | None = None
    first_line: int = 0
    last_line: int = 0
    sql: str | None = None


def failure_of(query: str, text: str, codes: Sequence[OperatorCode]) -> str:
    """What is said when a query ended with this exception of Spark.

    >>> text = 'STREAM_FAILED\\nTraceback (most recent call last):\\n  File "/x/shop.py", line 7, '
    >>> text += 'in risk\\n    1 / 0\\nZeroDivisionError: division by zero\\n\\n\\tat org.apache'
    >>> failure_of("alerts", text, [OperatorCode("fraud", "/x/shop.py", 5, 9)])
    "query 'alerts': operator 'fraud' (shop.py, line 7) failed: ZeroDivisionError: division by zero"
    """
    frames, cause = _python_error(text)
    if cause is not None:
        names, place = _operators_at(frames, codes)
        return f"query {query!r}: {_said(names, 'its Python code')}{place} failed: {cause}"
    first = next((line for line in text.strip().splitlines() if line.strip()), "no reason given")
    names = _operators_with(text, codes)
    whose = f" in {_said(names, '')}" if names else ""
    return f"query {query!r} ended with an error{whose}: {first[:_LONGEST]}"


def _python_error(text: str) -> tuple[list[tuple[str, int]], str | None]:
    """Frames of the last traceback, and its last line; None where there is no traceback."""
    _, found, rest = text.rpartition(_TRACEBACK)
    if not found:
        return [], None
    frames: list[tuple[str, int]] = []
    for line in rest.splitlines()[1:]:
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append((frame[1], int(frame[2])))
        elif line.strip() and not line[0].isspace():
            return frames, line.strip()[:_LONGEST]
    return frames, None


def _operators_at(
    frames: Iterable[tuple[str, int]], codes: Sequence[OperatorCode]
) -> tuple[list[str], str]:
    """The operators whose code was running, and where; by lines if possible, else by file."""
    named: list[str] = []
    place = ""
    for file, line in frames:
        same = [code for code in codes if code.file is not None and _same(code.file, file)]
        inside = [code for code in same if code.first_line <= line <= code.last_line]
        if same:
            place = f" ({PurePath(file).name}, line {line})"
            if inside or not named:
                named = list(dict.fromkeys(code.operator for code in inside or same))
    return named, place


def _operators_with(text: str, codes: Sequence[OperatorCode]) -> list[str]:
    """The operators whose SQL is shown."""
    shown = [_plain(match[1]) for match in _SHOWN_SQL.finditer(text)]
    whole = [code for code in codes if code.sql is not None]
    found = [c.operator for c in whole if any(s and s in _plain(c.sql or "") for s in shown)]
    return list(dict.fromkeys(found))


def _said(names: Sequence[str], otherwise: str) -> str:
    if not names:
        return otherwise
    if len(names) == 1:
        return f"operator {names[0]!r}"
    return "one of the operators " + ", ".join(repr(name) for name in names)


def _same(ours: str, seen: str) -> bool:
    """A cluster's worker may have the file in another directory."""
    return ours == seen or PurePath(ours).name == PurePath(seen).name


def _plain(text: str) -> str:
    return " ".join(text.split())
