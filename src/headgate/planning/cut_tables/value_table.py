"""A node's own table: exact where it can be enumerated, with a proven bound where not.

Three ways, the first that applies is taken:

1. One constraint and no children: the thresholds of the drop locations give all
   rows (`cuts.single_price_table`). Exact for all rates.
2. No splits and no children: the corners of the price arrangement give all rows
   (`cuts.chain_table`). Exact for all rates.
3. Otherwise rows are added where the table is furthest from the truth: at the
   corners of the region below the rows (`corners.Corners`). When the truth meets
   the table at every corner, the table is exact for all rates inside the box; when
   a limit stops the search first, the largest difference left is a proven bound.

Beyond `max_dimensions` inputs the corners are too many to visit. Then rows are made
at a few chosen rates only, and the bound is infinite until a decision is taken:
a decision at given rates always knows its own gap (see `headgate.planning.cut_tables.dfit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from headgate.planning.cut_tables.corners import Corners
from headgate.planning.cut_tables.cuts import (
    CutTable,
    chain_table,
    count_chain_systems,
    single_price_table,
)
from headgate.planning.cut_tables.node_program import NodeProgram
from headgate.planning.flow_model import Floats

__all__ = ["TableSettings", "value_table"]


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Limits of the search for rows.

    max_rows, max_corners: where refinement stops with a proven bound.
    max_dimensions:        inputs beyond which corners are not visited at all.
    max_systems:           small linear systems that the arrangement may solve.
    tolerance:             a difference below this share of the largest score counts as none.
    """

    max_rows: int = 400
    max_corners: int = 4000
    max_dimensions: int = 7
    max_systems: int = 20_000
    tolerance: float = 1e-9


def value_table(
    program: NodeProgram, box: Floats, settings: TableSettings | None = None
) -> CutTable:
    """The table of `program` over its inputs; `box` is the largest rate of each."""
    settings = settings or TableSettings()
    part = program.part
    if not program.tables:
        if len(part.constraints) == 1:
            return single_price_table(part)
        if len(part.levels) == 1 and count_chain_systems(part) <= settings.max_systems:
            return chain_table(part)
    if len(program.inputs) <= settings.max_dimensions:
        return _refined(program, np.where(box > 0.0, box, 1.0), settings)
    return _probed(program, box)


def _refined(program: NodeProgram, box: Floats, settings: TableSettings) -> CutTable:
    """Add the row that is exact at the corner with the largest difference, and repeat."""
    top = program.row_at(box)[0]
    if top <= 0.0:
        return CutTable(program.inputs, np.zeros(1), np.zeros((1, len(box))))
    search = _Search(program, box, top)
    search.add_row_at(len(search.corners) - 1)  # the corner where every input is at its largest
    while len(search.rows) < settings.max_rows and len(search.corners) < settings.max_corners:
        worst = search.worst()
        if search.gaps[worst] <= settings.tolerance:
            return _table(program, search.rows, 0.0)
        search.add_row_at(worst)
    return _table(program, search.rows, max(0.0, float(np.max(search.gaps))) * top)


class _Search:
    """The rows found so far, the corners below them, and the difference at each corner.

    Rates are in shares of the box and scores in shares of `top`, the score at its far corner.
    """

    def __init__(self, program: NodeProgram, box: Floats, top: float) -> None:
        self.program, self.box, self.top = program, box, top
        self.corners = Corners(len(box))
        self.rows: list[tuple[float, Floats]] = []
        self.gaps = np.zeros(0)
        self._offers: list[tuple[float, Floats]] = []  # by corner: the row that is exact there
        self._look_at(np.arange(len(self.corners)))

    def worst(self) -> int:
        return int(np.argmax(self.gaps))

    def add_row_at(self, corner: int) -> None:
        """Take the row that is exact at this corner; a corner that stays is settled."""
        intercept, slopes = self._offers[corner]
        self.rows.append((intercept, slopes))
        self.gaps[corner] = -np.inf
        stays = self.corners.add(intercept / self.top, slopes * self.box / self.top)
        self.gaps = self.gaps[stays]
        self._offers = [self._offers[index] for index in np.flatnonzero(stays)]
        self._look_at(np.arange(len(self.gaps), len(self.corners)))

    def _look_at(self, fresh: NDArray[np.intp]) -> None:
        """Compare table and truth at new corners; corners on the floor cannot differ."""
        gaps = np.full(len(fresh), -np.inf)
        for index, corner in enumerate(fresh):
            point = self.corners.points[corner]
            if point[-1] <= 0.0:
                self._offers.append((0.0, np.zeros(len(self.box))))
                continue
            truth, intercept, slopes = self.program.row_at(point[:-1] * self.box)
            self._offers.append((intercept, slopes))
            gaps[index] = point[-1] - truth / self.top
        self.gaps = np.concatenate([self.gaps, gaps])


def _probed(program: NodeProgram, box: Floats) -> CutTable:
    """Rows at a spread of rates from idle to full, and with each input alone."""
    shares = (1.0, 0.5, 0.25, 0.1, 0.0)
    points = [share * box for share in shares]
    points += [np.where(np.arange(len(box)) == i, box, 0.0) for i in islice(range(len(box)), 64)]
    rows = [program.row_at(point)[1:] for point in points]
    return _table(program, rows, float("inf"))


def _table(program: NodeProgram, rows: list[tuple[float, Floats]], error_bound: float) -> CutTable:
    children = sum(table.error_bound for table in program.tables)
    intercepts = np.array([intercept for intercept, _ in rows])
    slopes = np.array([slopes for _, slopes in rows])
    return CutTable(program.inputs, intercepts, slopes, error_bound + children).pruned()
