"""What does it cost to look at a tuple, and to process one?

Estimates three numbers from what each period offered, processed and was busy:

    busy_seconds = fixed + looking * offered + processing * processed

Recursive least squares with forgetting, kept as weighted sums (the information
form), with six additions that a plain one needs in practice:

- each row counts by its relative error, so a small batch teaches as much as a large one;
- each update stays close to the last estimate, relative to each cost, in directions
  that the data does not show (while everything is kept, looking and processing cannot
  be told apart), so nothing drifts or blows up in a long steady state;
- a row that was predicted within 1 % teaches nothing: a saturated server is busy for
  the same time in every period, and fitting a constant drifts towards zero costs;
- costs are never negative;
- one period cannot tell a fixed cost from that of tuples, and a first one of a few tuples on
  a cold machine is nearly all fixed. It is read as tuples, until a period of another size
  contradicts it: then the costs are drawn through both, and the first is no longer believed
  if the larger one was also the shorter;
- after two surprises in the same direction the machine is taken to have become slower
  or faster: all costs, and what was learnt before, are scaled by the same factor, and
  the past counts less for a while in case only one cost has changed. So a cost that
  triples is believed at the second batch, and one surprise alone (a pause of the
  garbage collector) teaches nothing.

While everything is kept, looking is taken to be `looking_share_at_start` of a tuple's
time: in the first row, and slowly again later.

Guarantees: finite, at least 0, memory constant. Not guaranteed: that the split between
the three numbers is right while it does not matter; their sum at the present working
point is. Cost: about 5 microseconds an update.

>>> estimator = CostEstimator(CostSettings())
>>> for offered, kept in ((100, 100), (200, 100), (300, 50), (150, 150), (400, 80)) * 4:
...     estimator.observe(offered, kept, 0.1 + 0.001 * offered + 0.01 * kept)
>>> round(estimator.costs.busy_seconds(100, 100), 1)
1.2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from headgate.errors import UsageError

_Row = tuple[float, float, float]
_Nine = tuple[float, float, float, float, float, float, float, float, float]
"""A symmetric matrix of three lines, its upper half line by line, and a right side."""

__all__ = ["CostEstimator", "CostSettings", "TupleCosts"]

_STAY_CLOSE = 0.05
"""Weight of the last estimate against the data, in relative changes of each cost."""
_SMALLEST_SHARE = 0.02
"""A cost of zero may come back: it is treated as this share of the period's time."""
_FIXED_SHARE = 0.2
"""The same for the fixed cost, which every period shows."""
_BELIEVE_THE_PAST = 0.2
"""Weight that is left to what was learnt before a change of speed."""
_ALL_KEPT = 0.05
_TIE = 0.2
"""While all is kept, looking is drawn to its usual share: how strongly, for each row."""
_CLOSE_ENOUGH = 0.01
"""A row that is predicted this well teaches nothing."""
_SURPRISE = 0.25
"""A row is a surprise when its logarithm is this far from the prediction's, and outside the
usual noise."""
_NOISE_MEMORY = 0.9
_REMEMBER_DOUBT = 10
"""A surprise is believed if one in the same direction came in the last so many rows."""
_CALM_AGAIN = 10
"""Rows with the short memory after a change of speed."""
_SHORTEST = 1e-9
"""Times below a nanosecond are not times."""
_BELIEVE_AT_MOST = 10.0
"""A row counts as at most this many times its prediction: a clock that jumped is no cost."""
_OTHER_SIZE = 2.0
"""Periods whose tuples differ by this factor tell a fixed cost from that of tuples."""
_FAR_LARGER = 4.0
"""Times as many tuples as in periods that were all of one size: what they cost is not known while
nothing is known to be fixed."""
_TUPLES_AT_LEAST = 0.5
"""Of a period that shows its fixed cost for the first time, the share that is left to tuples:
too little would let in a crowd that takes far longer than the target."""
_NO_ANSWER = (math.nan, math.nan, math.nan)


