"""Which planners there are, and how to make one from the command's options.

A planner is a class that `headgate.planning` exports and that has a `name` and a
method `plan`: a new one appears here by itself. Its settings are the dataclass that
its constructor's `settings` takes; an option applies where there is a field for it.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Any

import headgate.planning
from headgate.errors import UsageError
from headgate.names import nearest
from headgate.network import Network
from headgate.planning import Planner

__all__ = ["complete_planner", "make_planner", "planner_classes", "summary_of"]

DEFAULT_PLANNER = "exact"
_FLAGS = {"workload": "trace"}  # where the option has another name than the field


def planner_classes() -> dict[str, type[Any]]:
    """Every planner by name, the default first."""
    exported = (getattr(headgate.planning, name) for name in headgate.planning.__all__)
    found = {item.name: item for item in exported if _is_planner(item)}
    return dict(sorted(found.items(), key=lambda pair: (pair[0] != DEFAULT_PLANNER, pair[0])))


def make_planner(name: str, network: Network, options: Mapping[str, Any]) -> Planner:
    """The planner `name` for `network`; `options` hold what was asked for by field name.

    Raises UsageError for an unknown planner, and for an option that this planner
    does not have; the message names those that do.
    """
    classes = planner_classes()
    if name not in classes:
        raise UsageError(f"unknown planner {name!r}{nearest(name, classes)}")
    settings_class = _settings_class(classes[name])
    for option, value in options.items():
        if option not in _fields(settings_class):
            raise UsageError(_not_supported(name, option, value, classes))
    settings = settings_class(**options) if settings_class is not None else None
    planner: Planner = classes[name](network, settings=settings)
    return planner


def complete_planner(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion: the planners that begin like this, with what they do."""
    return [
        (name, summary_of(planner))
        for name, planner in planner_classes().items()
        if name.startswith(incomplete)
    ]


def summary_of(planner: type[Any]) -> str:
    """The first line of the planner's docstring."""
    return (inspect.getdoc(planner) or "").partition("\n")[0]


def _is_planner(item: object) -> bool:
    return (
        inspect.isclass(item)
        and isinstance(getattr(item, "name", None), str)
        and callable(getattr(item, "plan", None))
    )


def _settings_class(planner: type[Any]) -> type[Any] | None:
    hint = typing.get_type_hints(planner.__init__).get("settings")
    choices = [hint, *typing.get_args(hint)]
    return next((c for c in choices if inspect.isclass(c) and dataclasses.is_dataclass(c)), None)


def _fields(settings_class: type[Any] | None) -> set[str]:
    if settings_class is None:
        return set()
    return {field.name for field in dataclasses.fields(settings_class)}


def _not_supported(name: str, option: str, value: object, classes: Mapping[str, type[Any]]) -> str:
    able = [other for other, c in classes.items() if option in _fields(_settings_class(c))]
    flag = (
        "--"
        + _FLAGS.get(option, option.replace("_", "-"))
        + (f" {value}" if isinstance(value, str) else "")
    )
    remedy = f"use --planner {' or '.join(able)}" if able else "no planner has it; leave it out"
    return f"the planner {name!r} has no {flag}; {remedy}"
