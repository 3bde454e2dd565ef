"""The DataFrames of a network: sources, gates at the drop locations, operators, outputs.

Where the network splits, what comes before the split ends in an exchange. Both branches hold
the same exchange, and Spark runs it once in a batch (`ReusedExchange`).

A Python operator is a function of your own code: it gets one DataFrame for each input, in the
order of `input`, and returns a DataFrame. SQL reads its inputs by their names. Nothing else of
the network file is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import HeadgateError, UsageError
from headgate.network import Arc, Network, Operator, OperatorKind, Source, Statistics, Stream
from headgate.network.yaml_spark import python_function
from headgate.planning.drop_kinds import Drop, DropKind, drops_of
from headgate.spark.gates.gate import add_gate, choose_rows
from headgate.spark.gates.row_columns import WINDOW_COLUMN, RandomRows, Rows, quoted
from headgate.spark.networks.network_groups import Group, RunningNetwork
from headgate.spark.networks.network_needs import stood_in_for
from headgate.spark.networks.operator_code import imported
from headgate.spark.networks.stand_ins import stand_in
from headgate.spark.networks.window_rows import windows_of, with_windows
from headgate.spark.query_context import without_query_context

__all__ = ["FLOW_PREFIX", "GateRows", "NetworkFrames"]

FLOW_PREFIX = "headgate-flow:"
_REPLAY = "headgate_replay"
_REPLAY_DEFAULT = Source(_REPLAY, (), None, "timestamp", ("id",))


class GateRows(RandomRows):
    """At random, and apart from what the gates before it have chosen."""

    def __init__(self, identity: Sequence[str], gate: str) -> None:
        self.seed = F.xxhash64(*(F.col(quoted(name)) for name in identity), F.lit(gate))


@dataclass
class NetworkFrames:
    """The DataFrames of all groups.

    replayed: options of the replay source for streams that have no source.
    stand_ins: let what lies behind a stand-in be stood in for too.
    drops:    by gate, what falls and why; known after `outputs`.
    """

    spark: SparkSession
    running: RunningNetwork
    cores: int
    replayed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stand_ins: bool = False
    drops: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._network: Network = self.running.network
        self._gated = frozenset(arc.name for arc in self._network.drop_locations)
        self._drops = drops_of(self._network)
        self._stood = stood_in_for(self._network) if self.stand_ins else frozenset()
        self._chosen: dict[str, frozenset[str]] = {}  # kinds of the gates above, by name

    def outputs(self, group: Group) -> dict[str, DataFrame]:
        """What each query of the group delivers."""
        made: dict[str, DataFrame] = {}
        own = {*group.operators, *(query.name for query in group.queries)}
        for stream in self._network.streams:
            readers = [a for a in self._network.arcs_from[stream.name] if a.target in own]
            if readers:
                frame = self._read(stream)
                made[stream.name] = self._shared(frame) if len(readers) > 1 else frame
        for name in group.operators:
            operator = self._network.operator_by_name[name]
            inputs = [self._arc(Arc(source, name), made[source]) for source in operator.inputs]
            if self._groups_by_window(operator, [made[source] for source in operator.inputs]):
                inputs = [with_windows(frame, operator) for frame in inputs]
            frame = self._operator(operator, inputs)
            kinds = (
                self._chosen.get(f"{source}->{name}", frozenset()) for source in operator.inputs
            )
            self._chosen[name] = frozenset().union(*kinds)
            arcs = self._network.arcs_from[name]
            if len(arcs) > 1:
                made[name] = self._shared(frame)
            else:
                made[name] = frame.observe(FLOW_PREFIX + name, F.count(F.lit(1)).alias("tuples"))
        return {q.name: self._arc(Arc(q.input, q.name), made[q.input]) for q in group.queries}

    # --- streams --------------------------------------------------------------------------------

    def _read(self, stream: Stream) -> DataFrame:
        source = self._source_of(stream.name) or _REPLAY_DEFAULT
        options = self.replayed.get(stream.name, {})
        reader = self.spark.readStream.format(source.format)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        try:
            frame = reader.options(**{**options, **dict(source.options)}).load()
            if source.event_time is not None:
                late = f"{round(1000 * (source.watermark_seconds or 0.0))} milliseconds"
                frame = frame.withWatermark(source.event_time, late)
        except Exception as error:
            raise UsageError(_because(f"stream {stream.name!r}: cannot read it", error)) from error
        return frame

    def _source_of(self, stream: str) -> Source | None:
        found = self._network.stream_by_name.get(stream)
        if found is None:
            return None
        if found.source is None:
            return _REPLAY_DEFAULT
        return _like_replay(found.source) if found.source.format == "replay" else found.source

    def _shared(self, frame: DataFrame) -> DataFrame:
        """An exchange, so that Spark computes the frame once for all that read it."""
        try:
            columns = choose_rows(frame, "split")
        except HeadgateError:
            return frame.repartition(self.cores)
        return frame.repartition(self.cores, columns.seed)

    # --- gates ----------------------------------------------------------------------------------

    def _arc(self, arc: Arc, frame: DataFrame) -> DataFrame:
        above = self._chosen.get(arc.source, frozenset())
        if arc.name not in self._gated:
            self._chosen[arc.name] = above
            return frame
        source = self._source_of(arc.source)
        identity = None if source is None else source.identity
        arrival = None if source is None else source.arrival
        rows = self._rows(arc, frame, identity, above)
        self._chosen[arc.name] = above | self._kind_of(rows)
        try:
            return add_gate(self.spark, frame, arc.name, arrival, rows)
        except HeadgateError as error:
            where = f"stream {arc.source!r}" if source is not None else f"gate {arc.name!r}"
            raise UsageError(f"{where}: {error}") from None

    @staticmethod
    def _kind_of(rows: Rows) -> frozenset[str]:
        if rows.choice.window is not None:
            return frozenset(("window",))
        return frozenset(("key",)) if rows.choice.key else frozenset()

    def _rows(
        self, arc: Arc, frame: DataFrame, identity: Sequence[str] | None, above: frozenset[str]
    ) -> Rows:
        """Which rows fall: as the planner asks, at random where that cannot be."""
        gate = arc.name
        drop = self._drops[gate]
        why_not = self._why_at_random(arc, frame, drop, above)
        if why_not is None and drop.kind is not DropKind.RANDOM:
            try:
                rows = self._as_asked(gate, frame, drop)
                self.drops[gate] = str(drop)
                return rows
            except HeadgateError as error:
                why_not = str(error)
        self.drops[gate] = _at_random(drop, why_not)
        choose_rows(frame, gate, identity)  # says what is wrong with the identity
        columns = identity or [f.name for f in frame.schema.fields if _hashable(frame, f.name)]
        return GateRows(columns, gate)

    def _why_at_random(
        self, arc: Arc, frame: DataFrame, drop: Drop, above: frozenset[str]
    ) -> str | None:
        if str(drop.kind) in above:
            return "a gate before it has chosen among the same already"
        if drop.slide_seconds is None:
            return None
        operator = self._network.operator_by_name[arc.target]
        if operator.kind is not OperatorKind.AGGREGATE:
            return (
                "such a gate gives each tuple once for each of its windows, so it has to stand "
                f"directly in front of the aggregate, and {operator.name} is between"
            )
        if not self._groups_by_window(operator, [frame]):
            return (
                f"the code of {operator.name} makes its windows itself; let it group by the "
                "column `window`"
            )
        return None

    def _groups_by_window(self, operator: Operator, inputs: list[DataFrame]) -> bool:
        """True for an aggregate over sliding windows whose code wants them as a column.

        Found out by giving it its rows without that column.
        """
        sliding = operator.slide_seconds not in (None, operator.window_seconds)
        if not sliding or operator.code is None or operator.name in self._stood:
            return False
        if any(WINDOW_COLUMN in frame.columns for frame in inputs):
            return False
        try:
            with without_query_context():  # it is no error: Spark need not log it
                self._computed(operator, inputs)
        except PySparkException as error:
            return f"`{WINDOW_COLUMN}`" in str(error).partition("\n")[0]
        except Exception:  # said when the operator is made
            return False
        return False

    def _as_asked(self, gate: str, frame: DataFrame, drop: Drop) -> Rows:
        if drop.kind is DropKind.KEY:
            return choose_rows(frame, gate, by_key=list(drop.key))
        return choose_rows(frame, gate, by_window=windows_of(frame, drop))

    # --- operators ------------------------------------------------------------------------------

    def _operator(self, operator: Operator, inputs: list[DataFrame]) -> DataFrame:
        where = f"operator {self.running.original[operator.name]!r}"
        try:
            frame = self._computed(operator, inputs)
        except HeadgateError:
            raise
        except Exception as error:
            raise UsageError(_because(f"{where}: its code does not fit", error)) from error
        if not isinstance(frame, DataFrame) or not frame.isStreaming:
            raise UsageError(f"{where}: its code must return a streaming DataFrame, got {frame!r}")
        return frame

    def _computed(self, operator: Operator, inputs: list[DataFrame]) -> DataFrame:
        if operator.code is None or operator.name in self._stood:
            if operator.kind is OperatorKind.UNION and operator.cost_seconds is None:
                return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), inputs)
            return stand_in(operator, inputs, Statistics())
        named = python_function(operator.code)
        if named is None:
            originals = [self.running.original.get(name, name) for name in operator.inputs]
            return self._sql(operator, dict(zip(originals, inputs, strict=True)))
        found: DataFrame = imported(operator, *named)(*inputs)
        return found

    def _sql(self, operator: Operator, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The inputs are temporary views for as long as Spark reads the text."""
        taken = [name for name in inputs if _view_exists(self.spark, name)]
        if taken:
            raise UsageError(
                f"operator {operator.name!r}: there is a temporary view {taken[0]!r} already; "
                "rename the view, or the operator"
            )
        try:
            for name, frame in inputs.items():
                frame.createTempView(quoted(name))
            return self.spark.sql(operator.code or "")
        finally:
            for name in inputs:
                self.spark.catalog.dropTempView(name)


def _at_random(drop: Drop, why_not: str | None) -> str:
    if why_not is not None:
        return f"random, not {drop}: {why_not}"
    return f"random, because {drop.conflict}" if drop.mixed else str(drop)


def _like_replay(source: Source) -> Source:
    """The replay source says itself which columns are arrival and identity."""
    return replace(
        source,
        format=_REPLAY,
        arrival=source.arrival or _REPLAY_DEFAULT.arrival,
        identity=source.identity or _REPLAY_DEFAULT.identity,
    )


def _hashable(frame: DataFrame, name: str) -> bool:
    try:
        choose_rows(frame, name, [name])
    except HeadgateError:
        return False
    return True


def _view_exists(spark: SparkSession, name: str) -> bool:
    try:
        return any(t.isTemporary and t.name == name for t in spark.catalog.listTables())
    except AnalysisException:
        return False


def _because(what: str, error: Exception) -> str:
    first = str(error).strip().splitlines()
    return f"{what}: {type(error).__name__}: {first[0][:500] if first else ''}"
