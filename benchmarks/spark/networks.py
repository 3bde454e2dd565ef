"""Networks on Spark: the score beside the best one, and the predicted load beside the measured.

`split` is examples/split-on-spark.yaml as it is: steadily about twice what two cores can do.
`shop` is examples/shop.yaml with stand-ins for its operators, under the World Cup trace: the 225
minutes around a match (25 June 1998, from 13:08), a minute in a second, all streams in their
described ratio. The environment variable HEADGATE_DATA says where the trace is; without it a crowd
of the same height is made up, and the result says so.

What the best score is: `headgate.spark.networks.network_record`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headgate.network import Network, load_network
from headgate.simulation.trace_file import parse_recorded_load
from headgate.spark.local_session import PLAIN_FILES, start_spark
from headgate.spark.networks.network_report import NetworkReport
from headgate.spark.networks.network_run import RunSettings, run_network

__all__ = ["run"]

_TRACE = "worldcup98_requests_per_minute.csv"
_FIRST_MINUTE, _MINUTES = 928, 225
_DESCRIBED_AT = 4000.0  # requests a second that stand for the described rates
_TARGET_SECONDS = 10.0
_SPLIT_SECONDS = 170.0


def run() -> dict[str, Any]:
    examples = Path("examples")
    split = _measured("split", load_network(examples / "split-on-spark.yaml"), {}, _SPLIT_SECONDS)
    shop = load_network(examples / "shop.yaml")
    requests, origin = _requests_per_minute()
    described = {s.name: s.rate_per_second or 0.0 for s in shop.streams}
    rates = {name: rate * requests / 60.0 / _DESCRIBED_AT for name, rate in described.items()}
    aimed = tuple(replace(q, latency_target_seconds=_TARGET_SECONDS) for q in shop.queries)
    found = _measured("shop", replace(shop, queries=aimed), rates, float(len(requests)))
    return {"split": split, "shop": {"load": origin, **found}}


def _requests_per_minute() -> tuple[np.ndarray, str]:
    data = os.environ.get("HEADGATE_DATA")
    if data and (Path(data) / _TRACE).is_file():
        path = Path(data) / _TRACE
        values = parse_recorded_load(path.read_text(encoding="utf-8-sig"), path.name).values()
        part = np.array(values[_FIRST_MINUTE : _FIRST_MINUTE + _MINUTES])
        return part, f"{_TRACE}, {_MINUTES} minutes from {_FIRST_MINUTE}, a minute in a second"
    minutes = np.arange(_MINUTES)
    crowd = 30e3 + 180e3 * np.exp(-(((minutes - 160.0) / 25.0) ** 2))
    return crowd, "made up: no trace, HEADGATE_DATA does not say where it is"


def _measured(
    name: str, network: Network, rates: dict[str, np.ndarray], seconds: float
) -> dict[str, Any]:
    print(f"  {name}, {seconds:.0f} s ...", file=sys.stderr, flush=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
        root = Path(directory)
        replayed = {}
        for stream, series in rates.items():
            path = root / f"{stream}.csv"
            path.write_text("\n".join(f"{rate:.6f}" for rate in series) + "\n", encoding="utf-8")
            replayed[stream] = {"pattern": "trace", "file": str(path), "step": "1s"}
        settings = RunSettings(stand_ins=bool(rates), replayed=replayed)
        spark = start_spark(root, root / "spark.log", "local[2]", f"bench {name}", PLAIN_FILES)
        try:
            spark.sparkContext.setLogLevel("OFF")
            with run_network(spark, network, settings) as running:
                running.wait(seconds)
                report = running.report()
        finally:
            spark.stop()
    return _figures(report)


def _figures(report: NetworkReport) -> dict[str, Any]:
    gates = {
        gate: {"offered": offered, "kept_share": kept / offered if offered else None}
        for group in report.gates.values()
        for gate, (offered, kept, _) in group.items()
    }
    return {
        "counted_seconds": report.seconds,
        "score": report.score,
        "best_score": report.best_score,
        "score_of_best": report.of_best,
        "predicted_load": report.predicted_load,
        "measured_load": report.measured_load,
        "load_error": report.load_error,
        "load_error_mean_abs": report.load_error_mean_abs,
        "latency_seconds": {q.name: q.latency_seconds for q in report.queries},
        "gates": gates,
        "alarms": list(report.alarms)[:20],
    }
