"""Everything that can be wrong with a network, found in one pass.

`problems_of` never raises: it returns all problems, each with the path of the
field, what was expected and, for an unknown name, the nearest name that exists.
Cost: linear in the size of the network, except for the nearest-name search,
which runs only on errors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from headgate.errors import Problem
from headgate.network.elements import Link, Node, Operator, OperatorKind, Query, Stream

__all__ = ["nearest", "problems_of"]


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint that ends an error message: the closest valid name, or all of a few."""
    names = sorted(set(valid))
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return "; none is defined"
    shown = ", ".join(repr(n) for n in names[:8])
    return f"; expected one of {shown}" + (", ..." if len(names) > 8 else "")


def problems_of(
    streams: Sequence[Stream],
    operators: Sequence[Operator],
    queries: Sequence[Query],
    nodes: Sequence[Node],
    links: Sequence[Link],
) -> list[Problem]:
    """Every problem of the described network; an empty list means it is valid."""
    problems = [
        *_names(streams, operators, queries, nodes),
        *_streams(streams),
        *_nodes(nodes),
        *_operators(operators, streams, nodes),
        *_queries(queries, operators, streams),
        *_links(links, nodes),
    ]
    if problems:
        return problems  # the graph checks below assume that every name resolves
    return [*_cycles(operators), *_reach(operators, queries, nodes), *_bytes(operators, links)]


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
    if not (math.isfinite(value) and 0 <= value <= at_most):
        yield Problem(place, f"expected {wanted}, got {value!r}")


def _streams(streams: Sequence[Stream]) -> Iterator[Problem]:
    for stream in streams:
        yield from _number(("streams", stream.name, "rate"), stream.rate_per_second)
        yield from _number(("streams", stream.name, "tuple_bytes"), stream.tuple_bytes)


def _nodes(nodes: Sequence[Node]) -> Iterator[Problem]:
    for node in nodes:
        yield from _number(("nodes", node.name, "capacity"), node.capacity)


def _operators(
    operators: Sequence[Operator], streams: Sequence[Stream], nodes: Sequence[Node]
) -> Iterator[Problem]:
    sources = {s.name for s in streams} | {o.name for o in operators}
    node_names = {n.name for n in nodes}
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
            yield Problem((*place, "node"), "the operator is on no node; give it one")
        elif operator.node not in node_names:
            yield Problem(
                (*place, "node"),
                f"unknown node {operator.node!r}{nearest(operator.node, node_names)}",
            )
        yield from _arity(operator)
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


def _queries(
    queries: Sequence[Query], operators: Sequence[Operator], streams: Sequence[Stream]
) -> Iterator[Problem]:
    sources = {s.name for s in streams} | {o.name for o in operators}
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


def _links(links: Sequence[Link], nodes: Sequence[Node]) -> Iterator[Problem]:
    names = {n.name for n in nodes}
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
    for name, count in Counter(link.name for link in links).items():
        if count > 1:
            yield Problem(("links",), f"the link {name} is given {count} times")


def _cycles(operators: Sequence[Operator]) -> Iterator[Problem]:
    """Name one cycle of each tangle of operators that cannot be ordered."""
    inputs = {o.name: list(o.inputs) for o in operators}
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
            following = [i for i in inputs[name] if i in inputs]
            if position < len(following):
                stack.append((name, position + 1))
                source = following[position]
                if source in on_path:
                    cycle = [*path[path.index(source) :], source]
                    yield Problem(
                        ("operators", name, "input"),
                        "the operators form a cycle: " + " -> ".join(reversed(cycle)),
                    )
                    done.update(on_path)
                    break
                if source not in done:
                    stack.append((source, 0))
            else:
                path.pop()
                on_path.discard(name)
                done.add(name)


def _reach(
    operators: Sequence[Operator], queries: Sequence[Query], nodes: Sequence[Node]
) -> Iterator[Problem]:
    """Operators whose output nobody takes, and nodes that pass tuples in a circle."""
    taken = {i for o in operators for i in o.inputs} | {q.input for q in queries}
    for operator in operators:
        if operator.name not in taken:
            yield Problem(
                ("operators", operator.name),
                "no operator and no query takes its output; add a query or remove it",
            )
    node_of = {o.name: o.node for o in operators}
    after: dict[str, set[str]] = {n.name: set() for n in nodes}
    for operator in operators:
        for source in operator.inputs:
            if source in node_of and node_of[source] != operator.node:
                after[node_of[source]].add(operator.node)
    remaining = dict(after)
    while remaining:
        targets = {t for outs in remaining.values() for t in outs}
        roots = [name for name in remaining if name not in targets]
        if not roots:
            names = " and ".join(sorted(targets & set(remaining)))
            yield Problem(
                ("nodes",),
                f"the nodes {names} send tuples to each other in a circle; "
                "move operators so that data flows one way between nodes",
            )
            return
        for name in roots:
            del remaining[name]


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
