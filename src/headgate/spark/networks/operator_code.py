"""The code of operators: your own functions, and where they stand. No pyspark."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from headgate.errors import UsageError
from headgate.network import Operator
from headgate.network.yaml_spark import python_function
from headgate.spark.networks.network_groups import RunningNetwork
from headgate.spark.networks.query_failure import OperatorCode

__all__ = ["codes_of", "imported"]


def imported(operator: Operator, module: str, name: str) -> Callable[..., Any]:
    """The function that the operator names; UsageError with the way out."""
    where = f"operator {operator.name!r}: code {module}:{name}"
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise UsageError(
            f"{where}: cannot import it: {error}. Put it where you start, or beside the network "
            "file, or install it, or set PYTHONPATH (spark-submit: --py-files)"
        ) from error
    if not callable(found):
        raise UsageError(f"{where}: the module has no function of that name")
    function: Callable[..., Any] = found
    return function


def codes_of(running: RunningNetwork) -> list[OperatorCode]:
    """Where the code of each operator stands, by its name in the file."""
    return [code for o in running.network.operators for code in _places(o, running)]


def _places(operator: Operator, running: RunningNetwork) -> Iterator[OperatorCode]:
    name, code = running.original[operator.name], operator.code
    if code is None:
        return
    named = python_function(code)
    if named is None:
        yield OperatorCode(name, sql=code)
        return
    try:
        function = imported(operator, *named)
        file = inspect.getsourcefile(inspect.unwrap(function))
        lines, first = inspect.getsourcelines(inspect.unwrap(function))
    except (UsageError, OSError, TypeError):  # stood in for, or without a source
        return
    if file is not None:
        yield OperatorCode(name, file, first, first + len(lines) - 1)
