"""Headgate: overload management for stream processing on Apache Spark.

Headgate decides what to drop, where, how much and for whom when more data
arrives than a streaming application can process.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.spark.session import attach

    __version__: str

__all__ = ["__version__", "attach"]


def __getattr__(name: str) -> Any:
    """`headgate.attach` needs pyspark; `import headgate` does not.

    Nor does it look up its version: every Python process of a source imports this.
    """
    if name == "__version__":
        from importlib.metadata import version

        return version("headgate")
    if name == "attach":
        try:
            from headgate.spark.session import attach
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in ("pyspark", "pyarrow", "pandas"):
                raise
            from headgate.errors import UsageError

            raise UsageError(
                f"headgate.attach needs {error.name}: pip install 'headgate[spark]'"
            ) from error
        return attach
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
