"""Which experiments there are: every `Experiment` at module level in `experiments`.

They are found by importing the modules, so a new experiment needs no list to be
changed. Cost: the import of every experiment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from headgate.errors import UsageError
from headgate.names import nearest
from headgate.reproduce import experiments
from headgate.reproduce.experiment import Experiment

__all__ = ["all_experiments", "choose", "experiments_in"]


def all_experiments() -> dict[str, Experiment]:
    """Every experiment by name, in the order of a reader: figure-9 before figure-10."""
    names = [f"{experiments.__name__}.{found.name}" for found in iter_modules(experiments.__path__)]
    return experiments_in(import_module(name) for name in names)


def experiments_in(modules: Iterable[ModuleType]) -> dict[str, Experiment]:
    """The experiments that the modules define; a name stands for one experiment only."""
    found: dict[str, Experiment] = {}
    for module in modules:
        for item in vars(module).values():
            if isinstance(item, Experiment) and found.setdefault(item.name, item) is not item:
                raise UsageError(f"two experiments are named {item.name!r}; rename one of them")
    return dict(sorted(found.items(), key=lambda pair: _reading_order(pair[0])))


def choose(names: Iterable[str], known: dict[str, Experiment]) -> list[Experiment]:
    """The experiments of these names, each once, in the order asked for."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise UsageError(f"unknown experiment {name!r}{nearest(name, known)}")
    return [known[name] for name in wanted]


def _reading_order(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
