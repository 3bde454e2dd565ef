"""What the demo shows in the terminal: the live screen and the tables after it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headgate.cli.demo_steps import Step
from headgate.cli.numbers import bar, number, percent
from headgate.cli.plan_tables import quiet_table, spaced

__all__ = ["comparison_table", "introduction", "keep_table", "live_view"]

_DEMAND_SHOWN = 2.5  # the live bars end at 250 % of a capacity
_DEMAND_WIDTH = 40
_KEEP_WIDTH = 24


def introduction(network_name: str, streams: int, nodes: int, queries: int) -> Panel:
    text = Text.assemble(
        (f"{network_name}: {streams} streams, {nodes} nodes, {queries} queries. ", "bold"),
        "At the usual load everything fits. Then it is Monday morning and the load grows ",
        "to three times the usual. Something has to go: what, where, and whose?\n\n",
        ("Simulated: this plans on a model of the network. It does not run Spark.", "yellow"),
    )
    return Panel(text, title="Headgate", title_align="left", border_style="blue", padding=(0, 1))


def live_view(step: Step) -> Group:
    """One frame: the load, what it asks of each node, what each query keeps."""
    rate = number(float(step.plan.rates.sum()))
    heading = Text.assemble(("Load ", "bold"), (f"{step.scale:.2f}x", "bold cyan"))
    heading.append(f", {rate} tuples/s. Planned anew for every frame.")
    return spaced([heading, _demand_rows(step), _keep_rows(step)])


def _demand_rows(step: Step) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=18)
    table.add_column(width=_DEMAND_WIDTH)
    table.add_column(justify="right", width=6)
    table.add_column()
    table.add_row("", Text("demand without drops", style="dim"), "", Text("planned", style="dim"))
    for usage in (*step.nodes, *step.links):
        planned = Text(percent(usage.used), style="yellow" if usage.used > 0.999 else "green")
        table.add_row(usage.name, _demand_bar(usage.asked), percent(usage.asked), planned)
    return table


def _demand_bar(asked: float) -> Text:
    """Green up to the capacity, red beyond it."""
    limit = round(_DEMAND_WIDTH / _DEMAND_SHOWN)
    blocks = bar(asked / _DEMAND_SHOWN, _DEMAND_WIDTH)
    return Text.assemble((blocks[:limit], "green"), (blocks[limit:], "red"))


def _keep_rows(step: Step) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=18)
    table.add_column(width=_DEMAND_WIDTH)
    table.add_column(justify="right", width=6)
    table.add_row("", Text("what each query keeps", style="dim"))
    for query, keep in step.plan.query_keep_fraction.items():
        blocks = Text(bar(keep, _KEEP_WIDTH), style=_keep_style(keep))
        table.add_row(query, blocks, Text(percent(keep), style=_keep_style(keep)))
    return table


def keep_table(steps: Sequence[Step]) -> Table:
    """What each query keeps at each load."""
    table = quiet_table("What each query keeps under the plan")
    table.add_column("query")
    table.add_column("class")
    table.add_column("weight", justify="right")
    for step in steps:
        table.add_column(f"{step.scale:g}x load", justify="right")
    for query in steps[0].plan.model.network.queries:
        keeps = [step.plan.query_keep_fraction[query.name] for step in steps]
        cells = [Text(percent(keep), style=_keep_style(keep)) for keep in keeps]
        table.add_row(query.name, query.query_class or "-", f"{query.weight:g}", *cells)
    return table


def comparison_table(steps: Sequence[Step]) -> Table:
    """Doing nothing, dropping evenly and the plan, side by side."""
    table = quiet_table("Three ways to take the load")
    table.add_column("")
    for step in steps:
        table.add_column(f"{step.scale:g}x load", justify="right")
    table.add_row("no drops: fullest part", *(_fullest(step) for step in steps))
    table.add_row("no drops: results get older by", *(_lag(step) for step in steps))
    even = (percent(step.even_share) for step in steps)
    table.add_row("even drops at all inputs: results by weight", *even)
    planned = (Text(percent(step.plan_share), style="green") for step in steps)
    table.add_row("the plan: results by weight", *planned)
    return table


def _fullest(step: Step) -> Text:
    asked = step.fullest.asked
    return Text(f"{step.fullest.name} {percent(asked)}", style="red" if asked > 1.0 else "")


def _lag(step: Step) -> Text:
    seconds = step.falls_behind_seconds_per_minute
    return Text(f"{seconds:.0f} s/min" if seconds else "-", style="red" if seconds else "")


def _keep_style(keep: float) -> str:
    return "green" if keep >= 0.9999 else "yellow" if keep > 0.0 else "red"
