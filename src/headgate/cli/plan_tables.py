"""A plan as tables: where to drop, what that does to nodes and links, who gets what."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headgate.cli.numbers import bar, byte_rate, number, percent
from headgate.network import Query
from headgate.planning import DropKind, Objective, Plan

__all__ = [
    "Usage",
    "locations_table",
    "plan_view",
    "queries_table",
    "quiet_table",
    "spaced",
    "usage_of",
    "usage_table",
    "verdict",
]

MOST_ROWS = 40
BAR_WIDTH = 12
PROVEN_GAP = 1e-6
_FULL = 1.0 - 1e-7

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of a node or link a plan uses, and what would be asked of it without drops."""

    name: str
    load: float
    capacity: float
    load_without_drops: float

    @property
    def used(self) -> float:
        return _ratio(self.load, self.capacity)

    @property
    def asked(self) -> float:
        return _ratio(self.load_without_drops, self.capacity)


def plan_view(plan: Plan) -> Group:
    """Everything a person wants to know of a plan, from top to bottom."""
    nodes, links = usage_of(plan)
    parts: list[RenderableType] = [_heading(plan), locations_table(plan)]
    parts.append(usage_table("Nodes, CPU seconds per second", "node", nodes, with_asked=True))
    if links:
        parts.append(usage_table("Links", "link", links, byte_rate, with_asked=True))
    return spaced([*parts, queries_table(plan), verdict(plan)])


def spaced(parts: Sequence[RenderableType]) -> Group:
    """The parts below each other, an empty line between them."""
    lines: list[RenderableType] = [line for part in parts for line in (part, Text())]
    return Group(*lines[:-1])


def usage_of(plan: Plan) -> tuple[list[Usage], list[Usage]]:
    """The nodes and the links, in the network's order."""
    model = plan.model
    asked = model.unshed(plan.rates).loads
    rows = zip(model.constraints, plan.flow.loads, model.capacities, asked, strict=True)
    usages = [Usage(name, float(a), float(b), float(c)) for name, a, b, c in rows]
    return usages[: model.node_count], usages[model.node_count :]


def verdict(plan: Plan) -> Text:
    """What the plan achieves and how far from the best it can be, in words."""
    if not plan.sheds:
        return Text("Everything fits: nothing is dropped.", style="green")
    full_score = plan.model.unshed(plan.rates).score
    share = plan.score / full_score if full_score > 0.0 else 1.0
    text = Text(f"Score {number(plan.score)} weighted tuples/s, {percent(share)} ")
    text.append(f"of the {number(full_score)} that unlimited machines would give.\n")
    fair = plan.objective is Objective.FAIRNESS
    if fair:
        text.append(f"The query that loses most keeps {percent(plan.objective_value)}.\n")
    best = percent(plan.objective_bound) if fair else number(plan.objective_bound)
    reached = "keeps more of every query than" if fair else "scores more than"
    if plan.gap < PROVEN_GAP:
        text.append("Proven optimal", style="bold green")
    else:
        text.append(f"At most {percent(plan.gap)} below the best plan", style="bold yellow")
    text.append(f": no plan {reached} {best}.")
    broken = _below_guarantee(plan)
    if broken:
        names = ", ".join(broken)
        text.append(f"\nBelow its guaranteed minimum: {names}.", style="bold red")
        text.append(f" The planner {plan.planner} does not promise minimums; exact does.")
    return text.append_text(_answers(plan))


def _answers(plan: Plan) -> Text:
    """What the plan does about locations where every kind of drop is wrong for something."""
    text = Text()
    for name in plan.spared:
        text.append(f"\n{name} keeps everything", style="bold")
        text.append(" so that answers stay right: its branches drop, each in its own way.")
    for name, conflict in plan.mixed_drops.items():
        text.append(f"\n{name} drops at random", style="bold red")
        text.append(f", because {conflict}.")
    if plan.mixed_drops and plan.planner != "exact":
        text.append(f" The planner {plan.planner} does not look at that; exact does.")
    return text


def _below_guarantee(plan: Plan) -> list[str]:
    keeps = plan.query_keep_fraction
    queries = plan.model.network.queries
    return [q.name for q in queries if keeps[q.name] < q.keep_at_least - 1e-6]


