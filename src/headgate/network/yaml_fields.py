"""Typed values out of YAML nodes, with a problem for everything that is not one.

A `Document` collects what is wrong and where each field stands. The `read_*`
functions return the value, or None after they reported why there is none. They
never raise. Text counts as written: ``no`` and ``on`` are names, not booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias

import yaml

from headgate.errors import Problem
from headgate.names import LONGEST_NAME, nearest
from headgate.network.elements import OperatorKind
from headgate.quantities import Quantity

__all__ = [
    "Document",
    "Field",
    "Path",
    "read_entries",
    "read_kind",
    "read_name",
    "read_names",
    "read_one_name",
    "read_quantities",
    "read_quantity",
    "read_text",
    "read_values",
]

Path: TypeAlias = tuple[str | int, ...]
Reader: TypeAlias = Callable[["Document", yaml.Node, Path], Any]

_TAG = "tag:yaml.org,2002:"
_NULL = _TAG + "null"
_MERGE = _TAG + "merge"
_PLAIN_TAGS = {
    _TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
} | {_TAG + "seq", _TAG + "map"}


@dataclass
class Document:
    """What was found in one file.

    lines:  the line of every field that is there, by its path.
    unread: the fields that could not be read. What follows from them is noise.
    """

    file: str
    problems: list[Problem] = field(default_factory=list)
    lines: dict[Path, int] = field(default_factory=dict)
    unread: set[Path] = field(default_factory=set)

    def report(self, path: Path, message: str, node: yaml.Node | None = None) -> None:
        line = self.line_of(path) if node is None else line_of_node(node)
        self.problems.append(Problem(path, message, self.file, line))

    def refuse(self, path: Path, message: str, node: yaml.Node | None = None) -> None:
        """Report, and remember that there is no value at `path`."""
        self.report(path, message, node)
        self.unread.add(path)

    def line_of(self, path: Path) -> int:
        """The line of the field, or of the nearest thing around it that has a line."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1

    def add_semantic(self, problems: Iterable[Problem]) -> None:
        """Add the validation's problems, except those that follow from unread fields."""
        parts = {path[:3] for path in self.unread}
        for problem in problems:
            path = problem.field
            if path in parts or any(path[:n] in self.unread for n in range(1, len(path) + 1)):
                continue
            self.report(path, problem.message)


@dataclass(frozen=True)
class Field:
    """How to read one field; `missing` is what to say if it must be there and is not."""

    read: Reader
    missing: str | None = None


