"""Any text either loads or raises HeadgateError with lines; nothing else, no hang."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import NetworkError, Problem
from headgate.network import parse_network
from tests.network.test_yaml_file import SHOP

WORDS = [
    *("network", "nodes", "links", "streams", "operators", "queries", "from", "to", "input"),
    *("kind", "node", "cost", "rate", "windows", "weight", "class", "map", "join", "orders"),
    *("ingest", "parsed", "1", "-1", "120us", "10 MB/s", ".nan", "true", "~", "", "no", "<<"),
]
PIECES = [
    *("{", "}", "[", "]", ": ", ", ", "- ", "\n", "\n  ", "\n    ", "#", "'", '"', "|", ">", "?"),
    *("&a ", "*a", "!!python/object:x ", "!t ", "%YAML 1.1\n", "---", "...", "\t", "\\", "\0"),
    *WORDS,
]

words = st.sampled_from(WORDS)
texts = st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
values = st.recursive(
    words | st.floats() | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=25,
)
sections = st.fixed_dictionaries(
    {},
    optional={
        name: values | st.dictionaries(words, st.dictionaries(words, values, max_size=4))
        for name in ("network", "nodes", "links", "streams", "operators", "queries")
    },
)


def problems_in(text: str) -> tuple[Problem, ...]:
    try:
        parse_network(text, file="f.yaml")
    except NetworkError as error:
        return error.problems
    return ()


def loads_or_explains(text: str) -> None:
    last = 1 + sum(text.count(end) for end in "\n\r\x85\u2028\u2029")
    for problem in problems_in(text):
        assert problem.message
        assert problem.line is not None
        assert 1 <= problem.line <= last


@settings(deadline=None, max_examples=200)
@given(texts)
def test_any_text(text: str):
    loads_or_explains(text)


@settings(deadline=None, max_examples=150)
@given(values | sections)
def test_any_data(data: Any):
    loads_or_explains(yaml.safe_dump(data))


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(SHOP)), st.integers(0, 12), st.sampled_from(PIECES) | st.text()
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_damage_to_a_good_file(damages: list[tuple[int, int, str]]):
    text = SHOP
    for start, length, piece in damages:
        text = text[:start] + piece + text[start + length :]
    loads_or_explains(text)
