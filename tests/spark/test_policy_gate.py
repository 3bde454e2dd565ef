"""Policies at a gate: what goes, what is said about it, and the same again on a replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import PolicyError, UsageError
from headgate.reduction import (
    Digest,
    PackingRequest,
    Policy,
    PolicyBuilder,
    digest_of,
    merge_all,
    reduce_to_level,
    use,
)
from headgate.reduction.hashing import fates, hash_longs
from headgate.reduction.queues import as_queue
from headgate.spark.session import Headgate, attach
from headgate.spark.sources.replay_source import ReplayReader
from tests.spark.streams import logged_batches, rows_of, wait_for, wait_for_batches

Replay = Callable[..., DataFrame]
Kept = dict[int, set[int]]
ALERT = 0.99


def readings() -> Policy:
    """Normal readings go first; alerts are above 0.99. The last level spares nothing."""
    return (
        PolicyBuilder("readings", attribute="value")
        .digest("MEAN")
        .digest("MAX")
        .digest("MIN")
        .digest("SUM")
        .digest("VARIANCE")
        .digest("COUNT")
        .digest("DISTINCT", attribute="key")
        .level(use("WITHIN", "drop", low=0.0, high=0.3))
        .level(
            use("WITHIN", "drop", low=0.0, high=0.5), use("SPARK_SQL", "drop", predicate="id < 0")
        )
        .level(use("LT", "drop", value=0.9))
        .level(use("RANDOM", "drop", fraction=0.5))
        .build()
    )


def in_memory(policy: Policy) -> Policy:
    """The same without SPARK_SQL, which selects nothing here; RANDOM by the gate's identity."""
    levels = []
    for chain in policy.levels:
        kept = [filter_ for filter_ in chain if filter_.name != "SPARK_SQL"]
        levels.append(tuple(_by_id(filter_) for filter_ in kept))
    return Policy(policy.name, tuple(levels), policy.digests)


def _by_id(filter_: Any) -> Any:
    if filter_.name != "RANDOM":
        return filter_
    return type(filter_)(filter_.sense, fraction=filter_.fraction, identity="id", seed=filter_.seed)


def follow(
    policy: Policy, checkpoint: Path, gate: str, **options: str
) -> dict[int, tuple[int, Any, Any]]:
    """Level, kept and dropped rows of every batch, from the offset log and nothing else.

    The in-memory filters, with state from batch to batch, and the rule of the gate.
    """
    reader = ReplayReader(options)
    found: dict[int, tuple[int, Any, Any]] = {}
    state: Any = {}
    start = 0
    for batch, (decision, offset) in logged_batches(checkpoint).items():
        rows = reader.rows(np.arange(start, offset["row"], dtype=np.int64), offset["epoch"])
        start = offset["row"]
        level = decision.level(gate)
        request = PackingRequest(decision.salt, state=state)
        packing = reduce_to_level(rows, policy, level, request)
        state = packing.state if rows.num_rows else state
        stays = np.zeros(rows.num_rows, np.bool_)
        stays[packing.kept_rows] = True
        ids = rows.column("id").to_numpy()
        stays &= fates(hash_longs(ids), decision.salt) < decision.threshold(gate)
        found[batch] = level, rows.filter(stays), rows.filter(~stays)
    return found


def collect(batches: Kept) -> Callable[[DataFrame, int], None]:
    def run(frame: DataFrame, batch: int) -> None:
        batches[batch] = set(frame.toPandas()["id"].tolist())

    return run


def ids(rows: Any) -> set[int]:
    return set(rows.column("id").to_pylist())


def test_digests_without_a_checkpoint_are_those_of_this_headgate_alone(
    spark: SparkSession, replay: Replay
) -> None:
    policy = PolicyBuilder("low", attribute="value").level(use("LT", "drop", value=0.9)).build()
    seen = []
    for name in ("first alone", "second alone"):
        with attach(spark, timeout="20s") as own:
            stream = replay(rate=2000)
            gated = own.gate(stream, "rows", arrival="timestamp", identity=["id"], policy=policy)
            query = own.start(gated.writeStream.format("noop"), name=name)
            own.limit(name, "rows", 0.2)
            digests = wait_for(lambda own=own: own.digests().collect(), what="digests")
            query.stop()
            assert {row.query for row in digests} == {name}
            seen += own._digests.directories
    assert len(seen) == len(set(seen)) == 2


def _dropped(hg: Headgate, query: str) -> int:
    return sum(row["dropped"] for row in rows_of(hg, query))


