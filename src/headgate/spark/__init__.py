"""Headgate on Spark Structured Streaming: gates, decisions, statistics and the ledger.

Depends on `headgate.coordinator` and everything below it, where nothing imports pyspark.
Nothing is imported here, because Spark starts small Python processes that need one module of
this package and should not pay for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.spark.networks.network_run import RunSettings, run_network
    from headgate.spark.session import Headgate, attach

__all__ = ["Headgate", "RunSettings", "attach", "run_network"]


def __getattr__(name: str) -> Any:
    if name in ("RunSettings", "run_network"):
        from headgate.spark.networks import network_run

        return getattr(network_run, name)
    if name in __all__:
        from headgate.spark import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
