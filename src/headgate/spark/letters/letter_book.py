"""The dead letters of all queries of one driver: which gates write them, and where they stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import UsageError
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.progress import BatchReport
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.letters.letter_columns import GateLetters, letters_of_gate, letters_table
from headgate.spark.letters.letter_settings import read_settings, text_of
from headgate.spark.letters.letter_sinks import BatchFiles
from headgate.spark.plans.checkpoint import CheckpointState

__all__ = ["LetterBook"]


class LetterBook:
    """at_gates: by the number that stands in the plan."""

    def __init__(self, spark: SparkSession, alarms: Alarms) -> None:
        self._spark = spark
        self._alarms = alarms
        self.at_gates: dict[int, GateLetters] = {}
        self._aside: dict[str, list[BatchFiles]] = {}
        self._started: dict[tuple[str, str], tuple[GateLetters, list[str]]] = {}

    def at_gate(
        self,
        frame: DataFrame,
        gate: str,
        wanted: Mapping[str, Any] | str | os.PathLike[str] | None,
    ) -> GateLetters | None:
        """Letters for a new gate; None where none are wanted. UsageError says what is wrong."""
        if wanted is None:
            return None
        number = len(self.at_gates)
        settings = read_settings(gate, wanted)
        self.at_gates[number] = letters_of_gate(self._spark, frame, gate, settings, number)
        return self.at_gates[number]

    def in_source(
        self,
        read: Callable[[str], DataFrame],
        gate: str,
        wanted: Mapping[str, Any] | str | os.PathLike[str] | None,
    ) -> DataFrame:
        """The stream that `read` makes with the option for these letters."""
        if wanted is None:
            return read("")
        number = len(self.at_gates)
        settings = read_settings(gate, wanted)
        frame = read(text_of(settings, number))
        self.at_gates[number] = letters_of_gate(self._spark, frame, gate, settings, number)
        return frame

    def prepare(self, run: QueryRun, state: CheckpointState) -> None:
        """A query is about to start: what its unfinished batch wrote before is laid aside."""
        if not state.query_id or state.last_batch is None:
            return
        for gate, letters in run.letters.items():
            if letters.settings.path:
                where = (letters.settings.path, state.query_id, gate, state.last_batch)
                self._tidy(run, BatchFiles(*where), state.replays)

    def after_batch(self, run: QueryRun, report: BatchReport) -> None:
        """The batch that was run again is over."""
        for files in self._aside.pop(run.key, ()):
            if files.batch <= report.batch:
                with self._alarm_if_it_fails(run, files):
                    files.settle()

    def _tidy(self, run: QueryRun, files: BatchFiles, replays: bool) -> None:
        with self._alarm_if_it_fails(run, files):
            files.remove_halves()
            if replays:
                self._aside.setdefault(run.key, []).append(files)
                files.lay_aside()
            else:
                files.settle()

    @contextmanager
    def _alarm_if_it_fails(self, run: QueryRun, files: BatchFiles) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a query does not die because of its letters
            text = f"{files.gate}: letters of batch {files.batch} may be missing or there twice"
            self._alarms.raise_alarm("dead letters", run.name, f"{text}: {error}")

    def begin(self, run: QueryRun) -> None:
        """Spark has started the query, so its id is known."""
        for gate, letters in run.letters.items():
            _, ids = self._started.get((run.name, gate), (None, []))
            ids = [*(one for one in ids if one != run.query_id), run.query_id]
            self._started[run.name, gate] = self.at_gates[letters.number], ids

    def table(self, query: str, gate: str | None) -> DataFrame:
        """See `Headgate.dead_letters`."""
        gates = [name for other, name in self._started if other == query]
        wanted = gates[0] if gate is None and len(gates) == 1 else gate
        if not gates:
            known = ", ".join(sorted({name for name, _ in self._started}))
            raise UsageError(f"no query {query!r} with dead letters; known are: {known or 'none'}")
        if wanted not in gates:
            names = ", ".join(gates)
            raise UsageError(f"query {query!r} has letters of the gates {names}; name one")
        return letters_table(*self._started[query, wanted])
