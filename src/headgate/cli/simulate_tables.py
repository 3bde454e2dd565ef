"""A simulated run as tables and as plain data."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headgate.cli.numbers import number, percent
from headgate.cli.plan_tables import quiet_table, spaced
from headgate.network import Network
from headgate.simulation.latency_histogram import LatencyHistogram
from headgate.simulation.record import NodeOutcome, SimulationResult

__all__ = ["result_to_dict", "result_view"]

MOST_ROWS = 40


def result_view(network: Network, result: SimulationResult) -> Group:
    """Queries, jobs, nodes, alarms and the books, from top to bottom."""
    settings = result.settings
    heading = Text(f"{network.name}, simulated", style="bold")
    heading.append(
        f": {number(result.seconds)} s, seed {settings.seed}, {settings.service.value}, "
        f"controller {settings.controller}, plan {settings.planning.value}",
        style="not bold",
    )
    parts: list[RenderableType] = [heading, _queries(result), _jobs(result), _nodes(result)]
    if result.alarms:
        parts.append(_alarms(result))
    return spaced([*parts, _books(result)])


def _queries(result: SimulationResult) -> Table:
    table = quiet_table("Queries: results, from the oldest arrival")
    table.add_column("query", overflow="fold")
    for title in ("results", "kept", "mean", "95 %", "largest", "target"):
        table.add_column(title, justify="right", no_wrap=True)
    for query in list(result.queries.values())[:MOST_ROWS]:
        table.add_row(
            query.name,
            f"{query.results:,}",
            percent(query.kept_share),
            *_latency_cells(query.latency),
            _seconds(query.target_seconds),
        )
    return table


def _jobs(result: SimulationResult) -> Table:
    table = quiet_table("Jobs: tuples at their gates, and the time they spend in the job")
    table.add_column("job", overflow="fold")
    jobs = list(result.jobs.values())
    some_lost = any(job.lost for job in jobs)
    titles = ["arrived", "dropped", "waiting", *(["lost"] if some_lost else [])]
    for title in (*titles, "mean", "95 %", "target"):
        table.add_column(title, justify="right", no_wrap=True)
    for job in jobs[:MOST_ROWS]:
        counts = [job.arrived, job.dropped, job.waiting, *([job.lost] if some_lost else [])]
        table.add_row(
            job.name,
            *(f"{count:,}" for count in counts),
            *_latency_cells(job.latency)[:2],
            _seconds(job.target_seconds),
        )
    return table


def _nodes(result: SimulationResult) -> Table:
    table = quiet_table("Nodes")
    table.add_column("node", overflow="fold")
    table.add_column("CPU", justify="right")
    table.add_column("failures")
    for node in list(result.nodes.values())[:MOST_ROWS]:
        table.add_row(node.name, percent(_used(node, result)), _failures(node))
    return table


def _used(node: NodeOutcome, result: SimulationResult) -> float:
    """Share of the capacity over the whole run."""
    if node.capacity <= 0.0:
        return 0.0
    return node.busy_seconds / (node.capacity * result.seconds)


def _failures(node: NodeOutcome) -> str:
    return ", ".join(f"{why.value} at {at:.4g} s" for at, why in node.failures)


def _alarms(result: SimulationResult) -> Text:
    text = Text("Alarms", style="bold yellow")
    for alarm, count in result.alarms.most_common(10):
        text.append(f"\n  {count} x {alarm}", style="not bold")
    return text


def _books(result: SimulationResult) -> Text:
    """The one sentence that every tuple is accounted for."""
    balanced = result.ledger_balances and all(job.balances for job in result.jobs.values())
    if not balanced:
        return Text("The books do not balance.", style="bold red")
    text = Text("Every tuple is accounted for: ", style="green")
    text.append("arrived = processed + dropped + waiting + lost, offered = kept + dropped.")
    return text


def _latency_cells(latency: LatencyHistogram) -> list[str]:
    return [
        _seconds(latency.mean_seconds),
        _seconds(latency.percentile_seconds(95.0)),
        _seconds(latency.largest_seconds if latency.count else None),
    ]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{number(value)} s"


def result_to_dict(network: Network, result: SimulationResult) -> dict[str, Any]:
    """Plain data for JSON."""
    settings = result.settings
    return {
        "simulated": True,
        "network": network.name,
        "seconds": result.seconds,
        "seed": settings.seed,
        "service": settings.service.value,
        "controller": settings.controller,
        "planning": settings.planning.value,
        "queries": {
            q.name: {
                "results": q.results,
                "missed_results": q.missed,
                "kept_share": q.kept_share,
                "target_seconds": q.target_seconds,
                **_latency_dict(q.latency),
            }
            for q in result.queries.values()
        },
        "jobs": {
            job.name: {
                "node": job.node,
                "arrived": job.arrived,
                "processed": job.processed,
                "dropped": job.dropped,
                "waiting": job.waiting,
                "lost": job.lost,
                "target_seconds": job.target_seconds,
                **_latency_dict(job.latency),
            }
            for job in result.jobs.values()
        },
        "nodes": {
            node.name: {
                "cpu_share": _used(node, result),
                "failures": [{"at_seconds": at, "cause": why.value} for at, why in node.failures],
            }
            for node in result.nodes.values()
        },
        "alarms": dict(result.alarms),
        "decisions": result.decisions,
        "messages": result.messages,
        "ledger_balances": result.ledger_balances,
    }


def _latency_dict(latency: LatencyHistogram) -> dict[str, float | None]:
    return {
        "latency_mean_seconds": latency.mean_seconds,
        "latency_p95_seconds": latency.percentile_seconds(95.0),
        "latency_max_seconds": latency.largest_seconds if latency.count else None,
    }
