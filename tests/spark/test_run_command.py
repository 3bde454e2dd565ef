"""`headgate run` as a person starts it: the installed command, in a directory of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from headgate.network import load_network
from tests.spark.terminal import HEADGATE

SRC = Path(__file__).parents[2] / "src"

NETWORK = """\
network: own code
nodes: {A: {capacity: 2}}
streams:
  a: {source: {format: replay, options: {rate: 100}}}
operators:
  tagged: {kind: map, input: a, node: A, cost: 10us, code: "beside_the_file:tagged"}
  risky: {kind: map, input: tagged, node: A, cost: 10us, code: "shop.operators:risky"}
queries:
  q: {input: risky, latency: 1s}
"""
OPERATORS = """\
def each(batches):  # found by its name: Spark's worker imports this module
    for batch in batches:
        if batch.num_rows and max(batch.column("id").to_pylist()) > 200:
            raise ValueError("id too large")
        yield batch

def risky(frame):
    return frame.mapInArrow(each, frame.schema)
"""
TAGGED = """\
from pyspark.sql import functions as F

def tagged(frame):
    return frame.withColumn("tag", F.lit("x"))
"""


def test_own_code_is_found_where_the_command_starts_and_its_failure_is_explained(
    tmp_path: Path,
) -> None:
    start, files = tmp_path / "start", tmp_path / "files"
    (start / "shop").mkdir(parents=True)
    (start / "shop" / "operators.py").write_text(OPERATORS)
    files.mkdir()
    (files / "n.yaml").write_text(NETWORK)
    (files / "beside_the_file.py").write_text(TAGGED)
    words = ["--master=local[2]", "--seconds=120", "--json", "--export=measured.yaml"]
    done = subprocess.run(
        [HEADGATE, "run", files / "n.yaml", *words],
        cwd=start,
        env={**os.environ, "PYTHONPATH": str(SRC)},  # not pytest's: `start` is not on it
        check=False,
        timeout=240,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr[-3000:]
    error = "(operators.py, line 4) failed: ValueError: id too large"
    assert error in done.stderr.splitlines()[-1]
    log = re.search(r"Spark's own messages are in (\S+\.log)$", done.stderr.strip())
    assert log is not None
    assert "id too large" in Path(log[1]).read_text(encoding="utf-8")
    Path(log[1]).unlink()
    report = json.loads(done.stdout)
    assert error in report["error"]
    assert report["gates"]["q"]["a->tagged"]["offered"]  # what was measured until then is not lost
    assert load_network(start / "measured.yaml").name == "own code"
