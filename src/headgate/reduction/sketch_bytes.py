"""Sketches: the library, loaded where one is made; as JSON text and back, with the checks that
foreign bytes need.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from types import ModuleType
from typing import Any

from headgate.errors import UsageError

__all__ = ["bytes_from_json", "bytes_to_json", "datasketches", "opened"]


def datasketches() -> ModuleType:
    """The library of the sketches; only the digests that need it load it.

    UsageError where it is not installed: a gate without such digests works without it.
    """
    try:
        import datasketches as library
    except ModuleNotFoundError as error:
        if error.name != "datasketches":
            raise
        text = "DISTINCT and FREQUENT need datasketches: pip install 'headgate[reduction]'"
        raise UsageError(text) from error
    made: ModuleType = library
    return made


def bytes_to_json(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def bytes_from_json(data: object, most_bytes: int) -> bytes:
    """The bytes again; ValueError for other types, bad characters and too many of them."""
    if not isinstance(data, str) or len(data) > 4 * most_bytes // 3 + 8:
        raise ValueError(f"expected at most {most_bytes} bytes in base 64")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("expected bytes in base 64") from None


def opened(read: Callable[[Any], Any], content: Any) -> Any:
    """What `read` makes of foreign content; ValueError where it cannot."""
    try:
        return read(content)
    except (ValueError, IndexError, RuntimeError, MemoryError, TypeError) as error:
        raise ValueError(f"not a sketch: {error}") from None
