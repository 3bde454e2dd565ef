"""Redistribution of capacity between classes (DILoS): who lends, who borrows?

The 2011 paper, section IV-C. Each class has an original portion of the node and a
current one, and reports its usage u = load / capacity. Every few cycles

    demand_i = (u_i - 1) p_i                  if u_i > 1, else 0
    supply_i = (1 - u_i) p_i - 0.05 p0_i      if that is above 0, else 0

(the condition of demand as in `papers/README.md`), and the portions move so that

1. a class's demand is met, or it has at least its original portion;
2. demand of a higher priority is met from the supply before demand of a lower one;
3. what is left of the supply goes back to classes below their original portion,
   highest priority first;
4. the sum of the portions does not change.

The reserve of 5 % of the original portion stays with the lender.

Beyond the paper:

- *Recall.* Borrowed capacity counts as supply for every class of higher priority than the
  borrower. By the letter of criterion 2 only the supply of this moment does; then a class
  that borrowed once keeps it while a higher one, at its original portion, must shed.
- *Guaranteed minimum.* A class with `keep_at_least` g gets at least g times what it
  asks for, before priorities count. It is taken from the supply, then from borrowed
  capacity, then from other classes down to their own guarantee, lowest priority first.
  If the guarantees do not fit together each gets the same share of its guarantee and
  `guarantees_collide` is True.
- *No starvation.* No portion ever falls below the reserve (5 % of the original), not
  even for a guarantee.
- *Shared operators.* The usage is reported from charged loads: see `load`.

Pure function. Cost: O(classes log classes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.errors import UsageError

__all__ = ["ClassReport", "Redistribution", "demand_portion", "redistribute", "supply_portion"]

_RESERVE = 0.05
_DUST = 1e-12


@dataclass(frozen=True, slots=True)
class ClassReport:
    """What one class reports before a redistribution.

    query_class:      its name.
    priority:         its original priority; ties are broken by name.
    usage:            load / capacity of the class, mean since the last redistribution.
    portion:          current share of the node, 0 to 1.
    original_portion: the share its priority gives it, 0 to 1.
    keep_at_least:    guaranteed share of its data, 0 to 1.
    """

    query_class: str
    priority: float
    usage: float
    portion: float
    original_portion: float
    keep_at_least: float = 0.0

    def __post_init__(self) -> None:
        if not (self.portion > 0 and self.original_portion > 0):
            raise UsageError(f"class {self.query_class!r}: portions must be above 0")
        if not (math.isfinite(self.usage) and self.usage >= 0):
            raise UsageError(
                f"class {self.query_class!r}: usage must be at least 0, got {self.usage!r}"
            )
        if not 0.0 <= self.keep_at_least <= 1.0:
            raise UsageError(
                f"class {self.query_class!r}: keep_at_least must be from 0 to 1, "
                f"got {self.keep_at_least!r}"
            )


@dataclass(frozen=True, slots=True)
class Redistribution:
    """The new portions, and the factor by which each headroom changes (equation 2)."""

    portions: Mapping[str, float]
    headroom_factors: Mapping[str, float]
    guarantees_collide: bool = False

    def moved(self) -> bool:
        return any(abs(f - 1.0) > 1e-9 for f in self.headroom_factors.values())


def demand_portion(report: ClassReport) -> float:
    """The share of the node that the class lacks to process all of its load."""
    return max(0.0, report.usage - 1.0) * report.portion


def supply_portion(report: ClassReport) -> float:
    """The share of the node that the class can lend and keep its reserve."""
    spare = (1.0 - report.usage) * report.portion - _RESERVE * report.original_portion
    return max(0.0, spare)


def redistribute(reports: Sequence[ClassReport]) -> Redistribution:
    """Move capacity from classes that do not need it to classes that do.

    >>> result = redistribute([
    ...     ClassReport("gold", 6, usage=0.5, portion=0.6, original_portion=0.6),
    ...     ClassReport("iron", 1, usage=2.0, portion=0.4, original_portion=0.4),
    ... ])
    >>> {c: round(p, 2) for c, p in result.portions.items()}   # gold lends 0.27
    {'gold': 0.33, 'iron': 0.67}
    """
    ranked = sorted(reports, key=lambda r: (-r.priority, r.query_class))
    portions = {r.query_class: r.portion for r in ranked}
    if len(portions) != len(ranked):
        raise UsageError("every class may report once")
    demands = {r.query_class: demand_portion(r) for r in ranked}
    pool = 0.0
    for r in ranked:
        supply = supply_portion(r)
        portions[r.query_class] -= supply
        pool += supply
    for r in ranked:  # criterion 2
        grant = min(demands[r.query_class], pool)
        portions[r.query_class] += grant
        demands[r.query_class] -= grant
        pool -= grant
    _take_back(ranked, portions, demands)  # criterion 1
    for r in ranked:  # criterion 3
        grant = min(pool, max(0.0, r.original_portion - portions[r.query_class]))
        portions[r.query_class] += grant
        pool -= grant
    if pool > _DUST:  # only if the portions did not sum to the original ones
        portions[ranked[0].query_class] += pool
    collide = _guarantee(ranked, portions)
    return Redistribution(
        {r.query_class: portions[r.query_class] for r in reports},
        {r.query_class: portions[r.query_class] / r.portion for r in reports},
        collide,
    )


def _take_back(
    ranked: Sequence[ClassReport], portions: dict[str, float], demands: dict[str, float]
) -> None:
    """A class that lacks capacity gets it from borrowers, those of the lowest priority first.

    From any borrower up to its original portion; beyond that from borrowers of lower
    priority only.
    """
    for rank, r in enumerate(ranked):
        name = r.query_class
        for place in range(len(ranked) - 1, -1, -1):
            borrower = ranked[place]
            owed = demands[name]
            if place < rank:
                owed = min(owed, max(0.0, r.original_portion - portions[name]))
            borrowed = max(0.0, portions[borrower.query_class] - borrower.original_portion)
            if place == rank or owed <= _DUST or borrowed <= 0.0:
                continue
            taken = min(owed, borrowed)
            portions[borrower.query_class] -= taken
            portions[name] += taken
            demands[name] -= taken


def _guarantee(ranked: Sequence[ClassReport], portions: dict[str, float]) -> bool:
    """Lift every class to its guaranteed minimum; True when they do not fit together."""
    reserves = {
        r.query_class: min(_RESERVE * r.original_portion, portions[r.query_class]) for r in ranked
    }
    wanted = {r.query_class: r.keep_at_least * r.usage * r.portion for r in ranked}
    total, least = sum(portions.values()), sum(reserves.values())
    above = sum(max(0.0, wanted[c] - reserves[c]) for c in reserves)
    collide = above > total - least + 1e-9
    scale = (total - least) / above if collide else 1.0
    floors = {c: reserves[c] + scale * max(0.0, wanted[c] - reserves[c]) for c in reserves}
    for r in ranked:
        missing = floors[r.query_class] - portions[r.query_class]
        for borrowed_only in (True, False):
            for giver in reversed(ranked):
                if missing <= _DUST:
                    break
                name = giver.query_class
                bottom = floors[name]
                if borrowed_only:
                    bottom = max(bottom, giver.original_portion)
                taken = min(missing, max(0.0, portions[name] - bottom))
                portions[name] -= taken
                portions[r.query_class] += taken
                missing -= taken
    return collide
