"""What the gates of one query do in one batch, in the form that stands in Spark's offset log.

Plain data, no pyspark. A decision is the offset of the query's companion stream, so
Spark itself writes it durably before the batch runs, and a batch that is replayed finds
the very decision that it had. Fractions are whole millionths: what is logged is exactly
what is compared in the tasks.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.spark.gates.threshold import EVERYTHING, millionths
from headgate.spark.gates.window_drop import WindowMemory

__all__ = [
    "EVERYTHING",
    "UNREACHABLE",
    "GateDecision",
    "decision_in_offsets",
    "has_companion",
    "is_decision",
]

UNREACHABLE = "agent unreachable"
_FORMAT = 1
_LARGEST_SALT = 2**62


@dataclass(frozen=True, slots=True)
class GateDecision:
    """Thresholds in millionths by gate; a gate that is not named keeps everything.

    older_than: by gate, in microseconds since 1970: tuples that arrived before it fall.
    `windows` holds what gates that drop whole windows remember. It outlives failures: such a
    gate cannot be opened at once without cutting windows in two.
    levels: how far the policy of a gate is applied; 0 for a gate that is not named, and
        for every gate of an offset that was written before there were policies.
    now_micros: what time it is to OLDER_THAN, in microseconds since 1970; 0 if nobody asks.

    >>> GateDecision().changed_to({"orders": 0.25}).offset()
    {'headgate': 1, 'version': 1, 'salt': 1, 'keep': {'orders': 250000}, 'note': ''}
    """

    version: int = 0
    salt: int = 0
    keep: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    older_than: Mapping[str, int] = field(default_factory=dict)
    windows: Mapping[str, WindowMemory] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    now_micros: int = 0

    @property
    def sheds(self) -> bool:
        """True when it drops and can be opened at once."""
        falls = any(threshold < EVERYTHING for threshold in self.keep.values())
        return falls or bool(self.older_than) or bool(self.levels)

    def threshold(self, gate: str) -> int:
        """For a gate that drops whole windows, that of windows to come."""
        if gate in self.windows:
            return self.windows[gate].newest
        return self.keep.get(gate, EVERYTHING)

    def cut_off(self, gate: str) -> int:
        """Tuples of this gate that arrived before it fall; 0 where none does."""
        return self.older_than.get(gate, 0)

    def level(self, gate: str) -> int:
        return self.levels.get(gate, 0)

    def changed_to(
        self,
        keep: Mapping[str, float],
        note: str = "",
        older_than: Mapping[str, int] | None = None,
        windows: Mapping[str, WindowMemory] | None = None,
        levels: Mapping[str, int] | None = None,
        now_micros: int = 0,
    ) -> GateDecision:
        """The next decision; this very one if nothing would change.

        Without `windows` the memory of windows stays as it is.

        Gates that keep everything are left out, so two decisions that keep everything
        are equal whatever gates they were made for.
        """
        wanted = {gate: millionths(share) for gate, share in sorted(keep.items())}
        wanted = {gate: limit for gate, limit in wanted.items() if limit < EVERYTHING}
        cut_offs = dict(sorted((older_than or {}).items()))
        memories = dict(self.windows if windows is None else windows)
        applied = {gate: level for gate, level in sorted((levels or {}).items()) if level > 0}
        changed = GateDecision(
            self.version, self.salt, wanted, note, cut_offs, memories, applied, now_micros
        )
        if changed == self:
            return self
        version = self.version + 1
        return replace(changed, version=version, salt=version % _LARGEST_SALT)

    def opened(self, note: str) -> GateDecision:
        """Keep everything, and say why."""
        return self.changed_to({}, note)

    def offset(self) -> dict[str, Any]:
        offset: dict[str, Any] = {
            "headgate": _FORMAT,
            "version": self.version,
            "salt": self.salt,
            "keep": dict(self.keep),
            "note": self.note,
        }
        if self.older_than:
            offset["older_than"] = dict(self.older_than)
        if self.windows:
            offset["windows"] = {gate: memory.as_dict() for gate, memory in self.windows.items()}
        if self.levels:
            offset["levels"] = dict(self.levels)
        if self.now_micros:
            offset["now"] = self.now_micros
        return offset

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> GateDecision:
        """Read an offset; what cannot be read keeps everything (ValueError says what)."""
        if not is_decision(offset):
            raise ValueError(f"not an offset of Headgate: {str(offset)[:200]}")
        if offset["headgate"] != _FORMAT:
            raise ValueError(f"an offset of format {offset['headgate']!r}; this is {_FORMAT}")
        keep = {str(gate): int(limit) for gate, limit in offset.get("keep", {}).items()}
        older = {str(gate): int(cut) for gate, cut in offset.get("older_than", {}).items()}
        windows = {
            str(gate): WindowMemory.from_dict(memory)
            for gate, memory in offset.get("windows", {}).items()
        }
        levels = {str(gate): int(level) for gate, level in offset.get("levels", {}).items()}
        return cls(
            int(offset["version"]),
            int(offset["salt"]),
            keep,
            str(offset.get("note", "")),
            older,
            windows,
            levels,
            int(offset.get("now", 0)),
        )


def is_decision(offset: object) -> bool:
    return isinstance(offset, Mapping) and "headgate" in offset and "version" in offset


def decision_in_offsets(lines: Iterable[str]) -> GateDecision | None:
    """The decision among the lines of one file of Spark's offset log, if there is one.

    Where a companion and sources with gates stand side by side, they agree, but for an agent
    that could not be reached by one of them. The inline gates follow the companion, so its
    decision comes first; without one, the newest counts.
    """
    decisions = []
    for line in lines:
        if "headgate" not in line:
            continue
        try:
            data = json.loads(line)
            found = _find(data)
        except ValueError:
            continue
        if found is None:
            continue
        decisions.append(GateDecision.from_offset(found))
        if is_decision(data):
            return decisions[-1]
    return max(decisions, key=lambda decision: decision.version, default=None)


def has_companion(lines: Iterable[str]) -> bool:
    """True when one of the sources in a file of the offset log is a companion."""
    for line in lines:
        with contextlib.suppress(ValueError):
            if is_decision(json.loads(line)):
                return True
    return False


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
