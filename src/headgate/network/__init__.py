"""Describe: streams, operators, arcs, queries, nodes, links and what is known of them.

Depends on nothing but `headgate.errors`. Everything here is data; decisions are
taken in the layers above.
"""

from headgate.network.builder import NetworkBuilder
from headgate.network.elements import (
    Arc,
    Link,
    Node,
    Operator,
    OperatorKind,
    Query,
    Sink,
    Source,
    Stream,
)
from headgate.network.model import Network
from headgate.network.statistics import OperatorStatistics, Statistics, check_rates
from headgate.network.yaml_dump import dump_network
from headgate.network.yaml_file import load_network, parse_network

__all__ = [
    "Arc",
    "Link",
    "Network",
    "NetworkBuilder",
    "Node",
    "Operator",
    "OperatorKind",
    "OperatorStatistics",
    "Query",
    "Sink",
    "Source",
    "Statistics",
    "Stream",
    "check_rates",
    "dump_network",
    "load_network",
    "parse_network",
]
