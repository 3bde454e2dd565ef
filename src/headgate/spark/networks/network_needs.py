"""What a network file lacks to be run on Spark. Pure, no pyspark.

Each problem names the field to add. With stand-ins, what has no code is stood in for by an
operator of the described cost and selectivity, and a stream without a source by the replay
source at the described rate.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.errors import Problem
from headgate.network import Network, Operator, OperatorKind, Query, Stream
from headgate.network.yaml_spark import python_function

__all__ = ["problems_to_run", "stood_in_for"]

_STAND_INS = "or run with stand-ins for what has no code"
_WITH_SCHEMA = ("csv", "json", "orc", "parquet", "xml")
_NEEDS_PATH = (*_WITH_SCHEMA, "avro", "text")


def stood_in_for(network: Network) -> frozenset[str]:
    """Streams and operators that stand-ins take the place of, if they are wanted.

    Code behind a stand-in does not find the columns that it reads: it is stood in for too.
    """
    stood = {stream.name for stream in network.streams if stream.source is None}
    for operator in network.operators_in_order:
        if operator.code is None or not stood.isdisjoint(operator.inputs):
            stood.add(operator.name)
    return frozenset(stood)


def problems_to_run(network: Network, stand_ins: bool) -> list[Problem]:
    """Every field that is missing or cannot be meant; empty means that it can be started."""
    stood = stood_in_for(network) if stand_ins else frozenset()
    return [
        *(p for stream in network.streams for p in _stream(stream, stand_ins)),
        *(p for o in network.operators for p in _operator(o, stand_ins, o.name in stood)),
        *(p for query in network.queries for p in _query(query)),
    ]


def _stream(stream: Stream, stand_ins: bool) -> Iterator[Problem]:
    place = ("streams", stream.name)
    if stream.source is None:
        if not stand_ins:
            yield Problem(
                (*place, "source"),
                "missing; say where Spark reads the stream, for example "
                f"{{format: replay, options: {{rate: 1000}}}}, {_STAND_INS}",
            )
        elif not stream.rate_per_second:
            yield Problem((*place, "rate"), "missing; a stand-in arrives at the described rate")
    elif stream.source.format in _WITH_SCHEMA and stream.source.schema is None:
        yield Problem(
            (*place, "source", "schema"),
            f"missing; Spark does not guess the columns of {stream.source.format} in a "
            "stream: give them, for example 'id bigint, text string'",
        )


def _operator(operator: Operator, stand_ins: bool, stood: bool) -> Iterator[Problem]:
    place = ("operators", operator.name)
    code = operator.code
    if code is not None and not stood:
        if python_function(code) is None and len(code.split()) < 2:
            yield Problem(
                (*place, "code"),
                f"expected SQL or module:function of your own code, got {code.strip()[:40]!r}",
            )
        return
    if operator.kind is OperatorKind.UNION:
        return
    if operator.kind is not OperatorKind.DELAY and not stand_ins:
        yield Problem(
            (*place, "code"),
            f"missing; a {operator.kind} needs SQL or module:function of your own code, "
            f"{_STAND_INS}",
        )
        return
    yield from _stand_in(place, operator)


def _stand_in(place: tuple[str, ...], operator: Operator) -> Iterator[Problem]:
    if operator.cost_seconds is None:
        yield Problem((*place, "cost"), "missing; it is what the operator takes for a tuple")
    if operator.selectivity is None and operator.kind is not OperatorKind.MAP:
        yield Problem((*place, "selectivity"), "missing; it is the share of tuples that pass")
    if operator.kind is OperatorKind.JOIN and operator.window_tuples is None:
        yield Problem((*place, "windows"), "missing; they say how many tuples a tuple meets")


def _query(query: Query) -> Iterator[Problem]:
    sink = query.sink
    if sink is None:
        return
    options = dict(sink.options)
    place = ("queries", query.name, "sink", "options")
    if sink.format in _NEEDS_PATH and "path" not in options:
        yield Problem((*place, "path"), f"missing; {sink.format} is written into a directory")
    if sink.format == "kafka" and "kafka.bootstrap.servers" not in options:
        yield Problem((*place, "kafka.bootstrap.servers"), "missing; name the brokers")
