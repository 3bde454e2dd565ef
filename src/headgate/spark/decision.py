"""What the gates of one query do in one batch, in the form that stands in Spark's offset log.

Plain data, no pyspark. A decision is the offset of the query's companion stream, so
Spark itself writes it durably before the batch runs, and a batch that is replayed finds
the very decision that it had. Fractions are whole millionths: what is logged is exactly
what is compared in the tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.spark.threshold import EVERYTHING, millionths
from headgate.spark.window_drop import WindowMemory

__all__ = ["EVERYTHING", "UNREACHABLE", "GateDecision", "decision_in_offsets", "is_decision"]

UNREACHABLE = "agent unreachable"
_FORMAT = 1
_LARGEST_SALT = 2**62


@dataclass(frozen=True, slots=True)
class GateDecision:
    """Thresholds in millionths by gate; a gate that is not named keeps everything.

    `windows` holds what gates that drop whole windows remember. It outlives failures: such a
    gate cannot be opened at once without cutting windows in two.

    >>> GateDecision().changed_to({"orders": 0.25}).offset()
    {'headgate': 1, 'version': 1, 'salt': 1, 'keep': {'orders': 250000}, 'note': ''}
    """

    version: int = 0
    salt: int = 0
    keep: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    windows: Mapping[str, WindowMemory] = field(default_factory=dict)

    @property
    def sheds(self) -> bool:
        """True when it drops and can be opened at once."""
        return any(threshold < EVERYTHING for threshold in self.keep.values())

    def threshold(self, gate: str) -> int:
        """For a gate that drops whole windows, that of windows to come."""
        if gate in self.windows:
            return self.windows[gate].newest
        return self.keep.get(gate, EVERYTHING)

    def changed_to(
        self,
        keep: Mapping[str, float],
        note: str = "",
        windows: Mapping[str, WindowMemory] | None = None,
    ) -> GateDecision:
        """The next decision; this very one if nothing would change.

        Without `windows` the memory of windows stays as it is.

        Gates that keep everything are left out, so two decisions that keep everything
        are equal whatever gates they were made for.
        """
        wanted = {gate: millionths(share) for gate, share in sorted(keep.items())}
        wanted = {gate: limit for gate, limit in wanted.items() if limit < EVERYTHING}
        memories = self.windows if windows is None else windows
        if wanted == dict(self.keep) and note == self.note and memories == self.windows:
            return self
        version = self.version + 1
        return GateDecision(version, version % _LARGEST_SALT, wanted, note, dict(memories))

    def opened(self, note: str) -> GateDecision:
        """Keep everything, and say why."""
        return self.changed_to({}, note)

    def offset(self) -> dict[str, Any]:
        plain = {
            "headgate": _FORMAT,
            "version": self.version,
            "salt": self.salt,
            "keep": dict(self.keep),
            "note": self.note,
        }
        if self.windows:
            plain["windows"] = {gate: memory.as_dict() for gate, memory in self.windows.items()}
        return plain

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> GateDecision:
        """Read an offset; what cannot be read keeps everything (ValueError says what)."""
        if not is_decision(offset):
            raise ValueError(f"not an offset of Headgate: {str(offset)[:200]}")
        if offset["headgate"] != _FORMAT:
            raise ValueError(f"an offset of format {offset['headgate']!r}; this is {_FORMAT}")
        keep = {str(gate): int(limit) for gate, limit in offset.get("keep", {}).items()}
        windows = {
            str(gate): WindowMemory.from_dict(memory)
            for gate, memory in offset.get("windows", {}).items()
        }
        note = str(offset.get("note", ""))
        return cls(int(offset["version"]), int(offset["salt"]), keep, note, windows)


def is_decision(offset: object) -> bool:
    return isinstance(offset, Mapping) and "headgate" in offset and "version" in offset


def decision_in_offsets(lines: Iterable[str]) -> GateDecision | None:
    """The decision among the lines of one file of Spark's offset log, if there is one."""
    for line in lines:
        if "headgate" not in line:
            continue
        try:
            found = _find(json.loads(line))
        except ValueError:
            continue
        if found is not None:
            return GateDecision.from_offset(found)
    return None


def _find(data: Any) -> Mapping[str, Any] | None:
    if is_decision(data):
        return data  # type: ignore[no-any-return]
    if isinstance(data, str) and "headgate" in data:
        try:
            return _find(json.loads(data))
        except ValueError:
            return None
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    for value in values:
        found = _find(value)
        if found is not None:
            return found
    return None