class TupleCosts(NamedTuple):
    """Server seconds: for a period, for looking at a tuple, for processing a kept one."""

    fixed_seconds: float
    looking_seconds: float
    processing_seconds: float

    def busy_seconds(self, offered_tuples: float, processed_tuples: float) -> float:
        """Predicted server time of a period."""
        return (
            self.fixed_seconds
            + self.looking_seconds * offered_tuples
            + self.processing_seconds * processed_tuples
        )


@dataclass(frozen=True, slots=True)
class CostSettings:
    """How the estimator learns.

    memory:                 weight of the past at each update, below 1 (0.95: about 20 periods).
    memory_after_surprise:  the same for some periods after a change of speed.
    fixed_cost:             estimate a fixed cost per period. Off for an input buffer: there a
                            busy server is busy for exactly the period, which a fixed cost
                            explains perfectly and wrongly.
    looking_share_at_start: share of looking in a tuple's time while all tuples are kept.
    """

    memory: float = 0.95
    memory_after_surprise: float = 0.8
    fixed_cost: bool = True
    looking_share_at_start: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.memory_after_surprise <= self.memory < 1.0:
            raise UsageError(
                "expected 0 < memory_after_surprise <= memory < 1, got "
                f"{self.memory_after_surprise!r} and {self.memory!r}"
            )
        if not 0.0 <= self.looking_share_at_start < 1.0:
            raise UsageError(
                f"looking_share_at_start must be in [0, 1), got {self.looking_share_at_start!r}"
            )


class _Verdict(Enum):
    KNOWN = "known"
    USUAL = "usual"
    DOUBTED = "doubted"
    CONFIRMED = "confirmed"


_KNOWN, _USUAL, _DOUBTED, _CONFIRMED = _Verdict


