"""Which filters and digests there are: every concrete class in their two packages.

They are found by importing the modules, so a new one needs no list to be changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import Any

from headgate.reduction import digests, filters
from headgate.reduction.contract import Filter
from headgate.reduction.digest_contract import DigestKind

__all__ = ["digest_kinds", "filter_kinds"]


@cache
def filter_kinds() -> Mapping[str, type[Filter]]:
    """Every filter by the name that a policy uses, in alphabetical order."""
    return _found(filters, Filter)


@cache
def digest_kinds() -> Mapping[str, type[DigestKind]]:
    """Every digest by the name that a policy uses, in alphabetical order."""
    return _found(digests, DigestKind)


def _found(package: ModuleType, base: type) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for info in iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{info.name}")
        for item in vars(module).values():
            own = inspect.isclass(item) and item.__module__ == module.__name__
            if own and issubclass(item, base) and not inspect.isabstract(item):
                found[item.name] = item
    return MappingProxyType(dict(sorted(found.items())))
