from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headgate.demo.charts import latency_chart
from headgate.demo.recording import WITHOUT, Recording
from headgate.demo.report import content, save
from headgate.demo.scenario import FULL
from tests.demo.recordings import recording

SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_says_it_all_and_loads_nothing(tmp_path: Path) -> None:
    files = save(recording(), tmp_path / "new")
    page = files.page.read_text(encoding="utf-8")
    for text in (
        "With Headgate results stayed 3.1 s old",
        "It balances: 18,200 offered = 6,200 kept + 12,000 dropped, in 5 batches.",
        "12,000 (66 %)",
        "55,000",  # waiting with Headgate
        "target 3 s",
        "hg = headgate.attach(spark)",
        "processor: &lt;fast&gt;",
        "prefers-color-scheme:dark",
    ):
        assert text in page
    assert page.count("<svg") == 3
    loaded = re.findall(r"(?:src|href)=|url\(|@import|<script|https?://(?!www\.w3\.org/2000)", page)
    assert loaded == []
    assert "stopped early" not in page


def test_the_page_says_when_the_capacity_was_taken_for_too_low(tmp_path: Path) -> None:
    made = recording()
    assert made.capacity is not None
    made.capacity = replace(made.capacity, steady=False)
    page = save(made, tmp_path).page.read_text(encoding="utf-8")
    assert '<p class="alarm">The capacity was taken for too low: the speed was still grow' in page
    assert "machine was measured to process them" in page
    assert "stayed" not in page
    [doubt] = content(made)["findings"]["doubts"]
    assert doubt == "the speed was still growing when the capacity was measured"


def test_the_json_has_the_batches_and_the_sums(tmp_path: Path) -> None:
    files = save(recording(), tmp_path)
    found = json.loads(files.content.read_text(encoding="utf-8"))
    assert found == json.loads(json.dumps(content(recording())))
    assert found["simulated"] is False
    assert found["findings"]["ledger_balances"] is True
    assert found["findings"]["without"]["worst_latency_seconds"] == 22.0
    assert found["runs"]["with Headgate"]["ledger"]["dropped"] == 12_000
    assert [b["dropped"] for b in found["runs"]["with Headgate"]["batches"]] == [
        0,
        3000,
        4000,
        5000,
        0,
    ]


def test_the_chart_alone_is_svg_with_a_dot_for_each_batch(tmp_path: Path) -> None:
    files = save(recording(), tmp_path)
    root = ElementTree.parse(files.chart).getroot()
    assert len(root.findall(f"{SVG}circle[@class='ours']")) == 5
    assert len(root.findall(f"{SVG}circle[@class='theirs']")) == 4
    assert len(root.findall(f"{SVG}style")) == 1


def test_later_is_to_the_right_and_older_is_higher() -> None:
    made = recording()
    assert made.scenario is not None
    root = ElementTree.fromstring(latency_chart(made, made.scenario, "a title"))
    dots = root.findall(f"{SVG}circle[@class='theirs']")
    across = [float(dot.attrib["cx"]) for dot in dots]
    down = [float(dot.attrib["cy"]) for dot in dots]
    assert across == sorted(across)
    assert down == sorted(down, reverse=True)


def test_what_was_stopped_early_is_reported_as_far_as_it_went(tmp_path: Path) -> None:
    made = recording()
    del made.runs[WITHOUT]
    made.stopped_early = True
    page = save(made, tmp_path).page.read_text(encoding="utf-8")
    assert "The demo was stopped early." in page
    made.runs.clear()
    assert save(made, tmp_path).page.is_file()
    with pytest.raises(ValueError, match="nothing was measured"):
        save(Recording(FULL), tmp_path)
