"""The start of a gated query: a plan of its own, what was known before, agent and ledger.

In this order: the plan is rewritten so that the query has gates of its own; what earlier runs on
the checkpoint left is read (the last decision, states of policies, costs and rates); the agent
learns of the query; Spark starts it; then the books are opened and what has happened since is
taken in.

Guarantees: a start that fails leaves nothing in the agent; once Spark has started the query, it
is returned, and what fails of ours is an alarm. The gates follow the logged decision before Spark
can run its batch again. A plan that
cannot be rewritten is started as it is, with the alarm `not gated`. Not guaranteed: decisions in
the moment between Spark's start and ours; until then everything new is kept.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.coordinator import QuerySettings
from headgate.errors import UsageError
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.listener import EventThread
from headgate.spark.agent.query_run import GateArray, QueryHandle, QueryRun
from headgate.spark.agent.recall import read_recent
from headgate.spark.gates.row_choice import RowChoice, check_keys
from headgate.spark.gates.window_watch import WindowWatch
from headgate.spark.ledger.digest_book import DigestBook
from headgate.spark.ledger.ledger_book import LedgerBook
from headgate.spark.ledger.ledger_table import ledger_directory
from headgate.spark.ledger.temporary import temporary_directory
from headgate.spark.letters.letter_book import LetterBook
from headgate.spark.plans.checkpoint import (
    CheckpointState,
    HadoopFiles,
    qualified,
    read_checkpoint,
)
from headgate.spark.plans.gate_nodes import inline_gates_in, without_metrics
from headgate.spark.plans.plan_rewrite import PlanRewrite
from headgate.spark.plans.stream_writer import TriggerKind, WriterFacts, dataset_of, start_on
from headgate.spark.policies.policy_gate import GatePolicy
from headgate.spark.policies.policy_run import PolicyRun
from headgate.spark.policies.policy_state import PolicyStates
from headgate.spark.sources.companion import FORMAT

__all__ = ["Books", "QueryStart", "StartRequest"]


@dataclass(frozen=True, slots=True)
class Books:
    """Where batches are written down."""

    ledger: LedgerBook
    digests: DigestBook
    letters: LetterBook


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A query that is to be started.

    plan:        analysed; the one that the writer would start.
    timed:       its gates that know arrival times.
    same_tuples: gates whose salt never changes.
    policies:    by the number in the columns of their gates.
    """

    name: str
    writer: DataStreamWriter
    plan: Any
    facts: WriterFacts
    settings: QuerySettings
    timed: frozenset[str]
    same_tuples: frozenset[str]
    policies: Mapping[int, GatePolicy]
    path: str | None
    table: str | None


@dataclass(frozen=True, slots=True)
class _Places:
    """Directories on this disk."""

    ledger: Path
    digests: Path


