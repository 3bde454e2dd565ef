"""The shape of PACK's Figure 11, and the log and the locator under it."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from headgate.errors import UsageError
from headgate.reduction import load_policy
from headgate.reproduce.campus_log import (
    ASSOCIATIONS,
    DEPARTURES,
    CampusSettings,
    Message,
    campus_log,
)
from headgate.reproduce.experiment import Outcome, Request
from headgate.reproduce.experiments.pack_figure11 import PACK_FIGURE_11, syslog_policy
from headgate.reproduce.figures import new_figure
from headgate.reproduce.locator import AccessPoints, Locator

POLICIES = Path(__file__).parents[2] / "examples" / "policies"


@cache
def outcome() -> Outcome:
    return PACK_FIGURE_11.run(Request(quick=True), lambda _done, _total, _what: None)


@cache
def finding(what: str) -> float:
    [value] = [finding.ours for finding in outcome().findings if finding.what == what]
    assert isinstance(value, float)
    return value


@cache
def log() -> list[Message]:
    return campus_log(600.0, seed=3)


def test_the_policy_is_the_one_in_the_examples_in_both_forms() -> None:
    assert load_policy(POLICIES / "syslog.yaml") == syslog_policy()
    assert load_policy(POLICIES / "syslog.xml") == syslog_policy()


def test_it_is_simulated_and_can_be_drawn() -> None:
    assert PACK_FIGURE_11.simulated
    figure = new_figure()
    outcome().draw(figure)
    assert len(figure.axes) == 4


def test_every_level_is_used_and_none_most_of_the_time() -> None:
    levels = Counter(
        row["level"]
        for row in outcome().rows
        if row["run"] == "compared with the value before" and row.get("level")
    )
    assert set(levels) == {1, 2, 3, 4, 5, 6}
    assert max(levels.values()) < 0.4 * sum(levels.values())


def test_as_printed_the_ladder_hardly_comes_down_and_the_paper_does() -> None:
    assert finding("ladder, as printed: packings at levels 1 to 3") < 0.15
    assert 0.3 < finding("ladder, compared with the value before: packings at levels 1 to 3") < 0.6


def test_filters_2_and_4_discard_most() -> None:
    assert finding("share of the discarded that filters 2 and 4 took") > 0.7
    ratio = {level: finding(f"filter {level}: mean packing ratio") for level in range(1, 7)}
    assert max(ratio[1], ratio[3], ratio[5]) < min(ratio[2], ratio[4])


def test_what_differs_from_the_paper_by_more_than_a_fifth_says_why() -> None:
    compared = [finding for finding in outcome().findings if finding.paper is not None]
    assert len(compared) == 5
    for one in compared:
        assert isinstance(one.ours, float)
        assert isinstance(one.paper, float | int)
        assert one.note or abs(one.ours - one.paper) <= 0.2 * one.paper, one


def test_the_log_is_the_same_for_a_seed_and_sorted() -> None:
    assert log() == campus_log(600.0, seed=3) != campus_log(600.0, seed=4)
    times = [message["time"] for message in log()]
    assert times == sorted(times)
    assert 0.0 <= times[0] <= times[-1] < 600.0
    assert [message["number"] for message in log()] == list(range(len(log())))


def test_the_log_has_what_the_locator_needs() -> None:
    actions = {message["action"] for message in log()}
    assert {*ASSOCIATIONS, *DEPARTURES, "Authenticated", "Roamed", "Leased"} <= actions
    owners: dict[str, set[str]] = {}
    for message in log():
        if message["ip"] is not None:
            owners.setdefault(message["ip"], set()).add(message["client"])
    assert owners
    assert all(len(clients) == 1 for clients in owners.values())
    own = [message for message in log() if message["client"] is None]
    assert all(message["host"].startswith("ap-") for message in own)
    assert len({message["ap"] for message in log()}) > 300


def test_the_log_comes_in_bursts() -> None:
    """The crowd of a settings with a large factor, against the minutes before it."""
    settings = CampusSettings(crowd_factor=10.0, stay_seconds=60.0)
    messages = campus_log(600.0, settings, seed=1)
    minutes = Counter(int(message["time"] // 60) for message in messages)
    assert max(minutes.values()) > 3 * min(minutes.values())


@pytest.mark.parametrize("wrong", [{"buildings": 0}, {"access_points": 5}, {"devices": 0}])
def test_an_impossible_campus_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least one"):
        CampusSettings(**wrong)  # type: ignore[arg-type]


def message(number: int, action: str, client: str, ap: str = "ap-1", **more: object) -> Message:
    base = {"number": number, "time": float(number), "type": "Info", "host": client, "ip": None}
    return base | {"action": action, "client": client, "ap": ap} | more


CAMPUS = [
    message(0, "Associated", "anna"),
    message(1, "Associated", "ben"),
    message(2, "Leased", "anna", ip="10.0.0.1"),
    message(3, "Leased", "ben", ip="10.0.0.2"),
    message(9, "Deauthenticated", "ben"),
    message(40, "Associated", "cleo", ip="10.0.0.3"),
]


def test_one_question_answers_for_all_devices_of_an_access_point() -> None:
    locator = Locator(AccessPoints(CAMPUS))
    read = locator.campus.settings.read
    assert locator.serve(CAMPUS[0], 4.0) > read
    assert locator.located["anna"] == (0.0, "ap-1", "10.0.0.1")
    assert locator.serve(CAMPUS[1], 5.0) == read
    assert locator.located["ben"] == (1.0, "ap-1", "10.0.0.2")
    assert locator.asked == 1


def test_an_access_point_is_not_asked_twice_in_30_seconds() -> None:
    locator = Locator(AccessPoints(CAMPUS))
    late = message(10, "Associated", "dora")
    locator.serve(CAMPUS[0], 4.0)
    assert locator.serve(late, 11.0) == locator.campus.settings.read
    assert (locator.asked, locator.unknown) == (1, 1)
    locator.serve(late, 40.0)
    assert locator.asked == 2


def test_who_has_left_is_neither_listed_nor_located() -> None:
    campus = AccessPoints(CAMPUS)
    assert set(campus.ask("ap-1", 8.0)[0]) == {"anna", "ben"}
    assert set(campus.ask("ap-1", 10.0)[0]) == {"anna"}
    locator = Locator(campus)
    locator.serve(CAMPUS[1], 4.0)
    locator.serve(CAMPUS[4], 10.0)
    assert "ben" not in locator.located


def test_an_address_in_the_message_needs_no_question() -> None:
    locator = Locator(AccessPoints(CAMPUS))
    assert locator.serve(CAMPUS[5], 41.0) == locator.campus.settings.read
    assert (locator.asked, locator.located["cleo"][2]) == (0, "10.0.0.3")
