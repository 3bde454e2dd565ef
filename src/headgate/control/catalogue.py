"""Every latency controller by the name a person types.

>>> controller = build_controller("paper", {"latency_target_seconds": 0.5})
>>> type(controller).__name__
'DisspController'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from headgate.control.baselines import (
    NoControl,
    NoControlSettings,
    StaticRateCap,
    StaticRateCapSettings,
    TailDrop,
    TailDropSettings,
)
from headgate.control.contract import LatencyController
from headgate.control.dissp import DisspController, DisspSettings
from headgate.control.model_based import ModelBasedController, ModelBasedSettings
from headgate.control.spark_pid import SparkPid, SparkPidSettings
from headgate.errors import UsageError

__all__ = ["LATENCY_CONTROLLERS", "ControllerKind", "build_controller"]


class ControllerKind(NamedTuple):
    """A controller and the settings it is built from."""

    controller: Callable[[Any], LatencyController]
    settings: type
    is_baseline: bool


LATENCY_CONTROLLERS: Mapping[str, ControllerKind] = MappingProxyType(
    {
        "model": ControllerKind(ModelBasedController, ModelBasedSettings, False),
        "none": ControllerKind(NoControl, NoControlSettings, True),
        "paper": ControllerKind(DisspController, DisspSettings, False),
        "rate-cap": ControllerKind(StaticRateCap, StaticRateCapSettings, True),
        "spark-pid": ControllerKind(SparkPid, SparkPidSettings, True),
        "tail-drop": ControllerKind(TailDrop, TailDropSettings, True),
    }
)


def build_controller(name: str, settings: Mapping[str, Any] | None = None) -> LatencyController:
    """A fresh controller. Unknown names and settings raise UsageError with what exists.

    Every kind takes a latency target; a baseline that looks at no latency ignores it.
    """
    kind = LATENCY_CONTROLLERS.get(name)
    if kind is None:
        raise UsageError(
            f"no controller {name!r}; expected one of {', '.join(LATENCY_CONTROLLERS)}"
        )
    given = dict(settings or {})
    known = set(getattr(kind.settings, "__dataclass_fields__", {}))
    if "latency_target_seconds" not in known:
        given.pop("latency_target_seconds", None)
    unknown = sorted(set(given) - known)
    if unknown:
        has = ", ".join(sorted(known)) or "none"
        raise UsageError(
            f"controller {name!r} has no setting {', '.join(unknown)}; its settings are {has}"
        )
    return kind.controller(kind.settings(**given))