def line_of_node(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def is_null(node: yaml.Node) -> bool:
    return node.tag == _NULL


def read_entries(
    document: Document, node: yaml.Node, path: Path, expected: str
) -> dict[str, yaml.Node] | None:
    """The keys and values of a mapping, as written; None if it is not a mapping."""
    if is_null(node):
        return {}
    _refuse_tag(document, node, path)
    if not isinstance(node, yaml.MappingNode):
        document.refuse(path, f"expected {expected}, got {_shown(node)}", node)
        return None
    entries: dict[str, yaml.Node] = {}
    for key_node, value in node.value:
        key = _read_key(document, key_node, path)
        if key is None:
            continue
        if key in entries:
            first = document.lines[(*path, key)]
            document.report((*path, key), f"given twice, first on line {first}; keep one", key_node)
            continue
        entries[key] = value
        document.lines[(*path, key)] = line_of_node(key_node)
    return entries


def read_values(
    document: Document, node: yaml.Node, path: Path, fields: Mapping[str, Field], what: str
) -> dict[str, Any] | None:
    """The values of the known fields that are there; a null counts as not there.

    A misspelt field is reported and then read as the field that was meant, so that
    it causes no second error.
    """
    entries = read_entries(document, node, path, f"{what} with {', '.join(fields)}")
    if entries is None:
        return None
    values: dict[str, Any] = {}
    for name, value in _known(document, entries, path, fields).items():
        if not is_null(value):
            values[name] = fields[name].read(document, value, (*path, name))
    for name, known in fields.items():
        place = (*path, name)
        empty = name not in values or values[name] == ()
        if known.missing is not None and empty and place not in document.unread:
            document.refuse(place, f"missing; {known.missing}")
    return values


def read_text(document: Document, node: yaml.Node, path: Path) -> str | None:
    if not isinstance(node, yaml.ScalarNode) or is_null(node):
        document.refuse(path, f"expected text, got {_shown(node)}", node)
        return None
    _refuse_tag(document, node, path)
    return str(node.value)


def read_name(document: Document, node: yaml.Node, path: Path) -> str | None:
    text = read_text(document, node, path)
    if text is not None and len(text) > LONGEST_NAME:
        document.refuse(path, f"a name has at most {LONGEST_NAME} characters", node)
        return None
    return text


def read_names(document: Document, node: yaml.Node, path: Path) -> tuple[str, ...] | None:
    """A name, or a list of names."""
    if not isinstance(node, yaml.SequenceNode):
        name = read_name(document, node, path)
        return None if name is None else (name,)
    return _read_list(document, node, path, read_name)


def read_one_name(document: Document, node: yaml.Node, path: Path) -> str | None:
    """A name, or a list that holds just one."""
    names = read_names(document, node, path)
    if names is None:
        return None
    if len(names) != 1:
        document.refuse(
            path, f"expected one name, got {len(names)}; put a union or a join in front", node
        )
        return None
    return names[0]


def read_kind(document: Document, node: yaml.Node, path: Path) -> OperatorKind | None:
    text = read_text(document, node, path)
    kinds = [kind.value for kind in OperatorKind]
    if text is None or text in kinds:
        return None if text is None else OperatorKind(text)
    document.refuse(path, f"unknown kind {_shown(node)}{nearest(text, kinds)}", node)
    return None


def read_quantity(quantity: Quantity) -> Reader:
    """A reader of numbers, plain or with one of the quantity's units."""

    def read(document: Document, node: yaml.Node, path: Path) -> float | None:
        if not isinstance(node, yaml.ScalarNode):
            example = quantity.example
            document.refuse(path, f"expected a number such as {example}, got {_shown(node)}", node)
            return None
        _refuse_tag(document, node, path)
        try:
            return quantity.parse(node.value)
        except ValueError as error:
            document.refuse(path, str(error), node)
            return None

    return read


def read_quantities(quantity: Quantity) -> Reader:
    """A reader of lists of numbers."""

    def read(document: Document, node: yaml.Node, path: Path) -> tuple[float, ...] | None:
        if not isinstance(node, yaml.SequenceNode):
            document.refuse(path, f"expected a list of numbers, got {_shown(node)}", node)
            return None
        return _read_list(document, node, path, read_quantity(quantity))

    return read


def _read_list(
    document: Document, node: yaml.SequenceNode, path: Path, read: Reader
) -> tuple[Any, ...] | None:
    _refuse_tag(document, node, path)
    values = tuple(read(document, item, (*path, i)) for i, item in enumerate(node.value))
    return None if None in values else values


def _known(
    document: Document, entries: Mapping[str, yaml.Node], path: Path, fields: Mapping[str, Field]
) -> dict[str, yaml.Node]:
    known = {name: value for name, value in entries.items() if name in fields}
    for name in [name for name in entries if name not in fields]:
        word, colon, _ = name.partition(":")
        hint = "; write a space after the colon" if colon else nearest(name, fields)
        document.report((*path, name), f"unknown {'field' if path else 'section'}{hint}")
        for meant in get_close_matches(word, fields, n=1):
            if colon:
                document.unread.add((*path, meant))
            elif meant not in known:
                known[meant] = entries[name]
                document.lines[(*path, meant)] = document.lines[(*path, name)]
    return known


def _read_key(document: Document, node: yaml.Node, path: Path) -> str | None:
    if not isinstance(node, yaml.ScalarNode):
        document.report(path, f"expected a name before the colon, got {_shown(node)}", node)
        return None
    if node.tag == _MERGE:
        document.report(path, "merging with << is not supported; write the fields out", node)
        return None
    _refuse_tag(document, node, path)
    key = str(node.value)
    if len(key) > LONGEST_NAME:
        document.report(path, f"a name has at most {LONGEST_NAME} characters", node)
        return None
    return key


def _refuse_tag(document: Document, node: yaml.Node, path: Path) -> None:
    if node.tag not in _PLAIN_TAGS:
        tag = node.tag.replace(_TAG, "!!")
        document.report(path, f"the tag {tag[:60]!r} is not allowed; remove it", node)


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if is_null(node):
        return "nothing"
    text = str(node.value)
    return repr(text if len(text) <= 40 else text[:37] + "...")