def test_alerts_stay_where_random_drop_keeps_the_keep_fraction(
    hg: Headgate, replay: Replay, tmp_path: Path
) -> None:
    policy = readings()
    kept: dict[str, Kept] = {"policy": {}, "chance": {}}
    for name, given in (("policy", policy), ("chance", None)):
        stream = hg.gate(
            replay(rate=20_000), "readings", arrival="timestamp", identity=["id"], policy=given
        )
        assert stream.columns == ["id", "key", "value", "timestamp"]
        writer = stream.writeStream.foreachBatch(collect(kept[name]))
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        query = hg.start(writer, name=f"alerts_{name}")
        wait_for_batches(hg, f"alerts_{name}", 1)
        for keep in (0.2, 0.6, 0.03) if given else (0.2,):
            hg.limit(f"alerts_{name}", "readings", keep)
            enough = _dropped(hg, f"alerts_{name}") + 8000  # one in a hundred is an alert
            wait_for_batches(hg, f"alerts_{name}", 2)
            wait_for(lambda name=name, enough=enough: _dropped(hg, f"alerts_{name}") > enough)
        query.stop()

    # The rows that stay are those of the in-memory filters, batch by batch.
    followed = follow(in_memory(policy), tmp_path / "policy", "readings")
    for batch, found in kept["policy"].items():
        assert found == ids(followed[batch][1]), batch
    levels = {level for level, _, _ in followed.values()}
    assert {0, 3, 4} <= levels  # they leave 0.7, 0.5, 0.1 and 0.05
    assert _alerts_kept(kept["policy"], tmp_path / "policy") >= 0.99
    assert 0.05 < _alerts_kept(kept["chance"], tmp_path / "chance") < 0.4

    rows = [row for row in rows_of(hg, "alerts_policy") if row["offered"]]
    plan = policy.digests
    lines = hg.digests().where("query = 'alerts_policy'").collect()
    digests = {line["batch"]: line for line in lines}
    for row in rows:
        level, stays, gone = followed[row["batch"]]
        assert (row["level"], row["kept"], row["dropped"]) == (level, len(stays), len(gone))
        assert row["offered"] == row["kept"] + row["dropped"]
        assert len(row["dropped_by_level"]) == level
        assert row["odd"] == 0
        if not len(gone):
            assert row["digest"] is None
            continue
        line = digests[row["batch"]]
        assert (line["gate"], line["policy"], line["level"]) == ("readings", "readings", level)
        assert line["dropped"] == line["dropped_of_group"] == len(gone)
        exact = digest_of(plan, as_queue(gone))
        ours = Digest.from_json(plan, json.loads(line["content"]))
        _nearly_equal(ours.results()[""], exact.results()[""])
        _nearly_equal(json.loads(row["digest"])[""], exact.results()[""])
        assert json.loads(line["results"]["MAX(value)"]) == exact.results()[""]["MAX(value)"]
    merged = merge_all(plan, [Digest.from_json(plan, json.loads(r["content"])) for r in lines])
    assert merged.dropped == sum(row["dropped"] for row in rows) > 0


def _alerts_kept(kept: Kept, checkpoint: Path) -> float:
    """Of the alerts in batches that shed, the share that came through; not at level 4."""
    offered, passed = 0, 0
    for batch, (level, stays, gone) in follow(_nothing(), checkpoint, "readings").items():
        decision = logged_batches(checkpoint)[batch][0]
        if decision.sheds and level < 4 and batch in kept:
            for rows in (stays, gone):
                values, numbers = rows.column("value").to_pylist(), rows.column("id").to_pylist()
                alerts = {i for i, v in zip(numbers, values, strict=True) if v > ALERT}
                offered += len(alerts)
                passed += len(alerts & kept[batch])
    assert offered > 50
    return passed / offered


def _nothing() -> Policy:
    """Four levels that drop nothing."""
    builder = PolicyBuilder("nothing", attribute="value")
    for _ in range(4):
        builder = builder.level(use("LT", "drop", value=-1.0))
    return builder.build()


def _nearly_equal(ours: dict[str, Any], exact: dict[str, Any]) -> None:
    assert list(ours) == list(exact)
    for title, value in exact.items():
        assert ours[title] == pytest.approx(value, rel=1e-9), title


def vehicles() -> Policy:
    """Queue-wise: state for each key, then only the newest of each key."""
    return (
        PolicyBuilder("vehicles", attribute="value", group="key", digest_group="key")
        .digest("QUANTILES")
        .digest("FREQUENT")
        .digest("SUM")
        .level(use("EVERY", "keep", count=2))
        .level(use("DELTA", "keep", change=0.3, since="selected"))
        .level(use("LATEST_PER_KEY", "keep"))
        .build()
    )


