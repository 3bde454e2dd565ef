"""A digest: how many events were dropped, and what the policy wants to know of them.

    plan = DigestPlan((Mean(attribute="pulse"), Count()))
    whole = merge_digests(digest_of(plan, monday), digest_of(plan, tuesday))
    whole.results()

Guarantees: `dropped` counts every event, whatever else is asked for; merging is
associative and commutative, and digests of digests are digests; at most `MAX_GROUPS`
groups have a line of their own (the first in alphabetical order, so that the choice
does not depend on the order of merging), the others share one. Reading foreign bytes
checks them, takes at most `MAX_DIGEST_BYTES` and unpickles nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from headgate.errors import UsageError
from headgate.reduction.digest_contract import DigestKind, checked_count, checked_fields, short_key
from headgate.reduction.grouping import NO_GROUP, group_labels, segments
from headgate.reduction.queues import ColumnQueue, Queue

__all__ = [
    "MAX_DIGEST_BYTES",
    "MAX_GROUPS",
    "OTHERS",
    "Digest",
    "DigestPlan",
    "digest_of",
    "merge_all",
    "merge_digests",
]

MAX_GROUPS = 1000
MAX_DIGEST_BYTES = 64_000_000
OTHERS = "*"  # keys of groups have a colon in second place
_VERSION = 1
_LONGEST_LABEL = 1000


@dataclass(frozen=True, slots=True)
class DigestPlan:
    """What is asked for: the digests, and the attribute they are made per value of."""

    kinds: tuple[DigestKind, ...] = ()
    group: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDigest:
    """The events of one group: how many, and one content for each digest of the plan."""

    dropped: int
    contents: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Digest:
    """See the module. `groups` has the key NO_GROUP where nothing or nobody is grouped."""

    plan: DigestPlan
    groups: Mapping[str, GroupDigest] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        return sum(group.dropped for group in self.groups.values())

    def results(self) -> dict[str, dict[str, Any]]:
        """By group, then by digest: plain JSON."""
        return {
            label: {"dropped": group.dropped}
            | {
                kind.title: kind.result(content)
                for kind, content in zip(self.plan.kinds, group.contents, strict=True)
            }
            for label, group in self.groups.items()
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "digests": [kind.title for kind in self.plan.kinds],
            "group": self.plan.group,
            "groups": {
                label: [group.dropped]
                + [
                    kind.to_json(content)
                    for kind, content in zip(self.plan.kinds, group.contents, strict=True)
                ]
                for label, group in self.groups.items()
            },
        }

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False).encode()

    @staticmethod
    def from_json(plan: DigestPlan, data: Any) -> Digest:
        """The digest again; ValueError if it is none, or one of another plan."""
        version, digests, group, groups = checked_fields(
            data, "version", "digests", "group", "groups"
        )
        if version != _VERSION:
            raise ValueError(f"expected a digest of version {_VERSION}")
        if digests != [kind.title for kind in plan.kinds] or group != plan.group:
            raise ValueError("the digest was made by another policy")
        if not isinstance(groups, Mapping) or len(groups) > MAX_GROUPS + 1:
            raise ValueError(f"expected at most {MAX_GROUPS + 1} groups")
        return Digest(plan, {_label(key): _group(plan, item) for key, item in groups.items()})

    @staticmethod
    def from_bytes(plan: DigestPlan, data: bytes) -> Digest:
        if len(data) > MAX_DIGEST_BYTES:
            raise ValueError(f"expected at most {MAX_DIGEST_BYTES:,} bytes")
        try:
            decoded = json.loads(data)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        return Digest.from_json(plan, decoded)


def digest_of(plan: DigestPlan, queue: Queue) -> Digest:
    """The digest of all events of the queue. Cost: one pass for each digest."""
    if not len(queue):
        return Digest(plan)
    if plan.group is None:
        return Digest(plan, {NO_GROUP: _summarised(plan, queue)})
    rows = _rows_by_group(queue, plan.group)
    named = sorted(rows)[:MAX_GROUPS]
    groups = {label: _summarised(plan, queue.take(rows[label])) for label in named}
    if len(rows) > len(named):
        rest = np.concatenate([rows[label] for label in sorted(rows)[MAX_GROUPS:]])
        groups[OTHERS] = _summarised(plan, queue.take(np.sort(rest)))
    return Digest(plan, groups)


def merge_digests(left: Digest, right: Digest) -> Digest:
    """The digest of both. They must be of the same plan."""
    if left.plan != right.plan:
        raise UsageError("digests of different policies cannot be merged; use the same policy")
    groups = dict(left.groups)
    for label, group in right.groups.items():
        groups[label] = _both(left.plan, groups[label], group) if label in groups else group
    names = sorted(label for label in groups if label != OTHERS)
    bounded = {label: groups[label] for label in names[:MAX_GROUPS]}
    rest = [groups[label] for label in (OTHERS, *names[MAX_GROUPS:]) if label in groups]
    if rest:
        bounded[OTHERS] = reduce(lambda a, b: _both(left.plan, a, b), rest)
    return Digest(left.plan, bounded)


def merge_all(plan: DigestPlan, digests: Iterable[Digest]) -> Digest:
    """The digest of any number of digests."""
    return reduce(merge_digests, digests, Digest(plan))


def _summarised(plan: DigestPlan, queue: Queue) -> GroupDigest:
    return GroupDigest(len(queue), tuple(kind.of(queue) for kind in plan.kinds))


def _both(plan: DigestPlan, left: GroupDigest, right: GroupDigest) -> GroupDigest:
    pairs = zip(plan.kinds, left.contents, right.contents, strict=True)
    return GroupDigest(
        left.dropped + right.dropped, tuple(kind.merge(a, b) for kind, a, b in pairs)
    )


def _rows_by_group(queue: Queue, group: str) -> dict[str, Any]:
    """Rows of each group; events without one are under NO_GROUP."""
    if isinstance(queue, ColumnQueue):
        keys = queue.keys(group)
        if not keys.known.any():
            return {NO_GROUP: np.arange(len(queue))}
        parts = segments(keys, keys.known)
        labels = map(short_key, parts.labels())
        rows = dict(zip(labels, np.split(parts.order, parts.begins[1:]), strict=True))
        unknown = np.flatnonzero(~keys.known)
        return rows | ({NO_GROUP: unknown} if len(unknown) else {})
    found: dict[str, list[int]] = {}
    for row, label in enumerate(group_labels(queue, group)):
        found.setdefault(short_key(label or NO_GROUP), []).append(row)
    return {label: np.array(rows, np.int64) for label, rows in found.items()}


def _label(label: object) -> str:
    if not isinstance(label, str) or len(label) > _LONGEST_LABEL:
        raise ValueError("expected a group's key")
    return label


def _group(plan: DigestPlan, data: object) -> GroupDigest:
    if not isinstance(data, Sequence) or isinstance(data, str) or len(data) != len(plan.kinds) + 1:
        raise ValueError(f"expected a count and {len(plan.kinds)} contents")
    contents = tuple(kind.from_json(item) for kind, item in zip(plan.kinds, data[1:], strict=True))
    return GroupDigest(checked_count(data[0], "dropped"), contents)
