"""The pages say something about everything that a user can choose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.cli.planners import planner_classes
from headgate.network.yaml_file import _LINK, _NODE, _OPERATOR, _QUERY, _STREAM

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", planner_classes())
def test_every_planner_has_a_section(name: str) -> None:
    page = (ROOT / "docs" / "planners.md").read_text()
    assert re.search(rf"^## {re.escape(name)}$", page, re.M), f"describe {name} in docs/planners.md"


@pytest.mark.parametrize("field", sorted({*_LINK, *_NODE, *_OPERATOR, *_QUERY, *_STREAM}))
def test_every_field_of_the_network_file_is_described(field: str) -> None:
    assert f"`{field}`" in (ROOT / "docs" / "network-file.md").read_text()


def test_pictures_stay_small() -> None:
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert picture.stat().st_size < 100_000
