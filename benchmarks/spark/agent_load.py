"""The agent under many queries: how long does an answer take?

Not Spark: 50 real companions ask the real agent over its real socket; a batch is a sleep.
Each query has four gates, so 200 gates in all. What is measured is the time from question to
answer, less the time that the query was held for its turn. The companions are threads of four
other processes (on Spark each is a process of its own); they tell this one when a batch ends,
as Spark's listener would. `echo` is the same with an agent that answers without deciding
anything: what the socket, the threads and the neighbours cost. The three come in turn, some
rounds; figures are medians over the rounds, with the least and the most of them.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np

from headgate.coordinator import CoordinatorSettings, QuerySettings
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.classes import class_settings
from headgate.spark.agent.query_run import NOTHING_KNOWN, InputState, QueryHandle, QueryRun
from headgate.spark.agent.server import AgentServer
from headgate.spark.sources.companion import CompanionReader

__all__ = ["run"]

_CLASSES = {"gold": 6.0, "silver": 3.0, "bronze": 1.0}
_PROCESSES = 4


class _Array:
    """Where a gate's numbers would stand in the JVM."""

    def set(self, values: tuple[int, ...]) -> None:
        self.values = values


class _Echo(Agent):
    """Answers without deciding."""

    def decide(
        self,
        key: str,  # noqa: ARG002
        offset: Mapping[str, Any],
        deadline: float,  # noqa: ARG002
        known: InputState = NOTHING_KNOWN,  # noqa: ARG002
    ) -> dict[str, Any]:
        return dict(offset)


class _Query:
    """A query whose batches are sleeps."""

    def __init__(self, agent: Agent, number: int, gates: int, query_class: str | None) -> None:
        self.name = f"q{number}"
        arrays = {f"gate{g}": _Array() for g in range(gates)}
        self.agent, self.batch, self.progress = agent, 0, None
        self.run = QueryRun(self.name, self.name, arrays)
        self.run.query_id = self.run.run_id = self.name
        self.run.handle = QueryHandle(lambda: self.batch, lambda: None, list)
        settings = QuerySettings(tuple(arrays), 3.0, query_class)
        agent.add(self.run, settings)

    def finish(self, offset: dict[str, Any], began: float, seconds: float) -> None:
        """Report the batch as Spark would."""
        metrics = {"offered": 100, "kept": 100, "arrival_mean": began - 0.5}
        self.agent.observe(
            json.dumps(
                {
                    "id": self.name,
                    "runId": self.name,
                    "batchId": self.batch,
                    "timestamp": datetime.fromtimestamp(began, UTC).isoformat(),
                    "durationMs": {"triggerExecution": seconds * 1e3},
                    "sources": [{"endOffset": offset}],
                    "observedMetrics": {f"headgate:{g}": metrics for g in self.run.gates},
                }
            )
        )
        self.batch += 1


def run(
    rounds: int = 5, queries: int = 50, gates_each: int = 4, seconds: float = 5.0
) -> dict[str, Any]:
    """Answer times in milliseconds, without classes and with them."""
    sides: dict[str, tuple[type[Agent], float, bool]] = {  # agent, length of a batch, classes
        "echo": (_Echo, 0.4, False),
        "without_classes": (Agent, 0.4, False),
        "with_classes": (Agent, 0.1, True),
    }
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for number in range(rounds):
        print(f"  round {number + 1} of {rounds} ...", file=sys.stderr, flush=True)
        for name, (kind, batch_seconds, classed) in sides.items():
            found = _measure(kind, queries, gates_each, seconds, batch_seconds, classed)
            seen[name].append(found)
    return {
        "label": "real companions and agent over the socket, batches are sleeps, no Spark",
        "queries": queries,
        "gates": queries * gates_each,
        **{name: {**_medians(found), "rounds": found} for name, found in seen.items()},
    }


def _medians(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for figure in ("p50_ms", "p99_ms"):
        values = [one[figure] for one in rounds]
        found |= {
            figure: median(values),
            f"{figure}_least": min(values),
            f"{figure}_most": max(values),
        }
    return found


def _measure(
    kind: type[Agent],
    queries: int,
    gates: int,
    seconds: float,
    batch_seconds: float,
    classed: bool,
) -> dict[str, Any]:
    alarms = Alarms()
    classes = class_settings(_CLASSES, cores=8) if classed else None
    agent = kind(alarms, lambda *_: None, CoordinatorSettings(classes=classes))
    server = AgentServer(agent)
    names = list(_CLASSES)
    made = {
        q.name: q
        for q in (
            _Query(agent, n, gates, names[n % len(names)] if classed else None)
            for n in range(queries)
        )
    }
    spawn = multiprocessing.get_context("spawn")
    children, threads = [], []
    answers: list[float] = []
    for share in range(_PROCESSES):
        ours, theirs = spawn.Pipe()
        own = list(made)[share::_PROCESSES]
        child = spawn.Process(
            target=_ask_all, args=(own, str(server.address_file), batch_seconds, theirs)
        )
        child.start()
        children.append((child, ours))
        thread = threading.Thread(target=_listen, args=(ours, made, answers), daemon=True)
        threads.append(thread)
    for _, ours in children:
        ours.recv()  # it is ready
    for (_, ours), thread in zip(children, threads, strict=True):
        ours.send("begin")
        thread.start()
    until = time.monotonic() + seconds
    processor = time.process_time()
    while time.monotonic() < until:
        time.sleep(0.02)
        agent.tick()
    found, processor = list(answers), time.process_time() - processor
    for child, _ in children:
        child.terminate()
        child.join()
    server.close()
    p50, p99, most = np.percentile(found, [50, 99, 100]) * 1e3
    return {
        "decisions": len(found),
        "decisions_per_second": len(found) / seconds,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "max_ms": float(most),
        "processor_share": processor / seconds,
        "alarms": sorted({alarm.kind for alarm in alarms.all()} - {"agent"}),
    }


def _listen(pipe: Connection, queries: Mapping[str, _Query], answers: list[float]) -> None:
    """Take in the ends of batches, as Spark's listener does: one after the other."""
    try:
        while True:
            name, offset, began, length, took = pipe.recv()
            query = queries[name]
            answers.append(max(0.0, took - query.run.held.get(query.batch, 0.0)))
            query.finish(offset, began, length)
            pipe.send(name)
    except (EOFError, OSError):
        pass  # the askers are gone


def _ask_all(names: Sequence[str], address: str, batch_seconds: float, pipe: Connection) -> None:
    """In a process of its own: the companions of some queries."""
    ended = {name: threading.Event() for name in names}
    lock = threading.Lock()
    for name in names:
        given = (name, address, batch_seconds, pipe, lock, ended[name])
        threading.Thread(target=_ask, args=given, daemon=True).start()
    pipe.send("ready")
    pipe.recv()
    for event in ended.values():
        event.set()
    while True:
        ended[pipe.recv()].set()


def _ask(
    name: str,
    address: str,
    batch_seconds: float,
    pipe: Connection,
    lock: threading.Lock,
    ended: threading.Event,
) -> None:
    chance = random.Random(name)
    reader = CompanionReader({"agent": address, "query": name, "timeout": "20"})
    offset = reader.initialOffset()
    ended.wait()
    time.sleep(chance.random() * batch_seconds)
    while True:
        ended.clear()
        asked = time.monotonic()
        offset = reader.latestOffset(offset, None)  # type: ignore[arg-type]
        took = time.monotonic() - asked
        began, length = time.time(), batch_seconds * (0.5 + chance.random())
        time.sleep(length)
        with lock:
            pipe.send((name, offset, began, length, took))
        ended.wait()
