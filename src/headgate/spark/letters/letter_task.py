"""The Arrow function that writes dead letters: gets the letters of a partition, gives counts.

Runs in Spark's Python workers. Its argument is a struct of the tuple's columns for a letter
and null for every other row, so tuples that stay are not passed to Python, and nothing that
goes wrong here can lose or change one.

Guarantees: at most `most_rows` letters and about `most_bytes` of them are held; what is
beyond is counted as left. One note for each partition, on its last row. Nothing raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.spark.letters.letter_settings import LetterSettings
from headgate.spark.letters.letter_sinks import LetterSink, Place, sink_of

__all__ = ["NOTE_DDL", "HeldLetters", "LetterTask", "letter_function"]

NOTE_DDL = "struct<written: bigint, left: bigint, error: string>"
_NOTE = pa.struct([("written", pa.int64()), ("left", pa.int64()), ("error", pa.string())])
_LONGEST_ERROR = 500


@dataclass(frozen=True)
class LetterTask:
    """See the module. Picklable: it travels to the workers with the plan."""

    gate: str
    settings: LetterSettings
    sink_of: Callable[[LetterSettings], LetterSink] = sink_of

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        return self.run(batches, self._place)

    def run(self, batches: Iterable[Any], place: Callable[[], Place]) -> Iterator[Any]:
        letters = HeldLetters(self.settings)
        waiting: Any = None
        for batch in batches:
            if not len(batch):
                yield pa.nulls(0, _NOTE)
                continue
            if waiting is not None:
                yield pa.nulls(len(waiting), _NOTE)
            waiting = batch
            letters.take(batch)
        if waiting is None:
            return
        note = self.finish(letters, place)
        others: list[dict[str, Any] | None] = [None] * (len(waiting) - 1)
        yield pa.array([*others, note], _NOTE)

    def finish(
        self, letters: HeldLetters, place: Callable[[], Place] | None = None
    ) -> dict[str, Any] | None:
        """Write what is held; the note, or None where there was no letter."""
        if not letters.seen and not letters.error:
            return None
        written, error = 0, letters.error
        try:
            if letters.held:
                written = self.sink_of(self.settings).write(
                    letters.table(), (place or self._place)()
                )
        except Exception as failure:  # a query does not die because of its letters
            written = getattr(failure, "written", 0)
            error = f"{type(failure).__name__}: {failure}"
        left = letters.seen - written
        return {"written": written, "left": left, "error": error[:_LONGEST_ERROR] or None}

    def _place(self) -> Place:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise ValueError("this task belongs to no streaming query")
        return Place(query, self.gate, int(batch), context.partitionId())


class HeldLetters:
    """The letters of one partition, within the limits."""

    def __init__(self, settings: LetterSettings) -> None:
        self._settings = settings
        self._parts: list[Any] = []
        self._bytes = 0
        self.held = 0
        self.seen = 0
        self.error = ""

    def take(self, batch: Any) -> None:
        try:
            found = batch.drop_null()
            self.seen += len(found)
            room = self._settings.most_rows - self.held
            size = found.nbytes
            if size > 0:
                left_bytes = self._settings.most_bytes - self._bytes
                room = min(room, len(found) * left_bytes // size)
            found = found.slice(0, max(0, min(room, len(found))))
            if len(found):
                self._parts.append(found)
                self.held += len(found)
                self._bytes += found.nbytes
        except Exception as failure:
            self.error = f"{type(failure).__name__}: {failure}"

    def table(self) -> Any:
        batches = [pa.RecordBatch.from_struct_array(part) for part in self._parts]
        return pa.Table.from_batches(batches)


def letter_function(gate: str, text: str) -> Any:
    """A plain function that knows Headgate only by name; `text` holds the settings.

    Where the Python of an executor has no Headgate, the letters count as left and the tuples
    that stay go their way.
    """

    def write_letters(batches: Any) -> Any:
        try:
            from headgate.spark.letters.letter_settings import settings_in
            from headgate.spark.letters.letter_task import LetterTask

            task = LetterTask(gate, settings_in(text))
        except Exception as failure:
            import pyarrow

            counts = [(name, pyarrow.int64()) for name in ("written", "left")]
            kind = pyarrow.struct([*counts, ("error", pyarrow.string())])
            why = f"{type(failure).__name__}: {failure}"[:500]
            for batch in batches:
                left = len(batch) - batch.null_count
                note = {"written": 0, "left": left, "error": why} if left else None
                yield pyarrow.array([note, *[None] * (len(batch) - 1)][: len(batch)], kind)
            return
        yield from task(batches)

    write_letters.__annotations__ = {
        "batches": Iterator[pa.Array],
        "return": Iterator[pa.Array],
    }
    return write_letters
