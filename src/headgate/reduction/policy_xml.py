"""A policy in the paper's XML (PACK, Figure 2), with a sense for every filter.

    <policy name="pulse" attribute="PulseRate">
      <summary>
        <digester name="MEAN"/>
        <digester name="COUNT"/>
      </summary>
      <level>
        <filter name="DELTA" sense="keep"><para name="change" value="5"/></filter>
      </level>
    </policy>

A parameter that is a list is a `para` repeated. A value is a number or true/false where
it looks like one; `type="text"` says that it is not.

Defused: a document type, an entity declaration and a processing instruction are refused
where they begin, so nothing is expanded and nothing is fetched; depth and number of
elements are bounded. Expat is used directly, without building a tree of unknown things.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from headgate.names import nearest
from headgate.network.yaml_fields import Document, Path
from headgate.reduction.policy import (
    MAX_CHAIN,
    MAX_DIGESTS,
    MAX_LEVELS,
    DigestDraft,
    FilterDraft,
    PolicyDraft,
    filter_path,
)
from headgate.reduction.scalars import plain_scalar

__all__ = ["read_xml"]

MAX_DEPTH = 8
_HEAD = ("attribute", "group", "time", "identity", "digest_group")
_CHILDREN = {
    "policy": ("attributes", "summary", "level"),
    "attributes": ("attribute",),
    "summary": ("digester",),
    "digester": ("para",),
    "level": ("filter",),
    "filter": ("para",),
}
_FIELDS = {
    "policy": ("name", *_HEAD),
    "attribute": ("name", "type"),
    "digester": ("name",),
    "filter": ("name", "sense", "attribute"),
    "para": ("name", "value", "type"),
}


@dataclass
class _Element:
    tag: str
    line: int
    fields: Mapping[str, str] = field(default_factory=dict)
    children: list[_Element] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[_Element]:
        return (child for child in self.children if child.tag == tag)


class _RefusedError(Exception):
    """Stops the parser; the message and the line are for a person."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def read_xml(document: Document, text: str) -> PolicyDraft | None:
    """What is written in `text`; problems go to `document`. None if nothing can be read."""
    try:
        root = _parsed(text)
    except _RefusedError as error:
        document.lines["?",] = error.line
        document.report(("?",), str(error))
        return None
    document.lines["policy",] = root.line
    if root.tag != "policy":
        document.report(("policy",), f"expected <policy>, got <{root.tag[:40]}>")
        return None
    _check_names(document, root, ())
    return PolicyDraft(
        name=root.fields.get("name") or "policy",
        levels=_levels(document, root),
        digests=_digests(document, root),
        attributes={
            item.fields.get("name", ""): item.fields.get("type")
            for part in root.all("attributes")
            for item in part.all("attribute")
        },
        **{name: root.fields.get(name) for name in _HEAD},
    )


def _levels(document: Document, root: _Element) -> list[list[FilterDraft]]:
    elements = list(root.all("level"))
    if len(elements) > MAX_LEVELS:
        document.lines["levels",] = elements[MAX_LEVELS].line
        message = f"expected at most {MAX_LEVELS} levels, got {len(elements):,}"
        document.refuse(("levels",), message)
        return []
    levels = []
    for level, element in enumerate(elements, start=1):
        document.lines["levels", level] = element.line
        chain = list(element.all("filter"))[: MAX_CHAIN + 1]
        levels.append(
            [
                _filter(document, written, filter_path(len(chain), level, place))
                for place, written in enumerate(chain, start=1)
            ]
        )
    return levels


def _filter(document: Document, element: _Element, path: Path) -> FilterDraft:
    document.lines[path] = element.line
    given = _parameters(document, element, path)
    if "attribute" in element.fields:
        given.setdefault("attribute", element.fields["attribute"])
    return FilterDraft(element.fields.get("name"), element.fields.get("sense"), given)


def _digests(document: Document, root: _Element) -> list[DigestDraft]:
    elements = [item for part in root.all("summary") for item in part.all("digester")]
    drafts = []
    for place, element in enumerate(elements[: MAX_DIGESTS + 1], start=1):
        document.lines["digests", place] = element.line
        given = _parameters(document, element, ("digests", place))
        drafts.append(DigestDraft(element.fields.get("name"), given))
    return drafts


def _parameters(document: Document, element: _Element, path: Path) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for para in element.all("para"):
        name, text = para.fields.get("name"), para.fields.get("value")
        if not name or text is None:
            document.lines[(*path, "para")] = para.line
            document.report((*path, "para"), "expected a name and a value")
            continue
        value = text if para.fields.get("type") == "text" else plain_scalar(text)
        if name in given:
            before = given[name]
            given[name] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            given[name] = value
        document.lines[(*path, name)] = para.line
    return given


def _check_names(document: Document, element: _Element, path: Path) -> None:
    """Report elements and fields that do not exist where they stand."""
    for child in element.children:
        place = (*path, child.tag[:40])
        document.lines.setdefault(place, child.line)
        allowed = _CHILDREN.get(element.tag, ())
        if child.tag not in allowed:
            message = f"unknown element in <{element.tag}>{nearest(child.tag[:200], allowed)}"
            document.lines[place] = child.line
            document.report(place, message)
        else:
            _check_names(document, child, place)
    known = _FIELDS.get(element.tag, ())
    for name in element.fields:
        if name not in known:
            place = (*path, name[:40])
            document.lines[place] = element.line
            message = f"unknown field of <{element.tag}>{nearest(name[:200], known)}"
            document.report(place, message)


def _parsed(text: str) -> _Element:
    parser = expat.ParserCreate()
    top = _Element("", 0)
    stack = [top]

    def refuse(what: str) -> None:
        raise _RefusedError(
            f"{what} is not allowed in a policy; remove it", parser.CurrentLineNumber
        )

    def start(tag: str, fields: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} elements; a policy has four"
            raise _RefusedError(message, parser.CurrentLineNumber)
        element = _Element(tag, parser.CurrentLineNumber, fields)
        stack[-1].children.append(element)
        stack.append(element)

    def end(tag: str) -> None:
        del tag
        stack.pop()

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = lambda *_: refuse("a document type (<!DOCTYPE>)")
    parser.EntityDeclHandler = lambda *_: refuse("an entity")
    parser.ProcessingInstructionHandler = lambda *_: refuse("a processing instruction")
    parser.ExternalEntityRefHandler = lambda *_: 0
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        hint = '; close each element, for example <digester name="MEAN"/>'
        message = f"not valid XML: {expat.ErrorString(error.code)}{hint}"
        raise _RefusedError(message, error.lineno) from None
    return top.children[0]
