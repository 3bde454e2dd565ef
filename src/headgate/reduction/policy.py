"""The one model of a policy, and the checks that every way of writing one goes through.

YAML, the paper's XML and Python all make a `PolicyDraft`; `check_draft` turns it into a
`Policy` or says everything that is wrong with it. Levels are numbered from 1, and level
n means the filters of levels 1 to n, one after the other (PACK, section 2).

Guarantees: a policy has at most `MAX_LEVELS` levels and every limit is checked before
the thing it limits is looked at, so a bad policy costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import PolicyError, Problem
from headgate.names import LONGEST_NAME, nearest
from headgate.network.yaml_fields import Path
from headgate.reduction.catalogue import digest_kinds, filter_kinds
from headgate.reduction.contract import Filter, Sense
from headgate.reduction.digest_contract import DigestKind
from headgate.reduction.parameters import parameters_of, shown
from headgate.reduction.summary import DigestPlan
from headgate.reduction.values import Kind

__all__ = [
    "MAX_CHAIN",
    "MAX_DIGESTS",
    "MAX_LEVELS",
    "DigestDraft",
    "FilterDraft",
    "Policy",
    "PolicyDraft",
    "build_policy",
    "check_draft",
    "problems_with",
]

MAX_LEVELS = 100
MAX_CHAIN = 20
MAX_DIGESTS = 20
MAX_ATTRIBUTES = 1000


@dataclass(frozen=True, slots=True)
class Policy:
    """What to drop first, what next, and what to say about it.

    levels:     a chain of filters for each level, the mildest level first.
    digests:    what is computed of dropped events; a count always is.
    attributes: the declared kinds, where the policy declares them.
    Made by a loader or a builder: what is made by hand is not checked.
    """

    name: str
    levels: tuple[tuple[Filter, ...], ...]
    digests: DigestPlan = field(default_factory=DigestPlan)
    attributes: Mapping[str, Kind] = field(default_factory=dict)
    identity: str | None = None

    def filters(self, level: int) -> Iterator[tuple[int, Filter]]:
        """The filters up to `level`, each with its own level."""
        for number, chain in enumerate(self.levels[:level], start=1):
            for filter_ in chain:
                yield number, filter_


@dataclass(frozen=True, slots=True)
class FilterDraft:
    """A filter as it was written; nothing is checked yet."""

    name: Any
    sense: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DigestDraft:
    name: Any
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """A policy as it was written. `attribute` to `identity` are what filters inherit."""

    name: str
    levels: Sequence[Sequence[FilterDraft]] = ()
    digests: Sequence[DigestDraft] = ()
    digest_group: Any = None
    attribute: Any = None
    group: Any = None
    time: Any = None
    identity: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


def build_policy(draft: PolicyDraft) -> Policy:
    """The policy; PolicyError with every problem."""
    policy, problems = check_draft(draft)
    if policy is None:
        raise PolicyError(problems)
    return policy


def check_draft(draft: PolicyDraft) -> tuple[Policy | None, list[Problem]]:
    """The policy, or None and every problem."""
    checker = _Checker(draft)
    policy = checker.policy()
    return (None if checker.problems else policy), checker.problems


def problems_with(policy: Policy, kinds: Mapping[str, frozenset[Kind]]) -> list[Problem]:
    """What does not fit between a policy and the attributes that the data has."""
    problems = []
    for path, name, accepted, what in _uses(policy):
        if name not in kinds:
            problems.append(Problem(path, f"no attribute {name!r}{nearest(name, kinds)}"))
        elif kinds[name] and not kinds[name] & accepted:
            problems.append(Problem(path, _wrong_kind(what, name, kinds[name], accepted)))
    return problems


def filter_path(chain_length: int, level: int, place: int) -> Path:
    """Where a filter stands: ("levels", 2), or ("levels", 2, 1) in a chain, from 1."""
    return ("levels", level) if chain_length == 1 else ("levels", level, place)


def _uses(policy: Policy) -> Iterator[tuple[Path, str, frozenset[Kind], str]]:
    for level, chain in enumerate(policy.levels, start=1):
        for place, filter_ in enumerate(chain, start=1):
            path = filter_path(len(chain), level, place)
            for name, accepted in filter_.needs().items():
                yield path, name, accepted, filter_.name
    for place, kind in enumerate(policy.digests.kinds, start=1):
        if kind.needs_attribute and kind.attribute:
            yield ("digests", place), kind.attribute, kind.kinds, kind.name


def _wrong_kind(what: str, name: str, found: frozenset[Kind], accepted: frozenset[Kind]) -> str:
    return (
        f"{what} judges {' or '.join(sorted(accepted))}, but {name!r} is "
        f"{' or '.join(sorted(found))}; use another filter or another attribute"
    )


class _Checker:
    """Collects problems; what cannot be built is left out of the result."""

    def __init__(self, draft: PolicyDraft) -> None:
        self.draft = draft
        self.problems: list[Problem] = []
        self.inherited = {
            name: self._name((name,), getattr(draft, name))
            for name in ("attribute", "group", "time", "identity")
        }

    def report(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message))

    def policy(self) -> Policy:
        draft = self.draft
        if not draft.name or len(draft.name) > LONGEST_NAME:
            self.report(("policy",), f"a name has 1 to {LONGEST_NAME} characters")
        group = self._name(("digest_group",), draft.digest_group)
        policy = Policy(
            draft.name,
            tuple(self._levels()),
            DigestPlan(tuple(self._digests()), group),
            self._attributes(),
            self.inherited["identity"],
        )
        if policy.attributes and not self.problems:
            known = {name: frozenset({kind}) for name, kind in policy.attributes.items()}
            self.problems += problems_with(policy, known)
        return policy

    def _name(self, path: Path, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and 0 < len(value) <= LONGEST_NAME):
            return value
        self.report(path, f"expected the name of one attribute, got {shown(value)}")
        return None

    def _attributes(self) -> dict[str, Kind]:
        kinds: dict[str, Kind] = {}
        if len(self.draft.attributes) > MAX_ATTRIBUTES:
            self.report(("attributes",), f"expected at most {MAX_ATTRIBUTES} attributes")
            return kinds
        names = [kind.value for kind in Kind]
        for name, kind in self.draft.attributes.items():
            if kind in names:
                kinds[name] = Kind(kind)
            else:
                hint = nearest(str(kind)[:LONGEST_NAME], names)
                self.report(("attributes", name), f"unknown type {shown(kind)}{hint}")
        return kinds

    def _levels(self) -> Iterator[tuple[Filter, ...]]:
        levels = self.draft.levels
        if not levels:
            self.report(("levels",), "missing; give at least one level with a filter")
        if len(levels) > MAX_LEVELS:
            self.report(("levels",), f"expected at most {MAX_LEVELS} levels, got {len(levels):,}")
            return
        for level, chain in enumerate(levels, start=1):
            if not 1 <= len(chain) <= MAX_CHAIN:
                message = f"expected 1 to {MAX_CHAIN} filters, got {len(chain):,}"
                self.report(("levels", level), message)
                continue
            filters = [
                self._filter(written, filter_path(len(chain), level, place), level * 100 + place)
                for place, written in enumerate(chain, start=1)
            ]
            yield tuple(filter_ for filter_ in filters if filter_ is not None)

    def _filter(self, written: FilterDraft, path: Path, seed: int) -> Filter | None:
        kind = self._kind(filter_kinds(), written.name, (*path, "filter"), "filter")
        sense = self._sense(written.sense, kind, path)
        if kind is None:
            return None
        given = self._parameters(kind, written.parameters, path, {"filter", "sense"})
        if given is None or sense is None:
            return None
        if "seed" in parameters_of(kind) and kind.name == "RANDOM":
            given.setdefault("seed", seed)
        filter_: Filter = kind(sense, **given)
        found = list(filter_.problems())
        for name, message in found:
            self.report((*path, name), message)
        return None if found else filter_

    def _sense(self, sense: Any, kind: type[Filter] | None, path: Path) -> Sense | None:
        if isinstance(sense, str) and sense in (Sense.KEEP, Sense.DROP):
            return Sense(sense)
        usual = f" ({kind.name} usually has sense: {kind.usual_sense.value})" if kind else ""
        if sense is None:
            message = f"missing; say whether the selected events are kept or dropped{usual}"
        else:
            message = f"expected keep or drop, got {shown(sense)}{usual}"
        self.report((*path, "sense"), message)
        return None

    def _digests(self) -> Iterator[DigestKind]:
        digests = self.draft.digests
        if len(digests) > MAX_DIGESTS:
            message = f"expected at most {MAX_DIGESTS} digests, got {len(digests):,}"
            self.report(("digests",), message)
            return
        seen: dict[str, int] = {}
        for place, written in enumerate(digests, start=1):
            path: Path = ("digests", place)
            kind = self._kind(digest_kinds(), written.name, (*path, "digest"), "digest")
            if kind is None:
                continue
            given = self._parameters(kind, written.parameters, path, {"digest"})
            if given is None:
                continue
            if not kind.needs_attribute:
                given.pop("attribute", None)
            digest: DigestKind = kind(**given)
            if digest.title in seen:
                self.report(
                    path, f"{digest.title} is digest {seen[digest.title]} already; keep one"
                )
            seen.setdefault(digest.title, place)
            yield digest

    def _kind(self, kinds: Mapping[str, Any], name: Any, path: Path, what: str) -> Any:
        if name is None:
            self.report(path, f"missing; name the {what}, for example {next(iter(kinds))}")
            return None
        wanted = name.upper() if isinstance(name, str) else ""
        if wanted in kinds:
            return kinds[wanted]
        hint = nearest(wanted[:LONGEST_NAME], kinds)
        self.report(path, f"unknown {what} {shown(name)}{hint}")
        return None

    def _parameters(
        self, kind: Any, written: Mapping[str, Any], path: Path, reserved: set[str]
    ) -> dict[str, Any] | None:
        """What was written, checked, with what is inherited; None if something is wrong."""
        known = parameters_of(kind)
        before = len(self.problems)
        given: dict[str, Any] = {}
        for name, value in written.items():
            if name not in known:
                hint = nearest(name, {*known, *reserved})
                self.report((*path, name), f"unknown parameter of {kind.name}{hint}")
                continue
            try:
                given[name] = known[name][0].accept(value)
            except ValueError as error:
                self.report((*path, name), str(error))
        for name, (parameter, required) in known.items():
            if name in written:
                continue
            if self.inherited.get(name) is not None:
                given[name] = self.inherited[name]
            elif required:
                self.report((*path, name), f"missing; {kind.name} needs {parameter.expected}")
            elif name == "attribute" and getattr(kind, "needs_attribute", True):
                message = "missing; name the attribute, here or for the whole policy"
                self.report((*path, name), message)
        return given if len(self.problems) == before else None
