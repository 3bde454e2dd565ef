"""The HTML page of the demo's report: one file, no network, light and dark. Pure."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from headgate.demo.charts import COLOURS, latency_chart, shedding_chart, waiting_chart
from headgate.demo.findings import Findings, Side, headline, ledger_sentence
from headgate.demo.recording import Recording
from headgate.demo.scenario import Scenario

__all__ = ["NEXT_STEPS", "page"]

NEXT_STEPS = """\
import headgate

hg = headgate.attach(spark)
orders = hg.gate(orders, "orders", arrival="timestamp", identity=["topic", "partition", "offset"])
query = hg.start(orders.groupBy(...).writeStream.format(...), name="alerts", latency="3s")"""

_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1f2933;--dim:#5b6770;--line:#d9dee3;
--soft:#f5f7f9;--ours:#0072b2;--theirs:#b84a00}
@media (prefers-color-scheme:dark){:root{--paper:#14191f;--ink:#e6eaee;--dim:#a3afba;
--line:#323b45;--soft:#1c232b;--ours:#56b4e9;--theirs:#ff8c42}}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:960px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:27px;line-height:1.25;margin:0 0 6px}
h2{font-size:19px;margin:34px 0 8px}
p{margin:6px 0}
.dim{color:var(--dim)}
.ours{color:var(--ours)}
.theirs{color:var(--theirs)}
.alarm{background:var(--theirs);color:#fff;padding:8px 14px;border-radius:6px}
svg{display:block;margin:14px 0;width:100%;height:auto}
table{border-collapse:collapse;width:100%;margin-top:8px}
td,th{padding:7px 10px;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
td:first-child,th:first-child{text-align:left;padding-left:0;font-weight:400}
th{font-weight:600}
pre{background:var(--soft);padding:14px 16px;border-radius:8px;overflow-x:auto;font-size:13.5px}
ul{padding-left:20px;margin:6px 0}
"""


def page(recording: Recording, scenario: Scenario, findings: Findings) -> str:
    """The whole page."""
    parts = [
        f"<h1>{escape(headline(recording, findings))}</h1>",
        f'<p class="dim">{escape(_what_ran(scenario, findings))}</p>',
        _doubtful(findings),
        _stopped_early(recording),
        latency_chart(recording, scenario, "How old results are"),
        _table(scenario, findings),
        "<h2>Where the rows went</h2>",
        shedding_chart(recording, scenario),
        f"<p><b>The ledger.</b> {escape(ledger_sentence(recording, findings))} "
        "It counts every row at the gate, batch by batch, beside the checkpoint; what was "
        "offered is compared with what Spark's own source counted.</p>",
        waiting_chart(recording, scenario),
        "<h2>In your own program</h2>",
        "<p>Three lines around a Structured Streaming query that you already have. "
        "Nothing is dropped while the query keeps up.</p>",
        f"<pre>{escape(NEXT_STEPS)}</pre>",
        "<h2>How this was measured</h2>",
        _how(recording, scenario, findings),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Headgate: a flash crowd on Spark</title><style>{_STYLE}{COLOURS}</style></head>"
        f"<body><main>\n{chr(10).join(part for part in parts if part)}\n</main></body></html>\n"
    )


def _what_ran(scenario: Scenario, findings: Findings) -> str:
    can = "was measured to process" if findings.doubts else "can process"
    return (
        f"The same {scenario.run_seconds:g} seconds twice on Spark: orders arrive, for "
        f"{scenario.crowd_ends - scenario.crowd_begins:g} seconds three times as fast as this "
        f"machine {can} them ({scenario.crowd_per_second:,.0f} a second)."
    )


def _doubtful(findings: Findings) -> str:
    if not findings.doubts:
        return ""
    why = escape("; ".join(findings.doubts))
    return (
        f'<p class="alarm">The capacity was taken for too low: {why}. What follows is what was '
        "measured; it is no comparison at three times the capacity.</p>"
    )


def _stopped_early(recording: Recording) -> str:
    if not recording.stopped_early:
        return ""
    return '<p class="alarm">The demo was stopped early. This is what was measured until then.</p>'


def _table(scenario: Scenario, findings: Findings) -> str:
    rows: list[tuple[str, Callable[[Side], str]]] = [
        (
            f"age of results in the crowd (target {scenario.target_seconds:g} s)",
            lambda side: _age(side.settled_latency_seconds),
        ),
        ("worst batch", lambda side: _age(side.worst_latency_seconds)),
        ("at the end", lambda side: _age(side.last_latency_seconds)),
        ("rows with a result", lambda side: f"{side.kept:,}"),
        ("rows dropped, counted in the ledger", _dropped),
        ("rows still waiting at the end", lambda side: f"{side.waiting_at_end:,}"),
    ]
    sides = (findings.with_headgate, findings.without)
    cells = [(what, *("-" if s is None else told(s) for s in sides)) for what, told in rows]
    body = "".join(
        f"<tr><td>{escape(what)}</td><td>{escape(ours)}</td><td>{escape(theirs)}</td></tr>"
        for what, ours, theirs in cells
    )
    return (
        '<table><tr><th></th><th class="ours">with Headgate</th>'
        f'<th class="theirs">without</th></tr>{body}</table>'
    )


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"


def _dropped(side: Side) -> str:
    share = f" ({100.0 * (1.0 - side.kept_share):.0f} %)" if side.dropped else ""
    return f"{side.dropped:,}{share}"


def _how(recording: Recording, scenario: Scenario, findings: Findings) -> str:
    capacity = recording.capacity
    lines = [
        "The query parses orders from JSON, hashes the customer with 60 rounds of SHA-512 and "
        "aggregates per shop in windows of ten seconds. Orders come from the source "
        "headgate_replay: no network, no Kafka.",
        "Age of a result: end of the micro-batch minus mean arrival of its rows. In the crowd: "
        "its first 40 % left out, weighted by rows.",
        "One run after the other, with Headgate first: the JVM gets faster with time, so the "
        "second run has the better machine.",
        "Without Headgate the batches are bounded to two seconds of work, as "
        "maxOffsetsPerTrigger does for Kafka. Unbounded batches would make results older still.",
    ]
    if capacity is not None:
        steady = "" if capacity.steady else " (the last batches did not agree yet)"
        lines.insert(
            1,
            f"Capacity, measured first on the warm query: {capacity.rows_per_second:,.0f} rows a "
            f"second{steady}. {_later(scenario, findings)}".strip(),
        )
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    machine = ", ".join(f"{name}: {value}" for name, value in recording.machine.items())
    return f'<ul>{items}</ul><p class="dim">{escape(machine)}</p>'


def _later(scenario: Scenario, findings: Findings) -> str:
    """What the machine really did in the crowd: it may have become faster or slower."""
    side = findings.without
    if side is None or not side.crowd_rows_per_second:
        return ""
    factor = scenario.crowd_per_second / side.crowd_rows_per_second
    return (
        f"In the crowd without Headgate the query did {side.crowd_rows_per_second:,.0f} a second, "
        f"so the crowd was {factor:.1f} times what the machine could do then."
    )