def usage_table(
    title: str,
    what: str,
    usages: Sequence[Usage],
    shown_as: Callable[[float], str] = number,
    *,
    with_asked: bool = False,
) -> Table:
    """Load against capacity as bars; `with_asked` adds the demand, the load without drops."""
    extra = ["demand"] if with_asked else []
    table = _table(title, what, "load", "capacity", "used", "", *extra)
    shown = _lowest(usages, [-usage.asked for usage in usages])
    for usage in shown:
        row = [shown_as(usage.load), shown_as(usage.capacity), percent(usage.used)]
        asked = [_asked(usage)] if with_asked else []
        table.add_row(usage.name, *row, _used_bar(usage), *asked)
    return _with_note(table, len(usages) - len(shown))


def _used_bar(usage: Usage) -> Text:
    over = usage.used > 1.0 + 1e-9
    style = "red" if over else "yellow" if usage.used >= _FULL else "green"
    return Text(bar(usage.used), style=style)


def _asked(usage: Usage) -> Text:
    return Text(percent(usage.asked), style="bold red" if usage.asked > 1.0 else "")


def _heading(plan: Plan) -> Text:
    network = plan.model.network
    rates = ", ".join(
        f"{name} {number(rate)}/s"
        for name, rate in zip(network.stream_by_name, plan.rates.tolist(), strict=True)
    )
    total = f"{number(float(np.sum(plan.rates)))} tuples/s"
    arriving = rates if len(network.streams) <= 6 else f"{len(network.streams)} streams, {total}"
    heading = Text.assemble((network.name, "bold"), f" at {arriving}\n")
    return heading.append(f"planner {plan.planner}, objective {plan.objective}", style="dim")


def locations_table(plan: Plan) -> Table:
    flow = plan.flow
    rows = list(
        zip(plan.keep_fraction.items(), flow.offered.tolist(), flow.kept.tolist(), strict=True)
    )
    shown = _lowest(rows, list(plan.keep_fraction.values()))
    table = _table("Where to drop", "arc", "offered/s", "kept/s", "keep", "")
    chosen = any(drop.kind is not DropKind.RANDOM for drop in plan.drops.values())
    if chosen:
        table.add_column("drop", justify="left")
    for (name, keep), offered, kept in shown:
        cells = _keep(keep) if offered > 0.0 else ("-", "")
        wrong = " (!)" if name in plan.mixed_drops else ""
        drop = [f"{plan.drops[name]}{wrong}"] if chosen else []
        table.add_row(name, number(offered), number(kept), *cells, *drop)
    return _with_note(table, len(rows) - len(shown))


def queries_table(plan: Plan) -> Table:
    queries = plan.model.network.queries
    guaranteed = any(query.keep_at_least > 0.0 for query in queries)
    columns = ["query", "weight", "rate/s", "keep", ""]
    table = _table("Queries", *columns, *(["at least"] if guaranteed else []), "class")
    table.columns[-1].justify = "left"
    keeps = plan.query_keep_fraction
    shown = _lowest(queries, [keeps[query.name] for query in queries])
    for query in shown:
        table.add_row(
            query.name,
            f"{query.weight:g}",
            number(plan.query_rate_per_second[query.name]),
            *_keep(keeps[query.name]),
            *([_guarantee(query)] if guaranteed else []),
            query.query_class or "-",
        )
    return _with_note(table, len(queries) - len(shown))


def _guarantee(query: Query) -> str:
    return percent(query.keep_at_least) if query.keep_at_least > 0.0 else "-"


def _keep(fraction: float) -> tuple[Text, Text]:
    style = "" if fraction >= _FULL else "yellow" if fraction > 0.0 else "red"
    return Text(percent(fraction), style=style), Text(bar(fraction), style=style or "green")


def quiet_table(title: str | None = None) -> Table:
    """The look of all tables: a bold title, a line below the header, no frame."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )


def _table(title: str, *columns: str) -> Table:
    """A quiet table: names and bars to the left, numbers to the right."""
    table = quiet_table(title)
    for position, column in enumerate(columns):
        left = position == 0 or not column
        table.add_column(column, justify="left" if left else "right", no_wrap=position > 0)
        if not column:
            table.columns[-1].min_width = BAR_WIDTH
    return table


def _lowest(rows: Iterable[T], keys: Sequence[float]) -> list[T]:
    """All rows if they are few; else those with the smallest keys, in their own order."""
    everything = list(rows)
    order = sorted(range(len(everything)), key=lambda i: keys[i])[:MOST_ROWS]
    return [everything[i] for i in sorted(order)]


def _with_note(table: Table, hidden: int) -> Table:
    if hidden > 0:
        table.caption = f"{hidden} more are not shown; --json has all"
        table.caption_justify = "left"
    return table


def _ratio(load: float, capacity: float) -> float:
    if capacity > 0.0:
        return load / capacity
    return math.inf if load > 0.0 else 0.0