class QueryStart:
    """See the module.

    ask_as: options with which a source asks the agent under a key.
    ended:  told of the run id, and the error, of a query that has ended.
    """

    def __init__(
        self,
        spark: SparkSession,
        agent: Agent,
        events: EventThread,
        alarms: Alarms,
        books: Books,
        ask_as: Callable[[str], dict[str, str]],
        ended: Callable[[str, str | None], None],
    ) -> None:
        self._spark, self._agent, self._events = spark, agent, events
        self._alarms, self._books, self._ask_as = alarms, books, ask_as
        self._ended = ended

    def start(self, request: StartRequest) -> StreamingQuery:
        """The running query, gated if it can be."""
        state = self._state_of(request)
        why_not = _cannot_gate(request.facts, state, inline_gates_in(request.plan))
        if why_not is None:
            key = uuid.uuid4().hex
            try:
                rewrite, dataset = self._rewritten(request, key)
            except UsageError:
                raise
            except Exception as error:  # a Spark whose inner classes are others
                reason = f"{type(error).__name__}: {str(error)[:500]}"
                why_not = f"its plan cannot be rewritten ({reason}); it runs without its gates"
            else:
                return self._start_gated(request, key, rewrite, dataset, state)
        self._alarms.raise_alarm("not gated", request.name, why_not)
        writer, path, table = request.writer, request.path, request.table
        if request.facts.trigger is TriggerKind.OTHER:
            with suppress(Py4JError, PySparkException):  # a Spark whose inner classes are others
                bare = dataset_of(self._spark, without_metrics(self._spark, request.plan))
                return start_on(self._spark, writer, bare, path, table)
        return writer.toTable(table) if table is not None else writer.start(path)

    def _rewritten(self, request: StartRequest, key: str) -> tuple[PlanRewrite, Any]:
        ask = self._ask_as(key)
        rewrite = PlanRewrite(
            self._spark,
            lambda: self._companion(ask),
            ask,
            request.policies,
            self._books.letters.at_gates,
        )
        return rewrite, dataset_of(self._spark, rewrite.of(request.plan))

    def _companion(self, ask: Mapping[str, str]) -> DataFrame:
        return self._spark.readStream.format(FORMAT).options(**ask).load()

    def _start_gated(
        self,
        request: StartRequest,
        key: str,
        rewrite: PlanRewrite,
        dataset: Any,
        state: CheckpointState,
    ) -> StreamingQuery:
        run = self._run_of(request, key, rewrite, state)
        self._books.letters.prepare(run, state)
        self._restore(run, request.facts, state)
        if state.decision is not None:
            run.logged = state.decision
            run.apply(state.decision, state.last_batch if state.replays else None)
        places = self._places_of(request)
        try:
            self._agent.add(run, request.settings)
            self._recall(run, places.ledger, state)
            query = start_on(
                self._spark,
                request.writer,
                dataset,
                request.path,
                request.table,
                checked=bool(rewrite.texts),
            )
        except BaseException:
            self._agent.remove(run)
            raise
        self._begin(run, query, places, state)
        return query

    def _run_of(
        self, request: StartRequest, key: str, rewrite: PlanRewrite, state: CheckpointState
    ) -> QueryRun:
        choices = rewrite.choices
        check_keys(choices)
        gates: dict[str, GateArray] = {**rewrite.arrays, **rewrite.source_gates}
        whole = {gate for gate, choice in choices.items() if choice.window is not None}
        policies = {
            gate: PolicyRun(made, rewrite.texts[gate].set if gate in rewrite.texts else None)
            for gate, made in rewrite.policies.items()
        }
        run = QueryRun(
            key,
            request.name,
            gates,
            request.facts.trigger is TriggerKind.FINITE,
            request.same_tuples,
            request.timed - whole,
            choices,
            self._watch(request.name, choices, state),
            policies,
        )
        run.letters = rewrite.letters
        run.counts = rewrite.counts
        return run

    def _restore(self, run: QueryRun, facts: WriterFacts, state: CheckpointState) -> None:
        """Give the policies what they remembered before the batch that comes next."""
        if not any(policy.gate.remembers for policy in run.policies.values()):
            return
        beside = None if facts.checkpoint is None else self._beside(facts.checkpoint)
        directory = (beside or temporary_directory("state") / "ledger").parent / "policy-state"
        run.states = PolicyStates(directory)
        if state.last_batch is None:
            return
        following = state.last_batch if state.replays else state.last_batch + 1
        for gate, policy in run.policies.items():
            try:
                policy.restore(run.states.read(gate, following))
            except (OSError, ValueError) as error:
                text = f"gate {gate} forgets what it knew: cannot read {directory}: {error}"
                self._alarms.raise_alarm("policy", run.name, text)

    def _recall(self, run: QueryRun, directory: Path, state: CheckpointState) -> None:
        """What the ledger knows is read before Spark starts, so that it can be opened at once."""
        if state.is_new:
            return
        with self._alarm_if_it_fails("ledger", run, "starts without what it had learnt"):
            self._books.ledger.prepare(directory)
            newest_first = self._books.ledger.newest_first(directory)
            self._agent.recall(run, read_recent(newest_first, state.query_id, run.gates))

    def _begin(
        self, run: QueryRun, query: StreamingQuery, places: _Places, state: CheckpointState
    ) -> None:
        """Spark has started the query: connect the agent and the books with it.

        It runs, so nothing that fails here may be raised. The agent decides for it when all that
        it must know of earlier runs has been read, or could not be.
        """
        jquery: Any = query._jsq
        run.query_id = str(query.id)
        run_id = str(query.runId)
        execution = jquery.streamingQuery()
        try:
            self._open_books(run, run_id, places, state)
        finally:
            run.run_id = run_id
            run.handle = self._handle(execution, run_id)
        with self._alarm_if_it_fails("progress", run, "what it did so far is not known"):
            ended = not execution.isActive()
            for text in run.handle.recent_progress():  # what came before the agent knew the run
                self._agent.observe(text)
            if ended:  # perhaps this was heard of when nobody knew the run
                error = query.exception()
                text_of_error = None if error is None else str(error)
                self._events.put(lambda: self._ended(run_id, text_of_error))

    def _open_books(
        self, run: QueryRun, run_id: str, places: _Places, state: CheckpointState
    ) -> None:
        """Each by itself: one that fails leaves the others."""
        replayed = state.last_batch if state.replays else None
        with self._alarm_if_it_fails("ledger", run, "has no ledger in this run"):
            if not state.is_new:
                self._events.drain(2.0)  # rows of an earlier run in this driver
            self._books.ledger.open(run, places.ledger, run_id, state.committed, replayed)
        with self._alarm_if_it_fails("digests", run, "has no digests in this run"):
            self._books.digests.open(run, places.digests, run_id)
        with self._alarm_if_it_fails("dead letters", run, "cannot be shown"):
            self._books.letters.begin(run)
        if run.windows is not None and state.last_batch is not None:
            through = state.last_batch - 1 if state.replays else state.last_batch
            known: tuple[dict[str, int], bool] = ({}, False)
            with self._alarm_if_it_fails("windows", run, "earlier event times are not known"):
                known = self._books.ledger.event_times(run, through)
            run.windows.begin(through, *known, state.replays)

    @contextmanager
    def _alarm_if_it_fails(self, kind: str, run: QueryRun, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            text = f"{what}: {type(error).__name__}: {str(error)[:500]}"
            self._alarms.raise_alarm(kind, run.name, text)

    def _handle(self, execution: Any, run_id: str) -> QueryHandle:
        return QueryHandle(
            lambda: int(execution.getLatestExecutionContext().batchId()),
            lambda: _progress_of(execution),
            lambda: [str(progress.json()) for progress in execution.recentProgress()],
            lambda: bool(execution.isActive()),
            lambda: bool(execution.status().isTriggerActive()),
            lambda: _widest_stage(self._spark, run_id),
        )

    def _watch(
        self, name: str, choices: Mapping[str, RowChoice], state: CheckpointState
    ) -> WindowWatch | None:
        """For gates that drop whole windows; UsageError if the checkpoint has other windows."""
        shapes = {g: choice.window for g, choice in choices.items() if choice.window is not None}
        logged = {} if state.decision is None else state.decision.windows
        for gate, memory in logged.items():
            if shapes.get(gate, memory.shape) != memory.shape:
                raise UsageError(
                    f"gate {gate!r} of query {name!r} dropped other windows when the checkpoint "
                    "was written (size, slide or watermark delay); keep them, or start with a new "
                    "checkpoint"
                )
        if not shapes:
            return None
        return WindowWatch(
            shapes,
            lambda: time.time_ns() // 1000,
            lambda text: self._alarms.raise_alarm("windows", name, text),
        )

    def _places_of(self, request: StartRequest) -> _Places:
        """Beside the checkpoint, with spools on this disk if it is on another file system."""
        checkpoint = request.facts.checkpoint
        if checkpoint is not None:
            try:
                address = qualified(self._spark, checkpoint)
                beside = ledger_directory(address)
                if beside is not None:
                    return _Places(beside, beside.parent / "digests")
                root, books = f"{address.rstrip('/')}/headgate", self._books
                return _Places(
                    books.ledger.mirrored(HadoopFiles(self._spark, f"{root}/ledger")),
                    books.digests.mirrored(HadoopFiles(self._spark, f"{root}/digests")),
                )
            except Exception as error:  # what is wrong with the address Spark says
                text = f"{checkpoint} cannot be used ({error}); rows go to a temporary directory"
                self._alarms.raise_alarm("ledger", request.name, text)
        directory = temporary_directory("ledger")
        return _Places(directory / "ledger", directory / "digests")

    def _beside(self, checkpoint: str) -> Path | None:
        """Where the ledger of a checkpoint stands on this machine; None if it does not."""
        try:
            return ledger_directory(qualified(self._spark, checkpoint))
        except Exception:  # Spark says what is wrong with the address
            return None

    def _state_of(self, request: StartRequest) -> CheckpointState:
        checkpoint = request.facts.checkpoint
        if checkpoint is None:
            return CheckpointState()
        try:
            return read_checkpoint(self._spark, checkpoint)
        except Exception as error:
            text = f"cannot read {checkpoint}: {error}"
            self._alarms.raise_alarm("checkpoint", request.name, text)
            return CheckpointState()


def _progress_of(execution: Any) -> str | None:
    progress = execution.lastProgress()
    return None if progress is None else str(progress.json())


def _widest_stage(spark: SparkSession, run_id: str) -> int:
    """How many tasks the widest stage of the query's newest job had."""
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(run_id)
    info = tracker.getJobInfo(max(jobs)) if jobs else None
    stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
    return max((stage.numTasks for stage in stages if stage is not None), default=1)


def _cannot_gate(
    facts: WriterFacts, state: CheckpointState, inline_gates: Sequence[str]
) -> str | None:
    if facts.trigger is TriggerKind.OTHER:
        return "only micro-batch triggers can be gated; the query runs without its gates"
    if facts.async_log:
        return (
            "with asyncProgressTrackingEnabled Spark writes its offset log while a batch runs, so "
            "no decision would be safe before its first row; the query runs without its gates. "
            "Leave the option out"
        )
    if not state.is_new and inline_gates and not state.has_companion:
        return (
            "its checkpoint was made without an inline gate, and Spark cannot add a source to a "
            "checkpoint; the query runs without its gates. Start it with a new checkpoint"
        )
    return None
