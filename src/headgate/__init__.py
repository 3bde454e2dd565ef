"""Headgate: overload management for stream processing on Apache Spark.

Headgate decides what to drop, where, how much and for whom when more data
arrives than a streaming application can process.
"""

from importlib.metadata import version

__version__ = version("headgate")

__all__ = ["__version__"]
