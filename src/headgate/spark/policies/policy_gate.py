"""A gate with a reduction policy: which rows go is said by the policy, the rest goes at random.

Two forms, chosen once when the gate is made:

- *columns*: every filter and digest has a form in Spark columns. All levels stand in the
  plan once; the live array says up to which one they are applied, so a change of level
  compiles nothing anew.
- *Arrow*: some filter looks at other rows, or some digest cannot be observed. The batch
  is cut by a key that every such filter respects (`Filter.splits_by`), each part goes
  through `policy_task`. Without such a key the whole batch is one part, on one core.

    Filter(stays)                                Filter(stays)
      CollectMetrics headgate:orders               CollectMetrics headgate:orders
        Project(stays, fell, odd, digests)           MapInArrow
          Project(*, verdicts)                         Project(*, level, salt, state)
            Project(*, fate, level, judged)              RepartitionByExpression
              Project(*, hash)                             Project(*, fate, hash)
                the user's stream                            the user's stream

`fate` is the gate's hash rule, as without a policy. Until `Headgate.start` sees it, a
gate keeps everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headgate.errors import PolicyError, UsageError
from headgate.reduction import Filter, Policy, Sense, load_policy, problems_with
from headgate.reduction.contract import EMPTY_STATE, Context
from headgate.reduction.filters.eq import Eq
from headgate.reduction.filters.random import Random
from headgate.reduction.filters.spark_sql import SparkSql
from headgate.reduction.queues import as_queue
from headgate.spark.agent.decision import EVERYTHING
from headgate.spark.gates.gate import (
    SECONDS,
    count_metrics,
    fate,
    identity_hash,
    time_of,
    with_sample,
)
from headgate.spark.gates.gate_metrics import metric_name
from headgate.spark.plans.live_array import LiveArray
from headgate.spark.policies.policy_columns import (
    RowColumns,
    check_predicate,
    key_of,
    kinds_of,
    verdict,
)
from headgate.spark.policies.policy_digests import DigestMetrics, digest_metrics
from headgate.spark.policies.policy_task import (
    FATE_COLUMN,
    JUDGED_COLUMN,
    LEVEL_COLUMN,
    NOTE_COLUMN,
    NOW_COLUMN,
    SALT_COLUMN,
    STATE_COLUMN,
    STAYS_COLUMN,
    PolicyTask,
)

__all__ = ["LADDERS", "GatePolicy", "add_policy_gate", "read_policy", "split_attributes"]

LADDERS = ("budget", "turnaround")
_HASH_COLUMN = "__headgate_hash"
_FELL_COLUMN = "__headgate_fell"
_ODD_COLUMN = "__headgate_odd"
_LAST_COLUMN = "__headgate_last"
_ASKED_COLUMN = "__headgate_asked"
_VERDICT_PREFIX = "__headgate_verdict_"
_SQL_PREFIX = "__headgate_sql_"
_OPEN = (0, EVERYTHING, 0, 0, 0, 0)  # salt, threshold, cut-off, level, judged, now
_LEVEL, _JUDGED, _NOW = 3, 4, 5
_CHAIN_BITS = 5  # 32 places in a level; a policy allows 20
_BITS = 62  # of a whole number that are counted at once

Letters = Callable[[DataFrame, str, Column], DataFrame]


@dataclass(frozen=True)
class GatePolicy:
    """A policy at a gate. `partitions` is None in the form of columns."""

    policy: Policy
    ladder: str = "budget"
    partitions: int | None = None
    remembers: bool = False

    @property
    def needs_now(self) -> bool:
        return any(f.needs_whole_queue for _, f in self.policy.filters(len(self.policy.levels)))


def read_policy(policy: Policy | str | os.PathLike[str], ladder: str) -> Policy:
    """The policy, from a file if it is given as a path."""
    if ladder not in LADDERS:
        raise UsageError(f"no ladder {ladder!r}; expected one of {', '.join(LADDERS)}")
    return policy if isinstance(policy, Policy) else load_policy(policy)


def split_attributes(policy: Policy) -> frozenset[str] | None:
    """Attributes by which a batch can be cut; None if any cut will do."""
    common: frozenset[str] | None = None
    for _, filter_ in policy.filters(len(policy.levels)):
        if not filter_.row_wise:
            keys = filter_.splits_by()
            common = keys if common is None else common & keys
    return common


def add_policy_gate(
    spark: SparkSession,
    frame: DataFrame,
    gate: str,
    arrival: str | None,
    identity: Sequence[str],
    policy: Policy,
    ladder: str,
    number: int,
    letters: Letters | None = None,
) -> tuple[DataFrame, GatePolicy]:
    """`frame` behind a gate, and how the gate is made. `number` finds the policy again.

    letters: as for `add_gate`.
    """
    made = _PolicyGate(spark, frame, gate, arrival, identity, policy, number)
    made.letters = letters
    return made.build(ladder)


class _PolicyGate:
    """One gate in the making."""

    def __init__(
        self,
        spark: SparkSession,
        frame: DataFrame,
        gate: str,
        arrival: str | None,
        identity: Sequence[str],
        policy: Policy,
        number: int,
    ) -> None:
        self.spark, self.frame, self.gate = spark, frame, gate
        self.arrival, self.identity, self.policy = arrival, identity, policy
        self.letters: Letters | None = None
        self.fate = f"{FATE_COLUMN}_{number}"
        self.number = LiveArray(spark, _OPEN).number
        self._time = time_of(frame, gate, arrival)
        types = {field.name: field.dataType for field in frame.schema.fields}
        one = identity[0] if len(identity) == 1 else _HASH_COLUMN
        now = self.number(_NOW).cast("double") / F.lit(1e6)
        self.row = RowColumns({_HASH_COLUMN: LongType(), **types}, self.number(0), now, one)
        self._check()

    def build(self, ladder: str) -> tuple[DataFrame, GatePolicy]:
        split = split_attributes(self.policy)
        verdicts = list(self._verdicts())
        digests = digest_metrics(self.policy.digests, self.row, ~F.col(STAYS_COLUMN))
        if split is None and digests is not None and all(v is not None for _, _, v in verdicts):
            columns = [(level, place, v) for level, place, v in verdicts if v is not None]
            return self._in_columns(columns, digests), GatePolicy(self.policy, ladder)
        remembers = split is not None and any(map(_remembers, self._filters()))
        partitions = self.spark.sparkContext.defaultParallelism if split else 1
        result = self._in_arrow(split, partitions, remembers)
        return result, GatePolicy(self.policy, ladder, partitions, remembers)

    def _filters(self) -> Iterator[Filter]:
        return (filter_ for _, filter_ in self.policy.filters(len(self.policy.levels)))

    def _verdicts(self) -> Iterator[tuple[int, int, Column | None]]:
        for level, chain in enumerate(self.policy.levels, start=1):
            for place, filter_ in enumerate(chain):
                yield level, place, verdict(filter_, self.row)

    # --- columns ------------------------------------------------------------------------------

    def _in_columns(
        self, verdicts: Sequence[tuple[int, int, Column]], digests: DigestMetrics
    ) -> DataFrame:
        hashed = self.frame.withColumn(_HASH_COLUMN, identity_hash(self.identity))
        seed, last, fallen = F.col(_HASH_COLUMN), F.col(_LAST_COLUMN), F.col(_FELL_COLUMN)
        # Each number once, all of one kind, and bits instead of sums: code so short that Java's
        # compiler takes it whole.
        frame = hashed.withColumns(
            {
                self.fate: fate(hashed, self.gate, self.arrival, seed, self.number),
                # Codes up to this one are applied.
                _LAST_COLUMN: _last_code(self.number(_LEVEL)),
                JUDGED_COLUMN: self.number(_JUDGED),
                **({} if self._time is None else {SECONDS: self._time.cast("double")}),
            }
        )
        codes = [_code(level, place) for level, place, _ in verdicts]
        goes = {}  # null: the filter has no answer
        for code, (level, _, selected), filter_ in zip(
            codes, verdicts, self._filters(), strict=True
        ):
            gone = ~selected if filter_.sense is Sense.KEEP else selected
            reached = F.col(JUDGED_COLUMN) >= F.lit(level)
            goes[_VERDICT_PREFIX + str(code)] = _either(reached, gone, F.lit(False))
        fell = _long(0)
        for code in reversed(codes):
            fell = _either(F.col(_VERDICT_PREFIX + str(code)), _long(code), fell)
        measured = frame.withColumns(goes).withColumn(_FELL_COLUMN, fell)
        stays = F.col(self.fate) & ((fallen == 0) | (fallen > last))
        asked = _either((fallen > 0) & (fallen < last), fallen, last)
        measured = measured.withColumns({STAYS_COLUMN: stays, _ASKED_COLUMN: asked})
        metrics = count_metrics(STAYS_COLUMN, self._time)
        counted = {**digests.columns, _ODD_COLUMN: _odd(codes)}
        for at in range(1, len(self.policy.levels) + 1):
            here = F.shiftright(fallen, _CHAIN_BITS) == at
            counted[f"{_FELL_COLUMN}_{at}"] = _either(here, _long(1), F.lit(None))
            metrics.append(F.sum(f"{_FELL_COLUMN}_{at}").alias(f"fell_{at}"))
        metrics.append(F.sum(_ODD_COLUMN).alias("odd"))
        sampled = with_sample(measured, STAYS_COLUMN, self._time, seed).withColumns(counted)
        return self._observed(sampled, [*metrics, *digests.aggregates])

    # --- Arrow --------------------------------------------------------------------------------

    def _in_arrow(
        self, split: frozenset[str] | None, partitions: int, remembers: bool
    ) -> DataFrame:
        if split is not None and self.arrival is None:
            raise UsageError(
                f"gate {self.gate!r}: the policy {self.policy.name!r} looks at the order of "
                "events; name the column with their arrival: arrival=..."
            )
        own = [field.name for field in self.frame.schema.fields]
        seed = identity_hash(self.identity)
        helpers: dict[str, Column] = {
            self.fate: fate(self.frame, self.gate, self.arrival, seed, self.number),
            _HASH_COLUMN: seed,
        }
        policy = self._for_memory(helpers)
        moved = self.frame.withColumns(helpers)
        if split is not None:
            keys = [key_of(self.row, name) for name in sorted(split)[:1]]
            moved = moved.repartition(partitions, *keys) if keys else moved.repartition(1)
        places = {SALT_COLUMN: 0, LEVEL_COLUMN: _LEVEL, JUDGED_COLUMN: _JUDGED, NOW_COLUMN: _NOW}
        orders = {name: self.number(at) for name, at in places.items()}
        if remembers:
            orders[STATE_COLUMN] = F.lit(None).cast("string")  # `plan_rewrite` fills it in
        order = self._order() if split is not None else ()
        task = PolicyTask(policy, order, tuple(own), self.fate, remembers)
        schema = StructType(
            [
                *self.frame.schema.fields,
                StructField(STAYS_COLUMN, BooleanType(), False),
                StructField(NOTE_COLUMN, StringType(), True),
            ]
        )
        reduced = moved.withColumns(orders).mapInArrow(_function(task), schema)
        metrics = count_metrics(STAYS_COLUMN, self._time)
        metrics.append(F.collect_list(F.col(NOTE_COLUMN)).alias("notes"))
        return self._observed(with_sample(reduced, STAYS_COLUMN, self._time, seed), metrics)

    def _for_memory(self, helpers: dict[str, Column]) -> Policy:
        """The policy for the in-memory filters: what only Spark knows becomes a column."""
        levels = []
        for chain in self.policy.levels:
            filters: list[Filter] = []
            for filter_ in chain:
                if isinstance(filter_, SparkSql):
                    name = f"{_SQL_PREFIX}{len(helpers)}"
                    answer = verdict(filter_, self.row)
                    assert answer is not None
                    helpers[name] = answer
                    filters.append(Eq(filter_.sense, attribute=name, value=True))
                elif isinstance(filter_, Random) and filter_.identity is None:
                    filters.append(replace(filter_, identity=self.row.identity))
                else:
                    filters.append(filter_)
            levels.append(tuple(filters))
        return replace(self.policy, levels=tuple(levels))

    def _order(self) -> tuple[str, ...]:
        """Arrival, then identity: a total order, so that a replay sorts alike."""
        assert self.arrival is not None
        nested = ArrayType | MapType | StructType
        flat = [name for name in self.identity if not isinstance(self.row.kind(name), nested)]
        return (self.arrival, *(name for name in flat if name != self.arrival), _HASH_COLUMN)

    # --- both ---------------------------------------------------------------------------------

    def _observed(self, frame: DataFrame, metrics: Sequence[Column]) -> DataFrame:
        first, *others = metrics
        observed = frame.observe(metric_name(self.gate), first, *others)
        if self.letters is not None:
            observed = self.letters(observed, STAYS_COLUMN, identity_hash(self.identity))
        own = [F.col("`" + name.replace("`", "``") + "`") for name in self.frame.columns]
        return observed.where(F.col(STAYS_COLUMN)).select(*own)

    def _check(self) -> None:
        where = f"gate {self.gate!r}"
        taken = [name for name in self.frame.columns if name.startswith("__headgate_")]
        if taken:
            raise UsageError(f"{where}: the column name {taken[0]} is taken by Headgate")
        problems = problems_with(self.policy, kinds_of(self.frame.schema))
        if problems:
            raise PolicyError(problems)
        if not self.policy.levels:
            raise UsageError(f"{where}: the policy {self.policy.name!r} has no level; add one")
        for filter_ in self._filters():
            if isinstance(filter_, SparkSql):
                check_predicate(self.frame, filter_, where)
        self._check_arrow(where)

    def _check_arrow(self, where: str) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        if all(column is not None for _, _, column in self._verdicts()):
            return
        try:
            to_arrow_schema(self.frame.schema, timezone="UTC")
        except PySparkException as error:
            reason = str(error).splitlines()[0][:200]
            raise UsageError(
                f"{where}: the policy {self.policy.name!r} works on Arrow, and a column cannot "
                f"be passed to it ({reason}); select the others first"
            ) from None


def _odd(codes: Sequence[int]) -> Column:
    """How many filters were asked and had no answer: those before the one that the row fell to.

    Null for most rows, for which all had one: nothing is added up then.
    """
    some, number = F.lit(False), None
    for begin in range(0, len(codes), _BITS):
        bits = _long(0)
        for bit, code in enumerate(codes[begin : begin + _BITS]):
            unjudged = F.col(_VERDICT_PREFIX + str(code)).isNull()
            some = some | unjudged
            counts = unjudged & (F.col(_ASKED_COLUMN) > code)
            bits = bits.bitwiseOR(_either(counts, _long(1 << bit), _long(0)))
        part = F.bit_count(bits).cast("bigint")
        number = part if number is None else number + part
    assert number is not None  # a policy has a level, and a level a filter
    return _either(some, number, F.lit(None))


def _last_code(level: Column) -> Column:
    """The largest code that a place in the level can have."""
    return F.shiftleft(level, _CHAIN_BITS).bitwiseOR((1 << _CHAIN_BITS) - 1)


def _code(level: int, place: int) -> int:
    return level << _CHAIN_BITS | place


def _either(condition: Column, then: Column, otherwise: Column) -> Column:
    """Shorter code than `when`, which is made for many conditions."""
    return F.call_function("if", condition, then, otherwise)


def _long(number: int) -> Column:
    return F.lit(number).cast("bigint")


def _remembers(filter_: Filter) -> bool:
    """Does the filter keep state from one queue to the next?"""
    if filter_.row_wise:
        return False
    return filter_.select(as_queue([]), Context(state=EMPTY_STATE)).state is not None


def _function(task: PolicyTask) -> Any:
    """A plain function: Spark looks at its signature."""

    def reduce_partition(batches: Any) -> Any:
        return task(batches)

    return reduce_partition
