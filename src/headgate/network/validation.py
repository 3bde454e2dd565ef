"""Everything that can be wrong with a network, found in one pass.

`problems_of` never raises: it returns all problems, each with the path of the
field, what was expected and, for an unknown name, the nearest name that exists.
An unknown name or an impossible number does not hide the problems of the graph;
what merely follows from an unknown name is left out.
Cost: linear in the size of the network, except for the nearest-name search,
which runs only on errors and looks at a bounded number of names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real

from headgate.errors import Problem
from headgate.names import LONGEST_NAME, nearest
from headgate.network.elements import Link, Node, Operator, OperatorKind, Query, Source, Stream

__all__ = ["problems_of"]


def problems_of(
    streams: Sequence[Stream],
    operators: Sequence[Operator],
    queries: Sequence[Query],
    nodes: Sequence[Node],
    links: Sequence[Link],
) -> list[Problem]:
    """Every problem of the described network; an empty list means it is valid."""
    return [
        *_names(streams, operators, queries, nodes),
        *_streams(streams),
        *_nodes(nodes),
        *_operators(operators, streams, nodes),
        *_queries(queries, operators, streams),
        *_links(links, nodes),
        *_cycles(operators),
        *_unused(operators, queries, streams),
        *_bytes(operators, links),
    ]


def _names(
    streams: Sequence[Stream],
    operators: Sequence[Operator],
    queries: Sequence[Query],
    nodes: Sequence[Node],
) -> Iterator[Problem]:
    sections: list[tuple[str, list[str]]] = [
        ("streams", [s.name for s in streams]),
        ("operators", [o.name for o in operators]),
        ("queries", [q.name for q in queries]),
    ]
    counts = Counter(name for _, names in sections for name in names)
    for section, names in [*sections, ("nodes", [n.name for n in nodes])]:
        for name in names:
            if not name or name != name.strip() or "->" in name:
                yield Problem((section, name), "a name must not be empty, padded or contain '->'")
            elif len(name) > LONGEST_NAME or not name.isprintable():
                yield Problem(
                    (section, name), f"a name has at most {LONGEST_NAME} printable characters"
                )
    for name, count in counts.items():
        if count > 1:
            places = [section for section, names in sections if name in names]
            yield Problem(
                (places[-1], name),
                f"the name is used {count} times ({', '.join(places)}); streams, operators "
                "and queries share one set of names",
            )
    for name, count in Counter(n.name for n in nodes).items():
        if count > 1:
            yield Problem(("nodes", name), f"the node is defined {count} times")
    if not nodes:
        yield Problem(("nodes",), "expected at least one node")
    if not streams:
        yield Problem(("streams",), "expected at least one stream")
    if not queries:
        yield Problem(("queries",), "expected at least one query")


def _number(
    place: tuple[str | int, ...],
    value: float | None,
    *,
    at_most: float = math.inf,
) -> Iterator[Problem]:
    if value is None:
        return
    wanted = "a number of at least 0" if at_most == math.inf else f"a number from 0 to {at_most:g}"
    if not (_is_number(value) and math.isfinite(value) and 0 <= value <= at_most):
        yield Problem(place, f"expected {wanted}, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _streams(streams: Sequence[Stream]) -> Iterator[Problem]:
    for stream in streams:
        yield from _number(("streams", stream.name, "rate"), stream.rate_per_second)
        yield from _number(("streams", stream.name, "tuple_bytes"), stream.tuple_bytes)
        if stream.source is not None:
            yield from _source(("streams", stream.name, "source"), stream.source)


def _source(place: tuple[str, ...], source: Source) -> Iterator[Problem]:
    """What Spark would refuse later, or would do without a word."""
    if not source.format:
        yield Problem((*place, "format"), "name a source: replay, rate, kafka, or another format")
    identity = source.identity
    if identity is not None and (not all(identity) or len(set(identity)) != len(identity)):
        yield Problem((*place, "identity"), "expected the names of different columns")
    yield from _number((*place, "watermark"), source.watermark_seconds)
    if (source.event_time is None) != (source.watermark_seconds is None):
        missing, given = ("event_time", "watermark")
        if source.watermark_seconds is None:
            missing, given = given, missing
        yield Problem((*place, missing), f"missing; {given} is of no use without it")


def _nodes(nodes: Sequence[Node]) -> Iterator[Problem]:
    for node in nodes:
        yield from _number(("nodes", node.name, "capacity"), node.capacity)


def _operators(
    operators: Sequence[Operator], streams: Sequence[Stream], nodes: Sequence[Node]
) -> Iterator[Problem]:
    sources = frozenset(s.name for s in streams) | {o.name for o in operators}
    node_names = frozenset(n.name for n in nodes)
    for operator in operators:
        place = ("operators", operator.name)
        for source in operator.inputs:
            if source not in sources:
                yield Problem(
                    (*place, "input"),
                    f"unknown stream or operator {source!r}{nearest(source, sources)}",
                )
        for source, count in Counter(operator.inputs).items():
            if count > 1:
                yield Problem(
                    (*place, "input"), f"{source!r} is given {count} times; once is enough"
                )
        if not operator.node:
            yield Problem(
                (*place, "node"),
                f"the operator is on no node; give it one{nearest('', node_names)}",
            )
        elif operator.node not in node_names:
            yield Problem(
                (*place, "node"),
                f"unknown node {operator.node!r}{nearest(operator.node, node_names)}",
            )
        yield from _arity(operator)
        yield from _answers(operator)
        yield from _number((*place, "cost"), operator.cost_seconds)
        yield from _number((*place, "selectivity"), operator.selectivity)
        yield from _number((*place, "tuple_bytes"), operator.tuple_bytes)


def _arity(operator: Operator) -> Iterator[Problem]:
    place = ("operators", operator.name)
    several = operator.kind in (OperatorKind.JOIN, OperatorKind.UNION)
    if several and len(operator.inputs) < 2:
        yield Problem((*place, "input"), f"a {operator.kind} needs at least 2 inputs")
    if operator.kind is not OperatorKind.SQL and not several and len(operator.inputs) != 1:
        yield Problem(
            (*place, "input"),
            f"a {operator.kind} takes 1 input, got {len(operator.inputs)}; "
            "put a union or a join in front",
        )
    if operator.kind is OperatorKind.SQL and not operator.inputs:
        yield Problem((*place, "input"), "the operator has no input")
    windows = operator.window_tuples
    if windows is None:
        return
    if operator.kind is not OperatorKind.JOIN:
        yield Problem((*place, "windows"), f"only a join has windows; this is a {operator.kind}")
    elif len(windows) != len(operator.inputs):
        yield Problem(
            (*place, "windows"),
            f"expected a window for each of the {len(operator.inputs)} inputs, got {len(windows)}",
        )
    for window in windows:
        yield from _number((*place, "windows"), window)


def _answers(operator: Operator) -> Iterator[Problem]:
    """Key and time window: what a drop in front of the operator must not tear apart."""
    place = ("operators", operator.name)
    if operator.key is not None:
        if operator.kind is not OperatorKind.JOIN:
            yield Problem((*place, "key"), f"only a join has a key; this is a {operator.kind}")
        elif not all(operator.key) or len(set(operator.key)) != max(1, len(operator.key)):
            yield Problem((*place, "key"), "expected the names of different columns")
    window, slide = operator.window_seconds, operator.slide_seconds
    for field, value in (("window", window), ("slide", slide)):
        if value is None:
            continue
        if operator.kind is not OperatorKind.AGGREGATE:
            yield Problem(
                (*place, field), f"only an aggregate has a {field}; this is a {operator.kind}"
            )
        elif not (_is_number(value) and math.isfinite(value) and value > 0):
            yield Problem((*place, field), f"expected a number above 0, got {value!r}")
        elif field == "slide" and window is None:
            yield Problem((*place, field), "a slide needs a window; give its length")
        elif field == "slide" and _is_number(window) and value > (window or 0.0):
            message = f"longer than the window: {value!r} against {window!r}"
            yield Problem((*place, field), message)


def _queries(
    queries: Sequence[Query], operators: Sequence[Operator], streams: Sequence[Stream]
) -> Iterator[Problem]:
    sources = frozenset(s.name for s in streams) | {o.name for o in operators}
    for query in queries:
        place = ("queries", query.name)
        if query.input not in sources:
            yield Problem(
                (*place, "input"),
                f"no stream feeds the query: unknown stream or operator "
                f"{query.input!r}{nearest(query.input, sources)}",
            )
        yield from _number((*place, "weight"), query.weight)
        yield from _number((*place, "keep_at_least"), query.keep_at_least, at_most=1.0)
        yield from _number((*place, "latency"), query.latency_target_seconds)
        if query.sink is not None and not query.sink.format:
            yield Problem((*place, "sink", "format"), "name a sink: noop, console, kafka, or files")


def _links(links: Sequence[Link], nodes: Sequence[Node]) -> Iterator[Problem]:
    names = frozenset(n.name for n in nodes)
    for position, link in enumerate(links):
        for field, name in (("from", link.source), ("to", link.target)):
            if name not in names:
                yield Problem(
                    ("links", position, field), f"unknown node {name!r}{nearest(name, names)}"
                )
        if link.source == link.target:
            yield Problem(
                ("links", position), f"a link joins two nodes; both ends are {link.source!r}"
            )
        yield from _number(("links", position, "bandwidth"), link.bandwidth_bytes_per_second)
    last = {link.name: position for position, link in enumerate(links)}
    for name, count in Counter(link.name for link in links).items():
        if count > 1:
            message = f"the link {name} is given {count} times; keep one"
            yield Problem(("links", last[name]), message)


def _cycles(operators: Sequence[Operator]) -> Iterator[Problem]:
    """Operators, or else nodes, that pass tuples in a circle."""
    inputs = {o.name: list(o.inputs) for o in operators}
    found = False
    for cycle in _circles(inputs):
        found = True
        yield Problem(
            ("operators", cycle[-2], "input"),
            "the operators form a cycle: " + " -> ".join(reversed(cycle)),
        )
    if found:
        return
    node_of = {o.name: o.node for o in operators}
    before: dict[str, list[str]] = {}
    for operator in operators:
        senders = {node_of[i] for i in operator.inputs if i in node_of} - {operator.node, ""}
        before.setdefault(operator.node, []).extend(sorted(senders))
    for cycle in _circles(before):
        yield Problem(
            ("nodes", cycle[-2]),
            f"nodes send tuples in a circle: {' -> '.join(reversed(cycle))}; "
            "move operators so that data flows one way between nodes",
        )


def _circles(inputs: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """One circle of each tangle, against the flow, its first name also last."""
    done: set[str] = set()
    for start in inputs:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, int]] = [(start, 0)] if start not in done else []
        while stack:
            name, position = stack.pop()
            if position == 0:
                path.append(name)
                on_path.add(name)
            if position < len(inputs[name]):
                stack.append((name, position + 1))
                source = inputs[name][position]
                if source in on_path:
                    yield [*path[path.index(source) :], source]
                    done.update(on_path)
                    break
                if source in inputs and source not in done:
                    stack.append((source, 0))
            else:
                path.pop()
                on_path.discard(name)
                done.add(name)


def _unused(
    operators: Sequence[Operator], queries: Sequence[Query], streams: Sequence[Stream]
) -> Iterator[Problem]:
    """Operators whose output nobody takes, as far as every input is known."""
    sources = {s.name for s in streams} | {o.name for o in operators}
    taken = {i for o in operators for i in o.inputs} | {q.input for q in queries}
    if not queries or not taken <= sources or not all(o.inputs for o in operators):
        return  # one of the unknown inputs may be meant to take it
    for operator in operators:
        if operator.name not in taken:
            yield Problem(
                ("operators", operator.name),
                "no operator and no query takes its output; add a query or remove it",
            )


def _bytes(operators: Sequence[Operator], links: Sequence[Link]) -> Iterator[Problem]:
    """An operator whose output crosses a limited link must say how large a tuple is."""
    by_name = {o.name: o for o in operators}
    limited = {(link.source, link.target) for link in links}
    needy = {
        source
        for operator in operators
        for source in operator.inputs
        if source in by_name
        and (by_name[source].node, operator.node) in limited
        and by_name[source].tuple_bytes is None
    }
    for name in sorted(needy):
        yield Problem(
            ("operators", name, "tuple_bytes"),
            "its output crosses a link with a bandwidth; say how many bytes one tuple has",
        )
