"""What a task tells the driver about its part of a batch, as text in the observed metrics.

Pure, no pyspark. One note for each queue that a task reduced; the driver adds them up.
`number` counts the notes of one partition, so that a note that comes twice (Spark runs a
stage again after losing an executor) is taken once. Long texts are compressed. Nothing
is unpickled; reading back checks lengths.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["LARGEST_TEXT", "Note", "read_notes", "read_text", "write_text"]

LARGEST_TEXT = 8 * 1024 * 1024
_COMPRESS_ABOVE = 2000
_LARGEST_CONTENT = 64_000_000


@dataclass(frozen=True, slots=True)
class Note:
    """left: rows that were left after level 1, 2 ... as far as levels were judged.

    odd: how often an applied filter could not judge a row. digest: of the dropped rows,
    as JSON; None where none was dropped or it was too long to send. state: what the
    filters remember now, as text; None where nothing changed. error: why nothing was
    judged; all rows of the queue were kept then.
    """

    partition: int
    number: int
    offered: int
    left: tuple[int, ...] = ()
    odd: int = 0
    digest: Any = None
    state: str | None = None
    error: str = ""

    def text(self) -> str:
        digest = None if self.digest is None else write_text(self.digest)
        if digest is not None and len(digest) > LARGEST_TEXT:
            digest = None  # the number of dropped rows stands in the ledger all the same
        return json.dumps(
            {
                "partition": self.partition,
                "number": self.number,
                "offered": self.offered,
                "left": list(self.left),
                "odd": self.odd,
                "digest": digest,
                "state": self.state,
                "error": self.error,
            },
            separators=(",", ":"),
        )


def read_notes(texts: Iterable[str]) -> list[Note]:
    """The notes, each once, by partition and number; ValueError for what is none."""
    found: dict[tuple[int, int], Note] = {}
    for text in texts:
        try:
            data = json.loads(text)
            note = Note(
                int(data["partition"]),
                int(data["number"]),
                int(data["offered"]),
                tuple(int(count) for count in data["left"]),
                int(data["odd"]),
                None if data["digest"] is None else read_text(data["digest"]),
                None if data["state"] is None else str(data["state"]),
                str(data["error"]),
            )
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"not a note of a policy's task: {error!r}") from None
        found.setdefault((note.partition, note.number), note)
    return [found[key] for key in sorted(found)]


def write_text(content: Any) -> str:
    """JSON, compressed where it is long."""
    text = json.dumps(content, separators=(",", ":"))
    if len(text) <= _COMPRESS_ABOVE:
        return text
    return "z" + base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def read_text(text: str) -> Any:
    """The content again; ValueError for what is too long or no JSON."""
    if len(text) > 2 * LARGEST_TEXT:
        raise ValueError(f"a text of {len(text)} characters is too long")
    if not text.startswith("z"):
        return json.loads(text)
    try:
        inflater = zlib.decompressobj()
        content = inflater.decompress(base64.b64decode(text[1:]), _LARGEST_CONTENT)
    except zlib.error as error:
        raise ValueError(f"not a compressed text: {error}") from None
    if inflater.unconsumed_tail:
        raise ValueError(f"a content above {_LARGEST_CONTENT:,} bytes")
    return json.loads(content)
