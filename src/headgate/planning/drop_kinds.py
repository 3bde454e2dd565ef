"""Which tuples to drop at each drop location, so that the answers behind it stay right.

How much to drop is the planner's business. This says of what kind the drop should be, from the
first operators behind the location that hold tuples together:

join       by its key: the same keys stay on both sides, so a join at keep fraction x keeps the
           share x of its results. Dropped at random, it would keep x squared.
aggregate  by its window: whole windows go, so what comes out is a subset of the true answer.
           Dropped at random, every number would be wrong.
neither    at random.

Where several such operators lie behind one location, on different branches: one key if the
joins have columns in common; one window if all windows follow each other and the longest is a
multiple of the others. Else the location is *mixed*: no kind of drop there is right for all, so it
falls to random, and `why` says what is wrong then. The exact planner drops at a mixed location only
where it has to: behind it, on the branches, each drop is of the right kind.

Not looked at: what lies behind the first join or aggregate of a branch. An aggregate behind a
join sees the kept keys only; its groups are right if it groups by the key. Column names are
those at the join; an operator in between that renames them is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headgate.network import Network, Operator, OperatorKind

__all__ = ["Drop", "DropKind", "drops_of"]


_BECAUSE_OF = " ("
_SQUARED = "joins there keep x squared of their results at share x"


class DropKind(StrEnum):
    RANDOM = "random"
    KEY = "key"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Drop:
    """One kind of drop. `why` names the operators that ask for it.

    mixed: at random only because what stands behind asks for different kinds, see `conflict`.

    >>> print(Drop(DropKind.WINDOW, window_seconds=60.0, slide_seconds=10.0))
    window 60s/10s
    """

    kind: DropKind = DropKind.RANDOM
    key: tuple[str, ...] = ()
    window_seconds: float | None = None
    slide_seconds: float | None = None
    why: str = ""
    mixed: bool = False

    @property
    def conflict(self) -> str:
        """What a drop at random does to the answers behind a mixed location; else nothing."""
        return self.why.partition(_BECAUSE_OF)[0] if self.mixed else ""

    def __str__(self) -> str:
        if self.kind is DropKind.KEY:
            return "key " + ", ".join(self.key)
        if self.window_seconds is None:
            return str(self.kind)
        slide = "" if self.slide_seconds is None else f"/{self.slide_seconds:g}s"
        return f"window {self.window_seconds:g}s{slide}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        given = {
            "key": list(self.key) or None,
            "window_seconds": self.window_seconds,
            "slide_seconds": self.slide_seconds,
            "why": self.why or None,
            "mixed": self.mixed or None,
        }
        return {"kind": str(self.kind), **{k: v for k, v in given.items() if v is not None}}


def drops_of(network: Network) -> Mapping[str, Drop]:
    """The kind of drop for each drop location, by the name of its arc."""
    holders: dict[str, dict[str, Operator]] = {query.name: {} for query in network.queries}
    for operator in reversed(network.operators_in_order):
        if operator.kind in (OperatorKind.JOIN, OperatorKind.AGGREGATE):
            holders[operator.name] = {operator.name: operator}
        else:
            behind = (holders[arc.target] for arc in network.arcs_from[operator.name])
            holders[operator.name] = {name: o for found in behind for name, o in found.items()}
    return {
        arc.name: _drop_for(tuple(holders[arc.target].values())) for arc in network.drop_locations
    }


def _drop_for(operators: tuple[Operator, ...]) -> Drop:
    wanted = [_wanted_by(operator) for operator in operators]
    if not wanted:
        return Drop()
    why = "; ".join(dict.fromkeys(drop.why for drop in wanted))
    kinds = {drop.kind for drop in wanted}
    if kinds == {DropKind.KEY}:
        common = _in_common(drop.key for drop in wanted)
        if common:
            return Drop(DropKind.KEY, key=common, why=why)
    if kinds == {DropKind.WINDOW}:
        window = _covering(wanted)
        if window is not None:
            return Drop(DropKind.WINDOW, (), window.window_seconds, window.slide_seconds, why)
    conflict = _conflict(kinds)
    return Drop(why=f"{conflict}{_BECAUSE_OF}{why})", mixed=True) if conflict else Drop(why=why)


def _conflict(kinds: set[DropKind]) -> str:
    """What is wrong with a drop at random in front of these; nothing if they know no better."""
    if DropKind.WINDOW not in kinds:
        return "" if DropKind.KEY not in kinds else f"{_behind(kinds, 'joins')}: {_SQUARED}"
    return f"{_behind(kinds, 'windows')}: sums there are wrong" + (
        f", and {_SQUARED}" if DropKind.KEY in kinds else ""
    )


def _behind(kinds: set[DropKind], what: str) -> str:
    if {DropKind.KEY, DropKind.WINDOW} <= kinds:
        return "behind it stand window and key drops"
    if DropKind.RANDOM in kinds:
        return f"behind it stand {what} and others that are not described"
    return f"behind it stand {what} that have nothing in common"


def _wanted_by(operator: Operator) -> Drop:
    name = f"the {operator.kind} {operator.name}"
    if operator.kind is OperatorKind.JOIN:
        if operator.key is None:
            return Drop(why=f"{name} has no key in the description")
        why = f"{name} pairs by {', '.join(operator.key)}"
        return Drop(DropKind.KEY, key=operator.key, why=why)
    if operator.window_seconds is None:
        return Drop(why=f"{name} has no window in the description")
    slide = operator.slide_seconds
    if slide == operator.window_seconds:
        slide = None
    drop = Drop(DropKind.WINDOW, (), operator.window_seconds, slide)
    return Drop(DropKind.WINDOW, (), operator.window_seconds, slide, f"{name} has {drop}")


def _in_common(keys: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Columns that are in every key, in the order of the first."""
    first, *others = keys
    return tuple(name for name in first if all(name in key for key in others))


def _covering(drops: list[Drop]) -> Drop | None:
    """The window that all others fit into without being cut."""
    sizes = {(drop.window_seconds, drop.slide_seconds) for drop in drops}
    if len(sizes) == 1:
        return drops[0]
    if any(slide is not None for _, slide in sizes):
        return None
    longest = max(drops, key=lambda drop: drop.window_seconds or 0.0)
    whole = longest.window_seconds or 0.0
    ratios = [whole / (size or 1.0) for size, _ in sizes]
    return longest if all(abs(r - round(r)) < 1e-9 for r in ratios) else None
