"""Dead letters of a gate inside a source: rows are built of the letters among what falls.

Runs in the source's tasks; no pyspark until a task asks where it is. The settings travel as an
option of the source. Which dropped tuples are letters is said by the rule of the gate itself
(`source_offset.keeps`) with a salt that no decision has, below the threshold of `letters`.
Guarantees and limits are those of `letter_task` and `letter_sinks`; nothing raises.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.spark.agent.decision import GateDecision
from headgate.spark.letters.letter_settings import letter_threshold, settings_in
from headgate.spark.letters.letter_sinks import IDENTITY_FIELD, JSON_FIELD
from headgate.spark.letters.letter_task import HeldLetters, LetterTask
from headgate.spark.sources.source_offset import keeps

__all__ = ["LETTER_SALT", "SourceLetters"]

LETTER_SALT = 0x6C65747465727321  # no salt of a decision is so large
_MESSAGE = [pa.field(IDENTITY_FIELD, pa.int64()), pa.field(JSON_FIELD, pa.string())]


class SourceLetters:
    """The letters of one task. `text` is the option; the threshold that of the gate."""

    def __init__(self, gate: str, text: str, gate_threshold: int) -> None:
        settings = settings_in(text)
        decision = GateDecision(keep={gate: gate_threshold})
        self._threshold = letter_threshold(settings.share, gate, decision, True)
        self._settings = settings
        self._task = LetterTask(gate, settings)
        self._held = HeldLetters(settings)

    def take(self, chunk: Any, kept: NDArray[np.bool_]) -> None:
        """Look for letters among the tuples of a chunk that fall."""
        if not self._threshold:
            return
        try:
            letters = ~kept & keeps(chunk.identities, LETTER_SALT, self._threshold)
            if letters.any():
                self._held.take(self._content(chunk.rows(letters), chunk.identities[letters]))
        except Exception as failure:
            self._held.error = f"{type(failure).__name__}: {failure}"

    def finish(self) -> dict[str, Any]:
        """Write what is held; the fields for the marker of the task."""
        note = self._task.finish(self._held)
        return {} if note is None else note

    def _content(self, rows: pa.RecordBatch, identities: NDArray[np.uint64]) -> pa.StructArray:
        if self._settings.path:
            return pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
        texts = [json.dumps(row, default=_plain) for row in rows.to_pylist()]
        columns = [pa.array(identities.view(np.int64)), pa.array(texts, pa.string())]
        return pa.StructArray.from_arrays(columns, fields=_MESSAGE)


def _plain(value: Any) -> Any:
    """As Spark writes JSON: bytes in base64, times as ISO."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
