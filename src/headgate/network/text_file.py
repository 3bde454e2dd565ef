"""Read a description from a text file: never more than a given number of bytes of it.

What stands in the way is said as a person would need it: a file that is not there gets
the nearest name beside it, a file that is no text gets the line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import UsageError
from headgate.names import nearest

__all__ = ["TextFileError", "TextFileKind", "read_text_file"]


@dataclass(frozen=True, slots=True)
class TextFileKind:
    """What is expected: how to call it, its endings, its limit, what to do above it."""

    what: str
    endings: Sequence[str]
    most_bytes: int
    when_larger: str

    def too_large(self) -> str:
        return f"the file is larger than {self.most_bytes:,} bytes; {self.when_larger}"


class TextFileError(Exception):
    """The content cannot be read. `line` is 1-based."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def read_text_file(path: str | os.PathLike[str], kind: TextFileKind) -> str:
    """The text of the file.

    Raises UsageError if there is no file that can be read, TextFileError if it is too
    large or not UTF-8.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(kind.most_bytes + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(file)!r}{_nearest_file(file, kind)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot read the {kind.what} {str(file)!r}: {reason}; "
            f"give the path of a file that ends in {_either(kind.endings)}"
        ) from None
    if len(data) > kind.most_bytes:
        raise TextFileError(1, kind.too_large())
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TextFileError(line, "the file is not UTF-8 text; save it as UTF-8") from None


def _nearest_file(file: Path, kind: TextFileKind) -> str:
    try:
        near = [path.name for path in file.parent.iterdir() if path.suffix in kind.endings]
    except OSError:
        return f"; there is no directory {str(file.parent)!r} either: check the path"
    if not near:
        return f"; check the path, it should end in {_either(kind.endings)}"
    return nearest(file.name, near)


def _either(endings: Sequence[str]) -> str:
    return " or ".join(endings)
