"""Pictures: one look for all of them, drawn without a display and without global state.

Matplotlib is an optional part of the installation; `new_figure` says how to get it.
The same drawing gives the same bytes: no date is written into a picture.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "new_figure", "require_matplotlib", "save_png"]

COLOURS = (  # Okabe and Ito: told apart by colour-blind readers as well
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8B6F00",
    "#555555",
)


def require_matplotlib() -> None:
    """Raise UsageError with the way out if pictures cannot be drawn here."""
    if find_spec("matplotlib") is None:
        raise UsageError("pictures need matplotlib: pip install 'headgate[plot]'")


def new_figure(width_inches: float = 8.0, height_inches: float = 5.0) -> Figure:
    """An empty figure whose parts make room for each other."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def save_png(figure: Figure, path: Path, dots_per_inch: int = 120) -> None:
    """Write the picture; directories are made as needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dots_per_inch, format="png", metadata={"Software": "headgate"})
