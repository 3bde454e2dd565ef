"""Queries with gates that were started without Headgate, as the listener hears of them."""

from __future__ import annotations

import json

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.ungated import StartedRuns, Ungated
from headgate.spark.gates.gate_metrics import metric_name


def progress(query: str, run: str, name: str | None, *metrics: str) -> str:
    seen = {metric: {"offered": 1, "kept": 1} for metric in metrics}
    return json.dumps({"id": query, "runId": run, "name": name, "observedMetrics": seen})


def test_a_query_with_gates_that_nobody_started_is_named_once() -> None:
    alarms, started = Alarms(), StartedRuns()
    ungated = Ungated(alarms, started)
    for _ in range(3):
        ungated.look(progress("q", "r", "by hand", metric_name("orders"), "mine"))
    ungated.look(progress("q", "again", "by hand", metric_name("orders")))
    [alarm] = alarms.all()
    assert (alarm.kind, alarm.subject) == ("not gated", "by hand")
    assert "its gates (orders) keep everything" in alarm.text
    assert "hg.start" in alarm.text
    ungated.look(progress("nameless", "r2", None, metric_name("orders")))
    assert alarms.all()[-1].subject == "nameless"


def test_what_any_headgate_of_the_driver_has_started_is_not_accused() -> None:
    alarms, started = Alarms(), StartedRuns()
    ungated = Ungated(alarms, started)
    with started.starting("alerts") as remember:
        ungated.look(progress("q", "r", "alerts", metric_name("orders")))  # it has no id yet
        remember("r")
    ungated.look(progress("q", "r", "alerts", metric_name("orders")))
    assert alarms.all() == []
    ungated.look(progress("q", "other run", "alerts", metric_name("orders")))
    assert len(alarms.all()) == 1


def test_what_a_program_observes_by_hand_is_no_gate() -> None:
    alarms = Alarms()
    ungated = Ungated(alarms, StartedRuns())
    for text in ("", '{"headgate:', progress("q", "r", "n", "headgate:orders"), '"headgate:x"'):
        ungated.look(text)
    assert alarms.all() == []
