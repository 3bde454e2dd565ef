"""The fields that only a run on Spark needs: `source` of a stream and `sink` of a query.

Options are passed on to Spark as they are written; what an option means is Spark's business.
"""

from __future__ import annotations

import re

import yaml

from headgate.network.elements import Sink, Source
from headgate.network.yaml_fields import (
    Document,
    Field,
    Path,
    read_entries,
    read_name,
    read_names,
    read_quantity,
    read_text,
    read_values,
)
from headgate.quantities import DURATION

__all__ = ["python_function", "read_sink", "read_source"]

_FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


def python_function(code: str) -> tuple[str, str] | None:
    """Module and name of the function, if the code is not SQL.

    >>> python_function("shop.operators:enrich"), python_function("SELECT 1")
    (('shop.operators', 'enrich'), None)
    """
    match = _FUNCTION.fullmatch(code.strip())
    return None if match is None else (match[1], match[2])


def read_source(document: Document, node: yaml.Node, path: Path) -> Source | None:
    values = read_values(document, node, path, _SOURCE, "a source")
    if values is None or values.get("format") is None:
        return None
    return Source(
        values["format"],
        values.get("options") or (),
        values.get("schema"),
        values.get("arrival"),
        values.get("identity"),
        values.get("event_time"),
        values.get("watermark"),
    )


def read_sink(document: Document, node: yaml.Node, path: Path) -> Sink | None:
    values = read_values(document, node, path, _SINK, "a sink")
    if values is None or values.get("format") is None:
        return None
    return Sink(values["format"], values.get("options") or ())


def _read_options(
    document: Document, node: yaml.Node, path: Path
) -> tuple[tuple[str, str], ...] | None:
    entries = read_entries(document, node, path, "options of Spark, each with its value")
    if entries is None:
        return None
    texts = {name: read_text(document, value, (*path, name)) for name, value in entries.items()}
    return tuple((name, text) for name, text in texts.items() if text is not None)


_SOURCE = {
    "format": Field(read_name, "name a source: replay, rate, kafka, or another format of Spark"),
    "options": Field(_read_options),
    "schema": Field(read_text),
    "arrival": Field(read_name),
    "identity": Field(read_names),
    "event_time": Field(read_name),
    "watermark": Field(read_quantity(DURATION)),
}
_SINK = {
    "format": Field(read_name, "name a sink: noop, console, kafka, or a format of files"),
    "options": Field(_read_options),
}
