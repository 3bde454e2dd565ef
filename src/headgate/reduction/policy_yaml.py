"""A policy as YAML.

    policy: pulse
    attribute: PulseRate
    digests: [MEAN, COUNT]
    levels:
      - {filter: DELTA, sense: keep, change: 5}
      - {filter: WITHIN, sense: drop, low: 50, high: 100}
      - - {filter: LATEST, sense: keep, window: 10}

A level is one filter or a list of filters. Quoted values are texts; unquoted ones are
numbers or true/false where they look like it. No Python object is ever constructed.
"""

from __future__ import annotations

from typing import Any

import yaml

from headgate.network.yaml_fields import (
    Document,
    Field,
    Path,
    line_of_node,
    read_entries,
    read_name,
    read_text,
    read_values,
)
from headgate.network.yaml_syntax import YamlSyntaxError, compose
from headgate.reduction.policy import (
    MAX_CHAIN,
    MAX_DIGESTS,
    MAX_LEVELS,
    DigestDraft,
    FilterDraft,
    PolicyDraft,
)
from headgate.reduction.scalars import plain_scalar

__all__ = ["read_yaml"]

_NULL_TAG = "tag:yaml.org,2002:null"


def read_yaml(document: Document, text: str) -> PolicyDraft | None:
    """What is written in `text`; problems go to `document`. None if nothing can be read."""
    try:
        root = compose(text)
    except YamlSyntaxError as error:
        document.lines["?",] = error.line
        document.report(("?",), error.message.replace("network", "policy"))
        return None
    if root is None:
        document.report((), "the file is empty; give a policy, see examples/policies")
        return None
    sections = {
        "policy": Field(read_text, "give the policy a name, for example policy: pulse"),
        "attribute": Field(read_name),
        "group": Field(read_name),
        "time": Field(read_name),
        "identity": Field(read_name),
        "attributes": Field(_read_attributes),
        "digests": Field(_read_digests),
        "digest_group": Field(read_name),
        "levels": Field(_read_levels, "give at least one level with a filter"),
    }
    values = read_values(document, root, (), sections, "the sections of a policy,")
    if values is None:
        return None
    return PolicyDraft(
        name=values.get("policy") or "",
        levels=values.get("levels") or (),
        digests=values.get("digests") or (),
        attributes=values.get("attributes") or {},
        **{
            name: values.get(name)
            for name in ("attribute", "group", "time", "identity", "digest_group")
        },
    )


def _read_attributes(document: Document, node: yaml.Node, path: Path) -> dict[str, Any]:
    entries = read_entries(document, node, path, "a name and a type on each line") or {}
    kinds = {name: read_text(document, value, (*path, name)) for name, value in entries.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _read_digests(document: Document, node: yaml.Node, path: Path) -> list[DigestDraft] | None:
    items = _items(document, node, path, MAX_DIGESTS, "digests")
    if items is None:
        return None
    drafts = []
    for place, item in enumerate(items, start=1):
        document.lines[*path, place] = line_of_node(item)
        if isinstance(item, yaml.ScalarNode):
            drafts.append(DigestDraft(str(item.value)))
            continue
        given = _parameters(document, item, (*path, place), "a digest's name or its parameters")
        drafts.append(DigestDraft(given.pop("digest", None), given))
    return drafts


def _read_levels(document: Document, node: yaml.Node, path: Path) -> list[list[FilterDraft]] | None:
    items = _items(document, node, path, MAX_LEVELS, "levels")
    if items is None:
        return None
    levels = []
    for level, item in enumerate(items, start=1):
        place: Path = (*path, level)
        document.lines[place] = line_of_node(item)
        if not isinstance(item, yaml.SequenceNode):
            levels.append([_read_filter(document, item, place)])
            continue
        chain = _items(document, item, place, MAX_CHAIN, "filters") or []
        paths = [place if len(chain) == 1 else (*place, n) for n in range(1, len(chain) + 1)]
        levels.append([_read_filter(document, f, p) for f, p in zip(chain, paths, strict=True)])
    return levels


def _read_filter(document: Document, node: yaml.Node, path: Path) -> FilterDraft:
    document.lines[path] = line_of_node(node)
    given = _parameters(
        document, node, path, "a filter such as {filter: GT, sense: keep, value: 5}"
    )
    return FilterDraft(given.pop("filter", None), given.pop("sense", None), given)


def _parameters(document: Document, node: yaml.Node, path: Path, expected: str) -> dict[str, Any]:
    entries = read_entries(document, node, path, expected)
    if entries is None:
        return {}
    values = {name: _value(document, value, (*path, name)) for name, value in entries.items()}
    return {name: value for name, value in values.items() if value is not None}


def _value(document: Document, node: yaml.Node, path: Path) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(document, item, path) for item in node.value]
    text = read_text(document, node, path) if node.tag != _NULL_TAG else None
    if text is None:
        return None
    return text if getattr(node, "style", None) else plain_scalar(text)


def _items(
    document: Document, node: yaml.Node, path: Path, most: int, what: str
) -> list[yaml.Node] | None:
    """The items of a list; refused before they are looked at if there are too many."""
    if not isinstance(node, yaml.SequenceNode):
        document.refuse(path, f"expected a list of {what}", node)
        return None
    if len(node.value) > most:
        message = f"expected at most {most} {what}, got {len(node.value):,}"
        document.refuse(path, message, node)
        return None
    return list(node.value)
