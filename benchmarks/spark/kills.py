"""kill -9 of the driver at random moments under load; what was kept must still be exact.

One query with a file sink and a flash crowd far above its capacity runs in a process of
its own. It is killed after a random time since its first batch of that life began, and
started again on the same checkpoint, twenty times. Then the written rows are compared
with what the rule of the gate keeps under the decisions in Spark's offset log: that is
what an undisturbed run with the same decisions writes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.spark.streams import expected_ids, logged_batches

__all__ = ["run"]

KILLS = 20
_LONGEST_START_SECONDS = 120.0
_LONGEST_LIFE_SECONDS = 12.0


def run(spark: Any, hg: Any, kills: int = KILLS, seed: int = 1) -> dict[str, Any]:  # noqa: ARG001
    """See the module; `exact`, `balances` and `counted_once` must be True."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        in_a_batch = 0
        for number in range(kills):
            in_a_batch += _live_and_die(directory, chance.uniform(0.0, _LONGEST_LIFE_SECONDS))
            print(f"  kill {number + 1} of {kills}", file=sys.stderr, flush=True)
        _live_and_die(directory, _LONGEST_LIFE_SECONDS)
        return {"kills": kills + 1, "in_a_batch": in_a_batch, **_examine(spark, directory)}


def _live_and_die(directory: Path, seconds: float) -> bool:
    """One life of the driver. True when the kill came between the offset log and the commit."""
    offsets, before = directory / "checkpoint" / "offsets", _newest(directory, "offsets")
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.killed_driver", str(directory)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + _LONGEST_START_SECONDS
        while not (offsets.is_dir() and _newest(directory, "offsets") > before):
            if driver.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the driver did not come up ({driver.returncode})")
            time.sleep(0.02)
        time.sleep(seconds)
        if driver.poll() is not None:
            raise RuntimeError(f"the driver ended by itself with {driver.returncode}")
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return _newest(directory, "offsets") > _newest(directory, "commits")


def _newest(directory: Path, log: str) -> int:
    names = (directory / "checkpoint" / log).glob("*")
    return max((int(path.name) for path in names if path.name.isdigit()), default=-1)


def _examine(spark: Any, directory: Path) -> dict[str, Any]:
    from headgate.spark.ledger_file import read_lines

    checkpoint = directory / "checkpoint"
    committed = _newest(directory, "commits")
    batches = logged_batches(checkpoint)
    finished = {number for number in batches if number <= committed}
    ids = spark.read.parquet(str(directory / "out")).toPandas()["id"].tolist()
    expected = expected_ids(spark, checkpoint, "orders", finished)
    rows = list(read_lines([checkpoint / "headgate" / "ledger"]))
    counted = [row for row in rows if row["status"] == "counted"]
    numbers = [row["batch"] for row in rows]
    return {
        "batches": len(finished),
        "batches_that_shed": sum(batches[number][0].sheds for number in finished),
        "rows_written": len(ids),
        "exact": set(ids) == expected and len(ids) == len(set(ids)),
        "balances": all(row["offered"] == row["kept"] + row["dropped"] for row in counted),
        "counted_once": len(numbers) == len(set(numbers)),
        "batches_uncounted": len(rows) - len(counted),
        "batches_missing_in_the_ledger": len(finished - set(numbers)),
        "kept_of_counted_batches": sum(row["kept"] for row in counted),
    }
