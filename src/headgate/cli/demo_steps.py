"""The demo's numbers: one network under growing load, planned and not planned.

Pure: a network and load factors in, steps out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from headgate.cli.plan_tables import Usage, usage_of
from headgate.cli.rates import rates_at_scale
from headgate.network import Network, parse_network
from headgate.planning import ExactPlanner, Plan

__all__ = ["Step", "shop_network", "steps_at"]


@dataclass(frozen=True)
class Step:
    """The network at `scale` times its usual rates, with the best plan for it."""

    scale: float
    plan: Plan
    nodes: tuple[Usage, ...]
    links: tuple[Usage, ...]

    @property
    def fullest(self) -> Usage:
        """The node or link that limits the network if nothing is dropped."""
        return max((*self.nodes, *self.links), key=lambda usage: usage.asked)

    @property
    def falls_behind_seconds_per_minute(self) -> float:
        """Without drops, how much older the results get each minute.

        Work for u seconds arrives in a second: after a minute the node is at what
        arrived in the first 60 / u seconds.
        """
        return max(0.0, 60.0 * (1.0 - 1.0 / self.fullest.asked))

    @property
    def plan_share(self) -> float:
        """Weighted results under the plan, of those with unlimited machines."""
        return self.plan.score / self.plan.model.unshed(self.plan.rates).score

    @property
    def even_share(self) -> float:
        """The same if every input drops the same share, just enough to fit.

        Every load and result is linear in the input rates, so the share that fits
        is the share that is delivered.
        """
        return min(1.0, 1.0 / self.fullest.asked)


def shop_network() -> Network:
    """The demo's network: the same file as examples/shop.yaml."""
    text = (files("headgate.cli") / "shop.yaml").read_text(encoding="utf-8")
    return parse_network(text, file="shop.yaml")


def steps_at(network: Network, scales: Iterable[float]) -> Iterable[Step]:
    """A step for each load factor, computed when it is asked for; the planner stays warm."""
    planner = ExactPlanner(network)
    for scale in scales:
        plan = planner.plan(rates_at_scale(network, {}, scale))
        nodes, links = usage_of(plan)
        yield Step(scale, plan, tuple(nodes), tuple(links))
