"""Decide which events go, and what is said about them: policies, filters, digests, ladders.

Defines

- `policy` (the model), `builder`, `policy_yaml`, `policy_xml`, `policy_file` (the ways
  to write one);
- `contract` and `filters/` (which events a filter selects), on `queues`, `columns`,
  `values`, `grouping`, `hashing`;
- `digest_contract`, `digests/` and `summary` (what stays behind of those that go);
- `packing` (reduce a queue) and `ladders` (at which level).

Depends on numpy, pyarrow, datasketches, `headgate.network` and `headgate.errors`.
Nothing here reads a clock, does I/O beyond reading a policy file, draws a random number
or starts a thread.
"""

from headgate.reduction.builder import PolicyBuilder, use
from headgate.reduction.catalogue import digest_kinds, filter_kinds
from headgate.reduction.contract import Filter, Sense
from headgate.reduction.digest_contract import DigestKind
from headgate.reduction.ladders import (
    BudgetLadder,
    BudgetLadderSettings,
    TurnaroundLadder,
    TurnaroundSettings,
)
from headgate.reduction.packing import (
    FilterCount,
    Packing,
    PackingRequest,
    make_room,
    reduce_to_budget,
    reduce_to_level,
)
from headgate.reduction.policy import Policy, problems_with
from headgate.reduction.policy_file import load_policy, parse_policy
from headgate.reduction.queues import events_to_batch
from headgate.reduction.summary import Digest, DigestPlan, digest_of, merge_all, merge_digests
from headgate.reduction.values import Kind

__all__ = [
    "BudgetLadder",
    "BudgetLadderSettings",
    "Digest",
    "DigestKind",
    "DigestPlan",
    "Filter",
    "FilterCount",
    "Kind",
    "Packing",
    "PackingRequest",
    "Policy",
    "PolicyBuilder",
    "Sense",
    "TurnaroundLadder",
    "TurnaroundSettings",
    "digest_kinds",
    "digest_of",
    "events_to_batch",
    "filter_kinds",
    "load_policy",
    "make_room",
    "merge_all",
    "merge_digests",
    "parse_policy",
    "problems_with",
    "reduce_to_budget",
    "reduce_to_level",
    "use",
]
