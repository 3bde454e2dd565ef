"""The example files load, and hold the numbers of the papers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.network import Network, OperatorKind, dump_network, load_network, parse_network
from tests.random_networks import arc_rates, node_loads

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def example(name: str) -> Network:
    return load_network(EXAMPLES / f"{name}.yaml")


def costs(network: Network, node: str) -> list[float | None]:
    return [o.cost_seconds for o in network.operators if o.node == node]


def fullness(network: Network) -> dict[str, float]:
    """Load by capacity for every node, and bytes by bandwidth for every link."""
    rates = arc_rates(network)
    full = {n.name: node_loads(network)[n.name] / n.capacity for n in network.nodes}
    for link in network.links:
        crossing = [
            rates[arc.source] * (network.operator_by_name[arc.source].tuple_bytes or 0.0)
            for arc in network.arcs
            if (network.node_of(arc.source), network.node_of(arc.target))
            == (link.source, link.target)
        ]
        full[link.name] = sum(crossing) / link.bandwidth_bytes_per_second
    return full


def at(network: Network, factor: float) -> Network:
    streams = [
        replace(s, rate_per_second=(s.rate_per_second or 0.0) * factor) for s in network.streams
    ]
    return replace(network, streams=tuple(streams))


def test_all_are_there():
    assert [file.stem for file in FILES] == [
        *(f"figure9{letter}" for letter in "abcde"),
        *("inputs4", "inputs8", "shop", "split-on-spark", "split", "spread", "table1"),
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_loads_says_what_it_is_and_comes_back(file: Path):
    network = load_network(file)
    assert network.name == file.stem
    assert file.read_text().startswith("# ")
    assert parse_network(dump_network(network)) == network
    assert all(stream.rate_per_second is not None for stream in network.streams)


def test_table1():
    network = example("table1")
    assert costs(network, "A") == [1.0, 2.0]
    assert costs(network, "B") == [3.0, 1.0]
    assert {o.selectivity for o in network.operators} == {1.0}
    assert [s.rate_per_second for s in network.streams] == [1.0, 1.0]


def test_split():
    network = example("split")
    assert costs(network, "A") == [1.0, 2.0, 5.0]
    assert node_loads(network) == {"A": pytest.approx(8 * 0.2)}
    assert [arc.name for arc in network.drop_locations] == [
        "a->shared",
        "shared->light",
        "shared->heavy",
    ]


def test_spread():
    network = example("spread")
    assert costs(network, "B") == [3.0, 1.0]
    assert [o.selectivity for o in network.operators] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [
        ("figure9a", [48, 48]),
        ("figure9b", [64, 32]),
        ("figure9c", [72, 24]),
        ("figure9d", [80, 16]),
        ("figure9e", [88, 8]),
        ("inputs4", [32, 16, 32, 16]),
        ("inputs8", [16, 8, 16, 8, 16, 8, 16, 8]),
    ],
)
def test_two_servers_with_swapped_costs(name: str, milliseconds: list[int]):
    network = example(name)
    swapped = [milliseconds[i ^ 1] for i in range(len(milliseconds))]
    assert costs(network, "first") == [value / 1000 for value in milliseconds]
    assert costs(network, "second") == [value / 1000 for value in swapped]
    assert len(network.streams) == len(network.queries) == len(milliseconds)
    assert node_loads(network) == pytest.approx({"first": 1.92, "second": 1.92})


def test_shop_is_fine_at_its_usual_rates_and_overloaded_at_three_times():
    shop = example("shop")
    usual, busy = fullness(shop), fullness(at(shop, 3.0))
    assert set(usual) == {"ingest", "analytics", "serving", "ingest->analytics"}
    assert all(0.4 < value < 0.8 for value in usual.values())
    assert all(value > 1.0 for value in busy.values())


def test_shop_has_one_of_everything():
    shop = example("shop")
    kinds = {o.kind for o in shop.operators}
    assert kinds == set(OperatorKind) - {OperatorKind.DELAY}
    assert {q.query_class for q in shop.queries} == {"gold", "silver", "bronze"}
    assert all(q.latency_target_seconds for q in shop.queries)
    assert any(q.keep_at_least for q in shop.queries)
    assert {a.source for a in shop.drop_locations} > {"enriched", "matched", "sessions"}
    assert dict(shop.children_of) == {
        "ingest": ("analytics",),
        "analytics": ("serving",),
        "serving": (),
    }
