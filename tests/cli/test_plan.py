"""`headgate plan`: tables, JSON, and what it says when the input is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.cli.rates import parse_fraction
from headgate.errors import UsageError
from tests.cli.conftest import Headgate


def test_shows_where_to_drop_and_that_it_is_optimal(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains)
    assert result.exit_code == 0
    assert "a->a1           1      0.2   20.0 %" in result.stdout
    assert "b->b1           1      0.4   40.0 %" in result.stdout
    assert "300 %" in result.stdout
    assert "Proven optimal: no plan scores more than 0.6." in result.stdout


def test_a_load_that_fits_is_not_shed(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains, "--rates", "a=0.1,b=0.1")
    assert result.exit_code == 0
    assert "Everything fits: nothing is dropped." in result.stdout


def test_json_is_the_plan_and_nothing_else(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains, "--json")
    plan = json.loads(result.stdout)
    assert plan["keep_fraction"]["a->a1"] == pytest.approx(0.2)
    assert plan["score"] == pytest.approx(0.6)
    assert plan["gap"] < 1e-6


def test_rates_not_given_come_from_the_file_and_scale_multiplies_all(
    headgate: Headgate, two_chains: Path
) -> None:
    result = headgate("plan", two_chains, "-r", "b = 30/min", "--scale", "4", "--json")
    assert json.loads(result.stdout)["rates_per_second"] == {"a": 4.0, "b": 2.0}


def test_fairness_says_what_the_worst_query_keeps(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains, "--objective", "fairness")
    assert result.exit_code == 0
    assert "The query that loses most keeps 25.0 %." in result.stdout


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ("a=x", "--rates a=x: expected a number such as 2000/s, got 'x'"),
        ("a", "--rates a: expected stream=rate, for example orders=2000"),
        ("a=-1", "--rates a=-1: expected a rate of at least 0 tuples per second"),
        ("a=inf", "--rates a=inf: expected a rate of at least 0"),
        ("aa=1", "--rates aa=1: unknown stream 'aa'; did you mean 'a'?"),
        ("a=1,a=2", "the stream 'a' is given twice"),
        ("a=1 kg", "--rates a=1 kg: unknown unit 'kg'"),
    ],
)
def test_wrong_rates_are_explained(
    headgate: Headgate, two_chains: Path, rates: str, expected: str
) -> None:
    result = headgate("plan", two_chains, "--rates", rates)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_all_wrong_rates_are_named_at_once(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains, "--rates", "a=x,c=1")
    assert "--rates a=x" in result.stderr
    assert "--rates c=1" in result.stderr


@pytest.mark.parametrize("scale", ["-1", "nan", "inf"])
def test_an_impossible_scale_is_refused(headgate: Headgate, two_chains: Path, scale: str) -> None:
    result = headgate("plan", two_chains, "--scale", scale)
    assert result.exit_code == 2
    assert "expected a number of at least 0" in result.stderr


def test_a_missing_file_names_its_neighbour(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains.with_name("two_chain.yaml"))
    assert result.exit_code == 2
    assert "two_chains.yaml" in result.stderr


def test_axes_without_a_map_are_refused(headgate: Headgate, two_chains: Path) -> None:
    result = headgate("plan", two_chains, "--x", "a")
    assert result.exit_code == 2
    assert "add --map FILE.png" in result.stderr


@pytest.mark.parametrize(("text", "fraction"), [("5%", 0.05), ("0.05", 0.05), (" 5 % ", 0.05)])
def test_a_share_is_percent_or_fraction(text: str, fraction: float) -> None:
    assert parse_fraction("--max-error", text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["five", "0", "-5%", "100%", "nan", ""])
def test_an_impossible_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"for example 5% or 0\.05"):
        parse_fraction("--max-error", text)


def test_a_large_network_shows_what_loses_most_and_says_that_there_is_more(
    headgate: Headgate, tmp_path: Path
) -> None:
    names = [f"s{i}" for i in range(60)]
    network = tmp_path / "large.yaml"
    network.write_text(
        "network: large\nnodes:\n  A: {capacity: 30}\nstreams:\n"
        + "".join(f"  {name}: {{rate: 1/s}}\n" for name in names)
        + "operators:\n"
        + "".join(
            f"  {name}_d: {{kind: delay, input: {name}, node: A, cost: 1s, selectivity: 1}}\n"
            for name in names
        )
        + "queries:\n"
        + "".join(f"  {name}_q: {{input: {name}_d}}\n" for name in names)
    )
    result = headgate("plan", network)
    assert result.exit_code == 0
    assert "60 streams, 60.0 tuples/s" in result.stdout
    assert "20 more are not shown; --json has all" in result.stdout


def test_names_are_shown_as_they_are(headgate: Headgate, two_chains: Path) -> None:
    two_chains.write_text(two_chains.read_text().replace("top:", '"[red]top:smile:":'))
    result = headgate("plan", two_chains)
    assert "[red]top:smile:" in result.stdout


MIXED = """\
network: mixed
nodes: {a: {capacity: 1}}
streams: {o: {rate: 1000/s}}
operators:
  parsed: {kind: map, input: o, node: a, cost: COST}
  rev: {kind: aggregate, input: parsed, node: a, cost: 1ms, selectivity: 0.1, window: 10s}
  day: {kind: aggregate, input: parsed, node: a, cost: 1ms, selectivity: 0.1, window: 7s}
queries: {q: {input: rev}, r: {input: day}}
"""


def test_what_becomes_of_answers_is_said(headgate: Headgate, tmp_path: Path) -> None:
    network = tmp_path / "mixed.yaml"
    network.write_text(MIXED.replace("COST", "0.1ms"))
    shown = " ".join(headgate("plan", network).stdout.split())
    assert "o->parsed keeps everything so that answers stay right" in shown
    network.write_text(MIXED.replace("COST", "2ms"))
    shown = " ".join(headgate("plan", network).stdout.split())
    assert "random (!)" in shown
    why = "o->parsed drops at random, because behind it stand windows that have nothing in common"
    assert why in shown
    assert "sums there are wrong." in shown
    plan = json.loads(headgate("plan", network, "--json").stdout)
    assert "sums there are wrong" in plan["wrong_answers"]["o->parsed"]