def test_state_crosses_batches_and_a_replay_drops_the_same_again(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    policy, options = vehicles(), {"keys": "7"}
    first: Kept = {}
    again: Kept = {}

    def start(batches: Kept) -> Any:
        stream = hg.gate(
            replay(rate=1500, **options),
            "positions",
            arrival="timestamp",
            identity=["id"],
            policy=policy,
        )
        writer = stream.writeStream.foreachBatch(collect(batches))
        writer = writer.option("checkpointLocation", str(tmp_path))
        return hg.start(writer, name="vehicles", keep_at_least=0.05)

    query = start(first)
    wait_for_batches(hg, "vehicles", 1)
    for keep in (0.55, 0.3):
        hg.limit("vehicles", "positions", keep)
        wait_for_batches(hg, "vehicles", 2)
    query.stop()
    newest = max(logged_batches(tmp_path))
    (tmp_path / "commits" / str(newest)).unlink(missing_ok=True)
    query = start(again)  # the newest batch runs again
    hg.limit("vehicles", "positions", 0.4)
    wait_for(lambda: len(again) > 2, what="batches after the replay")
    query.stop()

    followed = follow(policy, tmp_path, "positions", **options)
    levels = [level for level, _, _ in followed.values()]
    assert 0 in levels
    assert sum(level in (1, 2) for level in levels) >= 3  # the levels that remember
    assert newest in again
    for batches in (first, again):
        for batch, found in batches.items():
            assert found == ids(followed[batch][1]), batch
    if newest in first:
        assert first[newest] == again[newest]
    plan = policy.digests
    for line in hg.digests().where("query = 'vehicles'").collect():
        exact = digest_of(plan, as_queue(followed[line["batch"]][2]))
        assert json.loads(line["content"]) == json.loads(exact.to_bytes())
    assert hg.digests().where("query = 'vehicles'").select("group").distinct().count() == 7
    rows = [row for row in rows_of(hg, "vehicles") if row["status"] == "counted"]
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    assert not [a for a in hg.alarms() if a.kind == "policy"]
    assert spark.conf.get("spark.sql.streaming.unsupportedOperationCheck") == "true"


def test_a_policy_from_a_file_with_the_papers_ladder_below_an_aggregation(
    hg: Headgate, spark: SparkSession, replay: Replay, tmp_path: Path
) -> None:
    """A regular expression (on Arrow, by RE2), a watermark below the gate, a window above."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        "policy: log\nattribute: text\nlevels:\n"
        "  - {filter: MATCH, sense: drop, pattern: '^row [0-9]*[13579]$'}\n"
        "  - {filter: OLDER_THAN, sense: drop, time: timestamp, age: 30s}\n"
    )
    stream = replay(rate=2000).withColumn("text", F.concat(F.lit("row "), F.col("id")))
    stream = stream.withWatermark("timestamp", "1 second")
    gated = hg.gate(stream, "log", arrival="timestamp", policy=str(file), ladder="turnaround")
    counts = gated.groupBy(F.window("timestamp", "1 second")).count()
    query = hg.start(
        counts.writeStream.format("memory").outputMode("append"), name="log", latency="60s"
    )
    wait_for_batches(hg, "log", 1)
    hg.limit("log", "log", 0.5)
    wait_for(lambda: [r for r in rows_of(hg, "log") if r["level"] and r["dropped"]])
    wait_for(lambda: spark.table("log").limit(1).count(), what="windows")
    query.stop()
    shed = [row for row in rows_of(hg, "log") if row["level"] == 1]
    assert shed
    for row in shed:
        assert abs(row["dropped_by_level"][0] - row["offered"] / 2) <= 1
    assert hg.digests().where("query = 'log'").count() >= len(shed)


def test_mistakes_in_a_policy_are_said_before_anything_starts(hg: Headgate, replay: Replay) -> None:
    stream = replay(rate=10)

    def gate(*filters: Any, **given: Any) -> None:
        builder = PolicyBuilder("p", attribute="value")
        for filter_ in filters:
            builder = builder.level(filter_)
        hg.gate(stream, "g", policy=builder.build(), **given)

    with pytest.raises(UsageError, match="there is no file"):
        hg.gate(stream, "g", policy="nowhere.yaml")
    with pytest.raises(UsageError, match="no ladder 'steps'"):
        gate(use("LT", "drop", value=1), ladder="steps")
    with pytest.raises(UsageError, match="by_key, by_window and weight are not possible"):
        gate(use("LT", "drop", value=1), weight="w")
    with pytest.raises(PolicyError, match="no attribute 'speed'"):
        gate(use("LT", "drop", value=1, attribute="speed"))
    with pytest.raises(PolicyError, match="MATCH judges text"):
        gate(use("MATCH", "drop", pattern="a"))
    with pytest.raises(UsageError, match=r"name the column with their arrival"):
        gate(use("UNIQ", "keep"))
    with pytest.raises(UsageError, match="cannot be used"):
        gate(use("SPARK_SQL", "drop", predicate="speed > 3"))
    with pytest.raises(UsageError, match="expected true or false"):
        gate(use("SPARK_SQL", "drop", predicate="value + 1"))
    with pytest.raises(UsageError, match="row alone"):
        gate(use("SPARK_SQL", "drop", predicate="rand() > 0.5"))
