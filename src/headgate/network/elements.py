"""The parts of a query network: frozen data, names and units, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Arc", "Link", "Node", "Operator", "OperatorKind", "Query", "Sink", "Source", "Stream"]


class OperatorKind(StrEnum):
    """What an operator does. Planners look only at cost, selectivity and windows."""

    FILTER = "filter"
    MAP = "map"
    AGGREGATE = "aggregate"
    JOIN = "join"
    UNION = "union"
    SQL = "sql"
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class Source:
    """Where Spark reads a stream.

    format, options: as for `spark.readStream`; "replay" is Headgate's own source.
    schema:          of files, as Spark's DDL text.
    arrival:         column with the time a tuple arrived.
    identity:        columns that say which tuple it is.
    event_time, watermark_seconds: column with the event time, and how late tuples may be.
    """

    format: str
    options: tuple[tuple[str, str], ...] = ()
    schema: str | None = None
    arrival: str | None = None
    identity: tuple[str, ...] | None = None
    event_time: str | None = None
    watermark_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """Where Spark writes what a query delivers: format and options of a writer."""

    format: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An input from outside. `rate_per_second` is the usual rate, if one is known."""

    name: str
    rate_per_second: float | None = None
    tuple_bytes: float | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """One box of the query network, placed on one node.

    cost_seconds:  CPU seconds for one input tuple, or None until it is measured.
    selectivity:   output tuples for one input tuple (for a join: share of pairs that
                   match), or None until it is measured.
    window_tuples: joins only, tuples held for each input, in the order of `inputs`.
    tuple_bytes:   size of one output tuple, needed where a limited link carries it.
    code:          what Spark runs: an SQL text, or "module:function" of your own code.
    key:           joins only, the columns by which tuples are paired.
    window_seconds, slide_seconds: aggregates only, size and slide of their time windows;
                   without a slide the windows follow each other.
    """

    name: str
    kind: OperatorKind
    inputs: tuple[str, ...]
    node: str
    cost_seconds: float | None = None
    selectivity: float | None = None
    window_tuples: tuple[float, ...] | None = None
    tuple_bytes: float | None = None
    code: str | None = None
    key: tuple[str, ...] | None = None
    window_seconds: float | None = None
    slide_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One output of the network: whose result it is and what it is worth.

    weight:                 score of one delivered tuple.
    query_class:            the priority class, for the control layer.
    latency_target_seconds: the target of latency feedback, for the control layer.
    keep_at_least:          guaranteed minimum keep fraction, 0 to 1.
    sink:                   where Spark writes the result; None throws it away.
    """

    name: str
    input: str
    weight: float = 1.0
    query_class: str | None = None
    latency_target_seconds: float | None = None
    keep_at_least: float = 0.0
    sink: Sink | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A machine, or a Spark application. `capacity` is CPU seconds per second."""

    name: str
    capacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Link:
    """The connection from one node to another, with a limit on bytes per second."""

    source: str
    target: str
    bandwidth_bytes_per_second: float

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True, order=True)
class Arc:
    """What flows from `source` (stream or operator) into `target` (operator or query)."""

    source: str
    target: str

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"
