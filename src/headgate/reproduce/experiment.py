"""What an experiment is: a seeded run that gives raw rows, findings and a picture.

Each module in `headgate.reproduce.experiments` defines one or more `Experiment`s at
module level; they are found by looking, not by a list. An experiment never prints
and never writes: `headgate.reproduce.report` saves the raw rows first, then the
findings, then the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "Finding", "Outcome", "Progress", "Request"]

Cell = float | int | str | bool | None
Row = Mapping[str, Cell]


class Progress(Protocol):
    """Told how far the run is: `done` of `total` steps, and what is next."""

    def __call__(self, done: int, total: int, what: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asks for.

    quick:          a smaller run for tests; the shape must hold there too.
    data_directory: where the real traces are; None means synthetic profiles.
    """

    seed: int = 1
    quick: bool = False
    data_directory: Path | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One number of ours beside the paper's. `paper` is None where it gives none."""

    what: str
    ours: Cell
    paper: Cell = None
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """The raw rows (one table), the findings, and how to draw them on a figure."""

    rows: Sequence[Row]
    findings: Sequence[Finding]
    draw: Callable[[Figure], None]


@dataclass(frozen=True)
class Experiment:
    """`name` is what `headgate reproduce NAME` takes; `source` names paper and item."""

    name: str
    title: str
    source: str
    run: Callable[[Request, Progress], Outcome]
    simulated: bool = False
    on_spark: bool = False