class CostEstimator:
    """Keeps `costs` up to date; None until the first period with work in it."""

    def __init__(self, settings: CostSettings) -> None:
        self.settings = settings
        self.costs: TupleCosts | None = None
        self._fixed = float(settings.fixed_cost)
        self._sums: _Nine = (0.0,) * 9
        self._noise = 0.05
        self._doubted_error = 0.0
        self._doubted_known = 1.0
        self._rows_since_doubt = 0
        self._restless_rows = 0
        self._unsplit: tuple[_Row, float] | None = None  # a period, while all are of one size

    def reaches(self, offered_tuples: int) -> bool:
        """Do the costs say something about a period of so many tuples?

        Not if all periods were of one size and far smaller, so that none of their time is
        known to be fixed.
        """
        if self._unsplit is None or self.costs is None or self.costs.fixed_seconds > 0.0:
            return self.costs is not None
        return offered_tuples <= _FAR_LARGER * self._unsplit[0][1]

    def observe(self, offered_tuples: int, processed_tuples: int, busy_seconds: float) -> None:
        """Learn from one period. Empty periods and times of zero teach nothing."""
        busy_seconds = float(busy_seconds)
        if not _SHORTEST <= busy_seconds < math.inf or offered_tuples + processed_tuples <= 0:
            return
        row = (self._fixed, float(offered_tuples), float(processed_tuples))
        if self.costs is None:
            self.costs = self._first(offered_tuples, processed_tuples, busy_seconds)
            self._unsplit = (row, busy_seconds) if self._fixed else None
        if self._unsplit is not None and self._split(*self._unsplit, row, busy_seconds):
            return
        predicted = self.costs.busy_seconds(offered_tuples, processed_tuples)
        if predicted < _SHORTEST:  # a kind of period that was never seen
            predicted = busy = busy_seconds
        else:
            ratio = busy_seconds / predicted
            if not 1.0 / _BELIEVE_AT_MOST <= ratio <= _BELIEVE_AT_MOST:
                ratio = _BELIEVE_AT_MOST if ratio > 1.0 else 1.0 / _BELIEVE_AT_MOST
            busy = predicted * ratio
            verdict, speed = self._judge(math.log(ratio), row, predicted)
            if verdict is _KNOWN or verdict is _DOUBTED:
                return
            if verdict is _CONFIRMED:
                self._scale(speed)
                predicted *= speed
        self._add(row, busy, 1.0 / (predicted * predicted))
        self.costs = self._solve(self.costs, row, predicted)

    def _first(self, offered: int, processed: int, busy_seconds: float) -> TupleCosts:
        share = self.settings.looking_share_at_start
        if processed == 0:
            return TupleCosts(0.0, busy_seconds / offered, 0.0)
        if offered == 0:
            return TupleCosts(0.0, 0.0, busy_seconds / processed)
        return TupleCosts(
            0.0, share * busy_seconds / offered, (1.0 - share) * busy_seconds / processed
        )

    def _split(self, last: _Row, last_seconds: float, row: _Row, busy_seconds: float) -> bool:
        """Tell the fixed cost from that of tuples, at the first period of another size.

        False where this period says nothing about it: it is of the same size as the last one,
        or took as long as predicted, or the larger of the two has the dearer tuples.
        """
        assert self.costs is not None
        fixed, looking, processing = self.costs
        last_size = looking * last[1] + processing * last[2]
        size = looking * row[1] + processing * row[2]
        smaller, larger = (last_size, last_seconds, last), (size, busy_seconds, row)
        if size < last_size:
            smaller, larger = larger, smaller
        (small, small_seconds, _), (large, large_seconds, _) = smaller, larger
        if large < _OTHER_SIZE * small or small <= 0.0:
            self._unsplit = row, busy_seconds  # the machine may be warmer by now
            return False
        self._unsplit = None
        is_as_predicted = abs(math.log(busy_seconds / (fixed + size))) <= _SURPRISE
        if is_as_predicted or large_seconds * small >= small_seconds * large:
            return False
        through_both = (large_seconds - small_seconds) / (large - small)
        factor = max(through_both, _TUPLES_AT_LEAST * large_seconds / large)
        self._sums = (0.0,) * 9
        for _, seconds, seen in (smaller, larger) if factor == through_both else (larger,):
            self._add(seen, seconds, 1.0 / (seconds * seconds))
        self.costs = TupleCosts(
            large_seconds - factor * large, factor * looking, factor * processing
        )
        return True

    def _judge(self, error: float, row: _Row, predicted_seconds: float) -> tuple[_Verdict, float]:
        """What to make of a row; `error` is the logarithm of measured over predicted.

        A first surprise is doubted. If the next row agrees better with a machine of that
        other speed than with the old one, the speed has changed; the second number of the
        answer is by how much, from both rows, each counting by how well its kind of period
        is known. A surprise that comes back now and then is a kind of period that the
        costs do not describe yet, and is learnt like any other. An error in a kind that
        was hardly seen before (the first with shedding) is no surprise.
        """
        size = abs(error)
        noise = self._noise
        expected = 4.0 * noise if 4.0 * noise > _SURPRISE else _SURPRISE
        seen = size if size < _SURPRISE else _SURPRISE
        self._noise = noise + (1.0 - _NOISE_MEMORY) * (seen - noise)
        self._rows_since_doubt += 1
        since, doubted = self._rows_since_doubt, self._doubted_error
        if since == 1 and doubted * error > 0.0 and abs(error - doubted) < size:
            known = 1.0 / (1.0 + self._unknown(row, predicted_seconds))
            both = (doubted * self._doubted_known + error * known) / (self._doubted_known + known)
            return _CONFIRMED, math.exp(both)
        if size <= expected:
            return _KNOWN if size < _CLOSE_ENOUGH else _USUAL, 1.0
        unknown = self._unknown(row, predicted_seconds)
        if size <= expected * math.sqrt(1.0 + unknown):
            return _USUAL, 1.0
        self._rows_since_doubt = 0
        self._doubted_error, self._doubted_known = error, 1.0 / (1.0 + unknown)
        if since > _REMEMBER_DOUBT or doubted * error <= 0.0:
            return _DOUBTED, 1.0
        self._restless_rows = _CALM_AGAIN
        return _USUAL, 1.0

    def _scale(self, ratio: float) -> None:
        """All costs times `ratio`, and the sums as if they had always been so."""
        assert self.costs is not None
        self.costs = TupleCosts(
            ratio * self.costs.fixed_seconds,
            ratio * self.costs.looking_seconds,
            ratio * self.costs.processing_seconds,
        )
        past = _BELIEVE_THE_PAST
        squares = [past * value / (ratio * ratio) for value in self._sums[:6]]
        s00, s01, s02, s11, s12, s22 = squares
        p0, p1, p2 = (past * value / ratio for value in self._sums[6:])
        self._sums = (s00, s01, s02, s11, s12, s22, p0, p1, p2)
        self._restless_rows = _CALM_AGAIN

    def _add(self, row: _Row, busy_seconds: float, weight: float) -> None:
        memory = self.settings.memory
        if self._restless_rows > 0:
            self._restless_rows -= 1
            memory = self.settings.memory_after_surprise
        s00, s01, s02, s11, s12, s22, p0, p1, p2 = self._sums
        fixed, offered, processed = row
        weighed_fixed, weighed_offered = weight * fixed, weight * offered
        busy = weight * busy_seconds
        self._sums = (
            memory * s00 + weighed_fixed * fixed,
            memory * s01 + weighed_fixed * offered,
            memory * s02 + weighed_fixed * processed,
            memory * s11 + weighed_offered * offered,
            memory * s12 + weighed_offered * processed,
            memory * s22 + weight * processed * processed,
            memory * p0 + busy * fixed,
            memory * p1 + busy * offered,
            memory * p2 + busy * processed,
        )

    def _unknown(self, row: _Row, predicted_seconds: float) -> float:
        """How far a row lies outside what the data has shown; 1 is as far as the noise."""
        assert self.costs is not None
        free = (row[0] > 0.0, row[1] > 0.0, row[2] > 0.0)
        nothing = TupleCosts(0.0, 0.0, 0.0)
        equations = self._equations(free, self.costs, nothing, row, predicted_seconds)
        x, y, z = (value / predicted_seconds for value in row)
        answer = _eliminate(*equations[:6], x, y, z)
        unknown = x * answer[0] + y * answer[1] + z * answer[2]
        return unknown if 0.0 < unknown < math.inf else 0.0

    def _equations(
        self,
        free: tuple[bool, bool, bool],
        last: TupleCosts,
        held: TupleCosts,
        row: _Row,
        predicted_seconds: float,
    ) -> _Nine:
        """The equations for the `free` costs, near the last estimate; the others are `held`.

        The upper half of the matrix and the right side. A cost that is held has the
        equation "it is what it is", and its part of the others' equations is known.
        """
        s00, s01, s02, s11, s12, s22, p0, p1, p2 = self._sums
        fixed, offered, processed = row
        smallest = _SMALLEST_SHARE * predicted_seconds
        m00, m01, m02, m11, m12, m22 = s00, s01, s02, s11, s12, s22
        if free[0]:
            previous = last.fixed_seconds
            scale = _FIXED_SHARE * predicted_seconds / fixed
            if previous > scale:
                scale = previous
            pull = _STAY_CLOSE / (scale * scale)
            m00 += pull
            p0 += pull * previous
        if free[1]:
            previous = last.looking_seconds
            scale = smallest / offered
            if previous > scale:
                scale = previous
            pull = _STAY_CLOSE / (scale * scale)
            m11 += pull
            p1 += pull * previous
        if free[2]:
            previous = last.processing_seconds
            scale = smallest / processed
            if previous > scale:
                scale = previous
            pull = _STAY_CLOSE / (scale * scale)
            m22 += pull
            p2 += pull * previous
            if free[1] and abs(offered - processed) <= _ALL_KEPT * offered:
                share = self.settings.looking_share_at_start
                ratio, tie = share / (1.0 - share), _TIE * (offered / predicted_seconds) ** 2
                m11 += tie
                m22 += tie * ratio * ratio
                m12 -= tie * ratio
        if not free[0]:
            value = held.fixed_seconds
            p1, p2 = p1 - s01 * value, p2 - s02 * value
            m00, m01, m02, p0 = 1.0, 0.0, 0.0, value
        if not free[1]:
            value = held.looking_seconds
            p0, p2 = p0 - m01 * value, p2 - s12 * value
            m11, m01, m12, p1 = 1.0, 0.0, 0.0, value
        if not free[2]:
            value = held.processing_seconds
            p0, p1 = p0 - m02 * value, p1 - m12 * value
            m22, m02, m12, p2 = 1.0, 0.0, 0.0, value
        return m00, m01, m02, m11, m12, m22, p0, p1, p2

    def _solve(self, last: TupleCosts, row: _Row, predicted_seconds: float) -> TupleCosts:
        """Least squares near the last estimate, no cost below 0."""
        free, held = (row[0] > 0.0, row[1] > 0.0, row[2] > 0.0), last
        equations = self._equations(free, last, held, row, predicted_seconds)
        if last.fixed_seconds == 0.0 and free[0]:
            # A fixed cost of 0 usually stays 0: the two others with it at 0 are the answer if
            # the error would not shrink with a larger one. Half the work of asking first.
            _, b, c, d, e, f, p0, p1, p2 = equations
            determinant = d * f - e * e
            if determinant > 0.0:
                looking = (p1 * f - p2 * e) / determinant
                processing = (p2 * d - p1 * e) / determinant
                if looking >= 0.0 and processing >= 0.0 and b * looking + c * processing >= p0:
                    return TupleCosts(0.0, looking, processing)
        while True:
            fixed, looking, processing = _eliminate(*equations)
            if not math.isfinite(fixed + looking + processing):
                return last
            if fixed >= 0.0 and looking >= 0.0 and processing >= 0.0:
                return TupleCosts(fixed, looking, processing)
            a, b, c = held.fixed_seconds, held.looking_seconds, held.processing_seconds
            least = min(fixed * row[0], looking * row[1], processing * row[2])
            if free[0] and fixed * row[0] == least:
                free, held = (False, free[1], free[2]), TupleCosts(0.0, b, c)
                # The most usual case; the other equations stay as they are.
                equations = (1.0, 0.0, 0.0, *equations[3:6], 0.0, *equations[7:])
                continue
            if free[1] and looking * row[1] == least:
                free, held = (free[0], False, free[2]), TupleCosts(a, 0.0, c)
            else:
                free, held = (free[0], free[1], False), TupleCosts(a, b, 0.0)
            equations = self._equations(free, last, held, row, predicted_seconds)


def _eliminate(
    a: float,
    b: float,
    c: float,
    d: float,
    e: float,
    f: float,
    first: float,
    second: float,
    third: float,
) -> _Row:
    """Solve a symmetric positive definite system of three unknowns (Gauss, no pivoting needed).

    The upper half of the matrix is a b c, d e, f. Written out, because it is the dearest
    part of a decision. NaN where rounding has made the system singular; the caller keeps
    what it had.
    """
    if not a > 0.0:
        return _NO_ANSWER
    factor, other = b / a, c / a
    d -= factor * b
    if not d > 0.0:
        return _NO_ANSWER
    e -= factor * c
    second -= factor * first
    factor = e / d
    f -= other * c + factor * e
    if not f > 0.0:
        return _NO_ANSWER
    z = (third - other * first - factor * second) / f
    y = (second - e * z) / d
    return (first - (b * y + c * z)) / a, y, z
