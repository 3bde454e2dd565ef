"""Replay, byte for byte, and what a journal refuses."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.coordinator import (
    BatchCompleted,
    BatchStarted,
    ClassSettings,
    CoordinatorSettings,
    Event,
    GateCount,
    Journal,
    Mode,
    QuerySettings,
    RatesObserved,
    SettingsChanged,
    TableReceived,
    Tick,
    explain,
    read_journal,
    replay,
)
from headgate.errors import HeadgateError
from headgate.network import OperatorStatistics
from headgate.planning.cut_tables.table_messages import RatesReported, TableChanged
from tests.planning.networks import TABLE_1

QUERIES = {
    "q0": QuerySettings(("r0->o0_0",), latency_target_seconds=2.0, query_class="gold"),
    "q1": QuerySettings(
        ("r1->o1_0",), latency_target_seconds=1.0, query_class="iron", controller="paper"
    ),
}
SETTINGS = CoordinatorSettings(
    QUERIES, network=TABLE_1, classes=ClassSettings({"gold": 3.0, "iron": 1.0})
)


def random_events(seed: int, count: int) -> list[Event]:
    rng = np.random.default_rng(seed)
    batches = {"q0": 0, "q1": 0}
    events: list[Event] = []
    for step in range(count):
        time = 0.5 * step
        query = str(rng.choice(["q0", "q1"]))
        gate = QUERIES[query].gates[0]
        kind = rng.integers(8)
        if kind == 0:
            rates = {"r0": float(rng.uniform(0, 2)), "r1": float(rng.uniform(0, 2))}
            costs = {"o0_0": OperatorStatistics(cost_seconds=float(rng.uniform(0.5, 2)))}
            events.append(RatesObserved(time, rates, costs if rng.random() < 0.3 else {}))
        elif kind == 1:
            events.append(Tick(time))
        elif kind == 2 and rng.random() < 0.2:
            events.append(SettingsChanged(time, mode=Mode(str(rng.choice(["on", "off", "open"])))))
        elif kind <= 5:
            waiting = int(rng.integers(0, 5000))
            events.append(BatchStarted(time, query, batches[query], {gate: waiting}, 0.5))
        else:
            offered = int(rng.integers(0, 5000))
            kept = int(rng.integers(0, offered + 1))
            latency = float(rng.uniform(0, 5)) if rng.random() < 0.8 else None
            events.append(
                BatchCompleted(
                    time,
                    query,
                    batches[query],
                    float(rng.uniform(0, 3)),
                    float(rng.uniform(0, 3)),
                    {gate: GateCount(offered, kept, offered - kept)},
                    latency,
                    {} if latency is None else {95.0: latency * 1.5},
                )
            )
            batches[query] += 1
    return events


def recorded(settings: CoordinatorSettings, events: list[Event]) -> list[str]:
    journal = Journal(settings)
    return [journal.header(), *(journal.handle(event)[1] for event in events)]


@pytest.mark.parametrize("seed", range(5))
def test_a_replay_gives_the_same_bytes(seed: int) -> None:
    lines = recorded(SETTINGS, random_events(seed, 400))
    replay(lines)
    settings, entries = read_journal(lines)
    assert [Journal(settings).header(), *(e.line() for e in entries)] == lines


def test_a_changed_decision_is_noticed() -> None:
    lines = recorded(SETTINGS, [RatesObserved(0.0, {"r0": 1.0, "r1": 1.0})])
    assert "0.4" in lines[1]
    with pytest.raises(HeadgateError, match="line 2"):
        replay([lines[0], lines[1].replace("0.4", "0.5")])


def test_messages_of_neighbours_survive_the_journal() -> None:
    table = TableChanged(
        "N1",
        "N0",
        ("o0_0->o0_1", "o1_0->o1_1"),
        ((0, "N0"), (0, "N0")),
        True,
        (),
        {0: (0.0, 1.0, 1.0), 1: (1.0, 0.0, 0.0)},
        0.0,
    )
    settings = CoordinatorSettings({"q0": QuerySettings(("r0->o0_0",))}, network=TABLE_1, node="N0")
    events: list[Event] = [
        RatesObserved(0.0, {"r0": 1.0, "r1": 1.0}),
        TableReceived(0.5, table),
        TableReceived(0.6, RatesReported("N1", "N0", {"x->y": 2.0})),
    ]
    replay(recorded(settings, events))


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["nonsense"],
        ['{"headgate_journal": 99}'],
        [recorded(SETTINGS, [])[0], "{"],
        [recorded(SETTINGS, [])[0], '{"event": {"type": "os.system"}, "decisions": []}'],
        [
            recorded(SETTINGS, [])[0],
            '{"event": {"type": "Tick", "time_seconds": "x"}, "decisions": []}',
        ],
    ],
)
def test_a_broken_journal_is_refused_with_its_line(lines: list[str]) -> None:
    with pytest.raises(HeadgateError, match="line"):
        replay(lines)


def test_explain_says_why_in_a_sentence() -> None:
    lines = recorded(
        CoordinatorSettings({"q0": QUERIES["q0"]}, network=TABLE_1),
        [RatesObserved(0.0, {"r0": 1.0, "r1": 1.0}), BatchStarted(1.0, "q0", 0)],
    )
    _, entries = read_journal(lines)
    text = explain(entries, "q0", 5.0)
    assert text == (
        "At 1 s, 80 % of the tuples of q0 of batch 0 were to go at gate r0->o0_0: the plan for "
        "the whole network leaves no room for them (latency feedback alone would have kept 100 %)."
    )
    _, entries = read_journal(lines)
    assert explain(entries, "q9", 5.0) == "No decision about q9 was taken up to 5 s."
