"""Describe a policy in Python.

>>> policy = (
...     PolicyBuilder("pulse", attribute="PulseRate")
...     .digest("MEAN")
...     .digest("COUNT")
...     .level(use("DELTA", "keep", change=5))
...     .level(use("WITHIN", "drop", low=50, high=100))
...     .level(use("LATEST", "keep", window=10))
...     .build()
... )
>>> [chain[0].name for chain in policy.levels]
['DELTA', 'WITHIN', 'LATEST']
"""

from __future__ import annotations

from typing import Any, Self

from headgate.reduction.policy import (
    DigestDraft,
    FilterDraft,
    Policy,
    PolicyDraft,
    build_policy,
)

__all__ = ["PolicyBuilder", "use"]


def use(name: str, sense: str | None = None, **parameters: Any) -> FilterDraft:
    """One filter of a level; `sense` is "keep" or "drop" and has no default."""
    return FilterDraft(name, sense, parameters)


class PolicyBuilder:
    """Collects the parts; `build` checks them all at once and raises PolicyError.

    `attribute`, `group`, `time` and `identity` are inherited by every filter and digest
    that takes them and does not name its own. `attributes` maps names to types.
    """

    def __init__(
        self,
        name: str,
        *,
        attribute: str | None = None,
        group: str | None = None,
        time: str | None = None,
        identity: str | None = None,
        digest_group: str | None = None,
        attributes: dict[str, str] | None = None,
    ) -> None:
        self._head: dict[str, Any] = {
            "name": name,
            "attribute": attribute,
            "group": group,
            "time": time,
            "identity": identity,
            "digest_group": digest_group,
            "attributes": attributes or {},
        }
        self._levels: list[tuple[FilterDraft, ...]] = []
        self._digests: list[DigestDraft] = []

    def level(self, *chain: FilterDraft) -> Self:
        """The next level: one filter, or several that run one after the other."""
        self._levels.append(chain)
        return self

    def digest(self, name: str, **parameters: Any) -> Self:
        self._digests.append(DigestDraft(name, parameters))
        return self

    def build(self) -> Policy:
        return build_policy(PolicyDraft(levels=self._levels, digests=self._digests, **self._head))
