"""What filters remember from batch to batch, on disk beside the ledger. No pyspark.

One file for each batch and gate, written and synced before the next batch is decided, so
that a batch that runs again after a crash finds the state that it had: that of the newest
batch before it. The last `_KEPT` files of a gate stay.

Guarantees: a file is there whole or not at all. Not guaranteed: the state of a batch
whose numbers were lost because the driver died between Spark's commit and its report;
filters then remember the batch before. After the number of partitions has changed (another
machine), the states are put together and given to every partition; after a second change
a value that is out of date can come back.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from headgate.spark.policies.policy_notes import read_text, write_text

__all__ = ["PolicyStates", "fit"]

_KEPT = 4
_LARGEST_FILE = 256 * 1024 * 1024


class PolicyStates:
    """The states of all gates of one query."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, gate: str, batch: int, states: dict[int, str]) -> None:
        """OSError when the disk refuses."""
        folder = self._folder(gate)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{batch}.json"
        hidden = folder / f".{batch}.tmp"
        with hidden.open("w", encoding="utf-8") as file:
            json.dump({str(place): text for place, text in states.items()}, file)
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(target)
        for number in self._batches(folder)[:-_KEPT]:
            (folder / f"{number}.json").unlink(missing_ok=True)

    def read(self, gate: str, before_batch: int) -> dict[int, str]:
        """The newest state before a batch; nothing if there is none. ValueError, OSError."""
        folder = self._folder(gate)
        earlier = [number for number in self._batches(folder) if number < before_batch]
        if not earlier:
            return {}
        path = folder / f"{earlier[-1]}.json"
        if path.stat().st_size > _LARGEST_FILE:
            raise ValueError(f"{path} is larger than any state should be")
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ValueError(f"{path} is no state of a policy")
        return {int(place): str(text) for place, text in data.items()}

    def _folder(self, gate: str) -> Path:
        return self.directory / hashlib.sha256(gate.encode()).hexdigest()[:16]

    @staticmethod
    def _batches(folder: Path) -> list[int]:
        return sorted(int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit())


def fit(states: dict[int, str], partitions: int) -> dict[int, str]:
    """States as they are, or all together for each partition where there were more or fewer."""
    if set(states) == set(range(partitions)):
        return states
    whole: dict[str, dict[str, object]] = {}
    for text in states.values():
        for name, content in (read_text(text) if text else {}).items():
            whole.setdefault(name, {}).update(content)
    return dict.fromkeys(range(partitions), write_text(whole))
