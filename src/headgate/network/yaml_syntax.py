"""Text to a tree of YAML nodes with line numbers, whatever the text is.

Depends on PyYAML's SafeLoader; no Python object is ever constructed from the file.

Guarantees: the tree has at most `MAX_EXPANDED_NODES` nodes when its aliases are
written out and is at most `MAX_DEPTH` deep, without recursion; every other text
raises `YamlSyntaxError`. Not guaranteed: more than one syntax error at a time, since
nothing can be said of what follows the first. Cost: about 7 s for a megabyte.
"""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_EXPANDED_NODES", "YamlSyntaxError", "compose"]

MAX_BYTES = 2_000_000
MAX_DEPTH = 50
MAX_EXPANDED_NODES = 300_000


class YamlSyntaxError(Exception):
    """The text is not one YAML document within the limits. `line` is 1-based."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def compose(text: str) -> yaml.Node | None:
    """The root of the only document in `text`; None if there is nothing in it."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise YamlSyntaxError(
            1, f"the file is larger than {MAX_BYTES:,} bytes; split the network into several files"
        )
    try:
        loader = _BoundedLoader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise YamlSyntaxError(
            line, f"the character {chr(error.character)!r} is not allowed; remove it"
        ) from None
    except yaml.MarkedYAMLError as error:
        raise _explained(error) from None
    except (ValueError, OverflowError) as error:  # PyYAML on impossible escapes and versions
        raise YamlSyntaxError(1, f"not a YAML file: {error}; remove the escape") from None


def _explained(error: yaml.MarkedYAMLError) -> YamlSyntaxError:
    mark = error.problem_mark or error.context_mark
    line = 1 if mark is None else mark.line + 1
    column = 1 if mark is None else mark.column + 1
    problem = error.problem or "not a YAML file"
    if "'\\t'" in problem:
        return YamlSyntaxError(line, "a tab cannot indent YAML; use spaces")
    if "another document" in problem:
        return YamlSyntaxError(line, "a file describes one network; remove '---' and what follows")
    if "undefined alias" in problem:
        return YamlSyntaxError(line, f"{problem}; define it with & above, or quote the text")
    began = ""
    if error.context and error.context_mark is not None and error.context_mark.line + 1 != line:
        began = f" ({error.context}, begun on line {error.context_mark.line + 1})"
    return YamlSyntaxError(
        line,
        f"not valid YAML at column {column}: {problem}{began}; check brackets, quotes, "
        "indentation and the space after each colon",
    )


class _BoundedLoader(yaml.SafeLoader):
    """A SafeLoader that stops at the limits instead of running out of stack or time."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._expanded = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        before = self._expanded
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YamlSyntaxError(line, f"nested deeper than {MAX_DEPTH} levels; flatten the file")
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent):
            size = self._sizes.get(id(node))
            if size is None:
                raise YamlSyntaxError(line, f"the alias *{event.anchor} contains itself; remove it")
            self._expanded += size
        else:
            self._expanded += 1
            self._sizes[id(node)] = self._expanded - before
        if self._expanded > MAX_EXPANDED_NODES:
            raise YamlSyntaxError(
                line,
                f"more than {MAX_EXPANDED_NODES:,} values, with aliases written out; "
                "split the network into several files",
            )
        return node
