"""`headgate plan --map`: the picture is there, is not blank, and its regions are right."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from headgate.cli.plan_regions import FITS, Region, region_of, regions_on_grid
from headgate.network import load_network
from headgate.planning import ExactPlanner
from tests.cli.conftest import TWO_CHAINS, Headgate

THREE_STREAMS = TWO_CHAINS.replace("  b: {rate: 1/s}\n", "  b: {rate: 1/s}\n  c: {rate: 1/s}\n") + (
    "  side: {input: c}\n"
)


def test_the_picture_is_written_and_not_blank(
    headgate: Headgate, two_chains: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "pictures" / "map.png"
    result = headgate("plan", two_chains, "--map", picture)
    assert result.exit_code == 0, result.output
    pixels = imread(picture)
    assert len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)) > 10


def test_regions_are_those_of_the_paper(two_chains: Path) -> None:
    planner = ExactPlanner(load_network(two_chains))
    numbers, regions = regions_on_grid(
        lambda x, y: region_of(planner.plan({"a": x, "b": y})), 1.0, 1.0, pixels=32
    )

    def at(x: float, y: float) -> Region:
        return regions[numbers[int(32 * y), int(32 * x)]]

    assert at(0.1, 0.1) == FITS
    assert at(0.9, 0.1) == Region(("top",), ("B",))
    assert at(0.1, 0.9) == Region(("bottom",), ("A",))
    assert at(0.9, 0.9) == Region(("top", "bottom"), ("A", "B"))
    assert np.all(numbers >= 0)


def test_more_than_two_streams_need_axes(headgate: Headgate, tmp_path: Path) -> None:
    network = tmp_path / "three.yaml"
    network.write_text(THREE_STREAMS)
    picture = tmp_path / "map.png"
    result = headgate("plan", network, "--map", picture)
    assert result.exit_code == 2
    assert "choose them with --x and --y from a, b, c" in " ".join(result.stderr.split())
    assert headgate("plan", network, "--map", picture, "--x", "b", "--y", "c").exit_code == 0
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--map", "map.pdf"], "let the name end in .png"),
        (["--map", "map.png", "--x", "aa"], "--x aa: unknown stream; did you mean 'a'?"),
        (["--map", "map.png", "--x", "a", "--y", "a"], "choose two different streams"),
    ],
)
def test_an_impossible_map_is_explained(
    headgate: Headgate, two_chains: Path, options: list[str], expected: str
) -> None:
    result = headgate("plan", two_chains, *options)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


def test_without_matplotlib_it_says_what_to_install(
    headgate: Headgate, two_chains: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = util.find_spec
    monkeypatch.setattr(
        "headgate.reproduce.figures.find_spec",
        lambda name: None if name == "matplotlib" else found(name),
    )
    result = headgate("plan", two_chains, "--map", "map.png")
    assert result.exit_code == 2
    assert "pip install 'headgate[plot]'" in result.stderr
