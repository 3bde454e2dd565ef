"""The dead letters of all queries of one driver: which gates write them, and where they stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import UsageError
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.letters.letter_columns import GateLetters, letters_of_gate, letters_table
from headgate.spark.letters.letter_settings import read_settings, text_of
from headgate.spark.letters.letter_sinks import clear_batch
from headgate.spark.plans.checkpoint import CheckpointState

__all__ = ["LetterBook"]


class LetterBook:
    """at_gates: by the number that stands in the plan."""

    def __init__(self, spark: SparkSession, alarms: Alarms) -> None:
        self._spark = spark
        self._alarms = alarms
        self.at_gates: dict[int, GateLetters] = {}
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

    def clear(self, run: QueryRun, state: CheckpointState) -> None:
        """A query is about to start: what its unfinished batch wrote before goes."""
        if not state.query_id:
            return
        for gate, letters in run.letters.items():
            try:
                if letters.settings.path:
                    batch = state.last_batch if state.replays else None
                    clear_batch(letters.settings.path, state.query_id, gate, batch)
            except Exception as error:
                text = f"{gate}: batch {state.last_batch} may have letters twice: {error}"
                self._alarms.raise_alarm("dead letters", run.name, text)

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
