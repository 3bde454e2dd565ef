"""Which rows a gate drops: at random, by key, or by window. Plain data, no pyspark.

The choice of a gate travels with the plan, as metadata of one column, so that it is known
where a query is started. Key gates of one query with the same names of key columns form a
group; all gates of a group have one threshold in a batch, the lowest. The hash of a key
does not depend on gate, batch or query, so the keys that are kept at a lower threshold are
among those that are kept at a higher one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.errors import UsageError
from headgate.spark.gates.window_drop import WindowShape

__all__ = ["AT_RANDOM", "RowChoice", "check_keys", "lowest_of_groups"]


@dataclass(frozen=True, slots=True)
class RowChoice:
    """At random if neither a key nor a window is given.

    key:       names of the key's columns; they name the group.
    key_types: what the columns are hashed as.
    window:    shape of the windows that go as a whole.
    """

    key: tuple[str, ...] = ()
    key_types: tuple[str, ...] = ()
    window: WindowShape | None = None

    def as_dict(self) -> dict[str, str]:
        return {"headgate": json.dumps([self.key, self.key_types, _list(self.window)])}

    @classmethod
    def from_json(cls, text: str) -> RowChoice:
        """Read the metadata of a column; without any the choice is at random."""
        data = json.loads(text or "{}").get("headgate")
        if data is None:
            return AT_RANDOM
        key, types, window = json.loads(data)
        return cls(tuple(key), tuple(types), None if window is None else WindowShape(*window))


AT_RANDOM = RowChoice()


def check_keys(choices: Mapping[str, RowChoice]) -> None:
    """UsageError when gates of one group hash their keys as different types."""
    for gates in _groups(choices):
        first = gates[0]
        for gate in gates[1:]:
            if choices[gate].key_types != choices[first].key_types:
                here, there = (", ".join(choices[g].key_types) for g in (first, gate))
                name = ", ".join(choices[gate].key)
                raise UsageError(
                    f"gates {first!r} and {gate!r} drop by the same key ({name}), but it is "
                    f"{here} in one and {there} in the other: equal keys would not fall "
                    "together. Cast the columns to one type before the gates"
                )


def lowest_of_groups(
    keep: Mapping[str, float], why: Mapping[str, str], choices: Mapping[str, RowChoice]
) -> tuple[dict[str, float], dict[str, str]]:
    """Shares and reasons with every group at the lowest share of its gates."""
    shares, reasons = dict(keep), dict(why)
    for gates in _groups(choices):
        lowest = min(gates, key=lambda gate: keep.get(gate, 1.0))
        if keep.get(lowest, 1.0) < 1.0:
            for gate in gates:
                shares[gate], reasons[gate] = keep[lowest], why.get(lowest, "")
    return shares, reasons


def _groups(choices: Mapping[str, RowChoice]) -> Iterable[list[str]]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for gate, choice in choices.items():
        if choice.key:
            groups.setdefault(choice.key, []).append(gate)
    return groups.values()


def _list(window: WindowShape | None) -> list[int] | None:
    return None if window is None else window.as_list()
