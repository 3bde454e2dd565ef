"""kill -9 of the driver at random moments under load; what was kept must still be exact.

One query with a file sink and a flash crowd far above its capacity runs in a process of
its own. It is killed a random time after it first wrote to a log in that life, and started
again on the same checkpoint, twenty times. A last life ends after three more commits. Then the
written rows are compared with what the rule of the gate keeps under the decisions in
Spark's offset log: that is what an undisturbed run with the same decisions writes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.spark.streams import expected_ids, logged_batches

from benchmarks.spark.environment import spark_and_headgate

__all__ = ["run"]

KILLS = 20
_LONGEST_WAIT_SECONDS = 600.0
_LONGEST_LIFE_SECONDS = 8.0


def run(kills: int = KILLS, seed: int = 1) -> dict[str, Any]:
    """See the module; `exact`, `balances` and `counted_once` must be True."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        in_a_batch = 0
        for number in range(kills):
            before = _logs(directory)
            with _driver(directory) as driver:
                _wait(driver, partial(_has_begun, directory, before))
                time.sleep(chance.uniform(0.0, _LONGEST_LIFE_SECONDS))
            in_a_batch += _newest(directory, "offsets") > _newest(directory, "commits")
            print(f"  kill {number + 1} of {kills}", file=sys.stderr, flush=True)
        with _driver(directory) as driver:
            enough = _newest(directory, "commits") + 3
            _wait(driver, lambda: _newest(directory, "commits") >= enough)
        with spark_and_headgate() as (spark, _):
            return {"kills": kills + 1, "in_a_batch": in_a_batch, **_examine(spark, directory)}


@contextmanager
def _driver(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver that is in its first trigger; killed at the end."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.killed_driver", str(directory)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert driver.stdout is not None
        if driver.stdout.readline().strip() != "runs":
            raise RuntimeError(f"the driver did not come up ({driver.wait()})")
        yield driver
        if driver.poll() is not None:
            raise RuntimeError(f"the driver ended by itself with {driver.returncode}")
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        if driver.stdout is not None:
            driver.stdout.close()


def _wait(driver: subprocess.Popen[str], until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
    while not until():
        if driver.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the driver does not get on ({driver.returncode})")
        time.sleep(0.02)


def _logs(directory: Path) -> tuple[int, int]:
    """It changes when a batch begins, and when one ends that ran again."""
    return _newest(directory, "offsets"), _newest(directory, "commits")


def _has_begun(directory: Path, before: tuple[int, int]) -> bool:
    return _logs(directory) != before


def _newest(directory: Path, log: str) -> int:
    names = (directory / "checkpoint" / log).glob("*")
    return max((int(path.name) for path in names if path.name.isdigit()), default=-1)


def _examine(spark: Any, directory: Path) -> dict[str, Any]:
    from headgate.spark.ledger.lines import read_lines

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
