"""What a network consists of, how loaded it is at its usual rates, and what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headgate.cli.numbers import byte_rate, number, percent
from headgate.cli.plan_tables import Usage, spaced, usage_table
from headgate.errors import StatisticsError
from headgate.network import Network, Operator, Statistics, check_rates
from headgate.planning import compile_flow

__all__ = ["Summary", "summarise", "summary_view"]

MOST_NAMES = 30
MOST_MISSING = 20


@dataclass(frozen=True)
class Summary:
    """`nodes` and `links` are empty as long as something in `missing` is not known."""

    name: str
    streams: dict[str, float | None]  # usual rate, tuples per second
    operators: dict[str, int]  # how many of each kind
    drop_locations: list[str]
    queries: list[str]
    node_names: list[str]
    nodes: list[Usage]
    links: list[Usage]
    missing: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; loads in CPU seconds and bytes per second."""
        return {
            "name": self.name,
            "streams_rate_per_second": self.streams,
            "operators": self.operators,
            "queries": self.queries,
            "nodes": self.node_names,
            "drop_locations": self.drop_locations,
            "load_at_usual_rates": {u.name: asdict(u) for u in (*self.nodes, *self.links)},
            "missing_statistics": self.missing,
        }


def summarise(network: Network) -> Summary:
    missing = list(_missing(network))
    nodes, links = ([], []) if missing else _usage_at_usual_rates(network)
    return Summary(
        name=network.name,
        streams={s.name: s.rate_per_second for s in network.streams},
        operators=dict(Counter(o.kind.value for o in network.operators)),
        drop_locations=[arc.name for arc in network.drop_locations],
        queries=[q.name for q in network.queries],
        node_names=[n.name for n in network.nodes],
        nodes=nodes,
        links=links,
        missing=missing,
    )


def _missing(network: Network) -> Iterator[str]:
    """One line for each number that a planner needs and nobody gave."""
    for stream in network.streams:
        if stream.rate_per_second is None:
            yield f"the rate of stream {stream.name}"
    statistics = Statistics()
    questions: tuple[tuple[str, Callable[[Operator], object]], ...] = (
        ("cost", statistics.cost_seconds),
        ("selectivity", statistics.selectivity),
    )
    for operator in network.operators:
        unknown = [what for what, ask in questions if not _known(ask, operator)]
        yield from (f"the {what} of operator {operator.name}" for what in unknown)
        if "selectivity" not in unknown and not _known(statistics.gains, operator):
            yield f"the windows of operator {operator.name}"


def _known(ask: Callable[[Operator], object], operator: Operator) -> bool:
    try:
        ask(operator)
    except StatisticsError:
        return False
    return True


def _usage_at_usual_rates(network: Network) -> tuple[list[Usage], list[Usage]]:
    model = compile_flow(network)
    loads = model.unshed(model.rates(check_rates(network, {}))).loads.tolist()
    rows = zip(model.constraints, loads, model.capacities.tolist(), strict=True)
    usages = [Usage(name, load, capacity, load) for name, load, capacity in rows]
    return usages[: model.node_count], usages[model.node_count :]


def summary_view(summary: Summary) -> Group:
    """The summary for a person."""
    valid = Text.assemble((summary.name, "bold"), " is valid.")
    rest = [_missing_view(summary.missing)] if summary.missing else _load_view(summary)
    return spaced([valid, _facts(summary), *rest])


def _facts(summary: Summary) -> Table:
    kinds = [f"{count} {kind}" for kind, count in summary.operators.items()]
    streams = [
        f"{name} {'rate not known' if rate is None else number(rate) + '/s'}"
        for name, rate in summary.streams.items()
    ]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    for what, names in (("streams", streams), ("queries", summary.queries)):
        table.add_row(what, str(len(names)), _some(names))
    table.add_row("operators", str(sum(summary.operators.values())), _some(kinds))
    table.add_row("nodes", str(len(summary.node_names)), _some(summary.node_names))
    table.add_row("drop at", str(len(summary.drop_locations)), _some(summary.drop_locations))
    return table


def _missing_view(missing: Sequence[str]) -> Text:
    text = Text("Not known yet, so no load and no plan can be computed:\n", style="yellow")
    for what in missing[:MOST_MISSING]:
        text.append(f"  {what}\n")
    if len(missing) > MOST_MISSING:
        text.append(f"  and {len(missing) - MOST_MISSING} more; --json has all\n")
    return text.append("Give them in the file. A rate can also be given with plan --rates.")


def _load_view(summary: Summary) -> list[RenderableType]:
    usages = [*summary.nodes, *summary.links]
    parts: list[RenderableType] = [
        usage_table("Nodes at the usual rates, CPU s/s", "node", summary.nodes)
    ]
    if summary.links:
        parts.append(usage_table("Links at the usual rates", "link", summary.links, byte_rate))
    fullest = max(usages, key=lambda usage: usage.used)
    if fullest.used > 1.0:
        text = f"Overloaded: {fullest.name} is asked for {percent(fullest.used)} of its capacity."
        return [*parts, Text(text, style="yellow")]
    if fullest.used > 0.0:
        text = (
            f"Fits. {fullest.name} fills up first, at {1.0 / fullest.used:.2f} times these rates."
        )
        return [*parts, Text(text, style="green")]
    return parts


def _some(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
