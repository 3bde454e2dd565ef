"""Answer quality: how many alerts are left on the same budget, by policy and at random.

Generated: values that are normal nearly always (mean 75, deviation 8, so within 50 to 100
but for rare ones) and now and then an alert, far outside. The query asks for every value
outside 50 to 100. A budget keeps a fraction of each batch of 1,000; the policy drops what
is closest to normal first:

    level 1: drop 65 to 85, level 2: drop 55 to 95, level 3: drop 50 to 100

The same budget in both ways; what the policy leaves is at most that. A policy cannot make
room where there is none: once the alerts alone are more than the budget, the rest goes at
random. The sweep over the share of alerts shows where.

What the policy takes away is in its digest: the count of all values, and so the rate of
alerts, stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.reduction import PackingRequest, Policy, PolicyBuilder, reduce_to_budget, use
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ALERT_QUALITY", "alert_policy", "alerts_kept"]

LOW, HIGH = 50.0, 100.0
BATCH_EVENTS = 1000
BATCHES, QUICK_BATCHES = 200, 20
KEEP_FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
ALERT_SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4)
USUAL_ALERT_SHARE, USUAL_KEEP_FRACTION = 0.01, 0.2


def alert_policy() -> Policy:
    """Drop what is closest to normal first."""
    builder = PolicyBuilder("alerts", attribute="value", identity="number").digest("COUNT")
    for low, high in ((65.0, 85.0), (55.0, 95.0), (LOW, HIGH)):
        builder.level(use("WITHIN", "drop", low=low, high=high))
    return builder.digest("MEAN").build()


def values(rng: np.random.Generator, alert_share: float) -> list[dict[str, Any]]:
    """One batch; an alert is at least one above or below the range."""
    normal = np.clip(rng.normal(75.0, 8.0, BATCH_EVENTS), LOW, HIGH)
    far = np.where(
        rng.random(BATCH_EVENTS) < 0.5,
        HIGH + 1.0 + rng.exponential(20.0, BATCH_EVENTS),
        LOW - 1.0 - rng.uniform(0.0, 20.0, BATCH_EVENTS),
    )
    drawn = np.where(rng.random(BATCH_EVENTS) < alert_share, far, normal)
    return [{"number": number, "value": value} for number, value in enumerate(drawn.tolist())]


def is_alert(event: dict[str, Any]) -> bool:
    return not LOW <= event["value"] <= HIGH


def alerts_kept(
    keep_fraction: float, alert_share: float, at_random: bool, batches: int, seed: int
) -> dict[str, float]:
    """Shares of the alerts and of all events that stay, and of the events accounted for."""
    rng, policy = np.random.default_rng(seed), alert_policy()
    alerts = kept_alerts = offered = kept = counted = 0
    for number in range(batches):
        batch = values(rng, alert_share)
        budget = int(keep_fraction * len(batch))
        level = 0 if at_random else None
        request = PackingRequest(salt=seed * 1_000_000 + number)
        packing = reduce_to_budget(batch, policy, budget, level, request)
        alerts += sum(map(is_alert, batch))
        kept_alerts += sum(map(is_alert, packing.kept))
        offered, kept = offered + packing.offered, kept + len(packing.kept)
        counted += len(packing.kept) + packing.digest.dropped
    return {
        "alerts_kept": kept_alerts / alerts if alerts else 1.0,
        "events_kept": kept / offered,
        "accounted_for": counted / offered,
    }


def _rows(request: Request, progress: Progress) -> list[Row]:
    batches = QUICK_BATCHES if request.quick else BATCHES
    pairs = [(keep, USUAL_ALERT_SHARE) for keep in KEEP_FRACTIONS]
    pairs += [(USUAL_KEEP_FRACTION, share) for share in ALERT_SHARES if share != USUAL_ALERT_SHARE]
    rows: list[Row] = []
    for done, (keep, share) in enumerate(pairs):
        progress(done, len(pairs), f"keep {keep:.0%}, alerts {share:.1%}")
        for way in ("policy", "random"):
            found = alerts_kept(keep, share, way == "random", batches, request.seed)
            rows.append({"way": way, "keep_fraction": keep, "alert_share": share, **found})
    return rows


def _value(rows: Sequence[Row], column: str, way: str, keep: float, share: float) -> float:
    wanted = (way, keep, share)
    [row] = [r for r in rows if (r["way"], r["keep_fraction"], r["alert_share"]) == wanted]
    return float(row[column] or 0.0)


def _findings(rows: Sequence[Row]) -> list[Finding]:
    findings = []
    for keep in KEEP_FRACTIONS:
        ours = _value(rows, "alerts_kept", "policy", keep, USUAL_ALERT_SHARE)
        chance = _value(rows, "alerts_kept", "random", keep, USUAL_ALERT_SHARE)
        note = f"random drop, same budget: {chance:.3f}"
        findings.append(Finding(f"alerts kept of 1 %, budget {keep:.0%}", ours, note=note))
    for share in ALERT_SHARES:
        ours = _value(rows, "alerts_kept", "policy", USUAL_KEEP_FRACTION, share)
        note = "more alerts than the budget holds" if share > USUAL_KEEP_FRACTION else ""
        if share == USUAL_KEEP_FRACTION:
            note = "as many alerts as the budget holds; some batches have more"
        what = f"alerts kept of {share:.1%}, budget {USUAL_KEEP_FRACTION:.0%}"
        findings.append(Finding(what, ours, note=note))
    accounted = min(float(row["accounted_for"] or 0.0) for row in rows)
    findings.append(Finding("events kept or counted in the digest, at least", accounted))
    return findings


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    figure.set_size_inches(9.0, 4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    for way, colour in zip(("policy", "random"), COLOURS, strict=False):
        kept = [_value(rows, "alerts_kept", way, k, USUAL_ALERT_SHARE) for k in KEEP_FRACTIONS]
        left.plot(KEEP_FRACTIONS, kept, "o-", color=colour, label=way)
        kept = [_value(rows, "alerts_kept", way, USUAL_KEEP_FRACTION, s) for s in ALERT_SHARES]
        right.plot(ALERT_SHARES, kept, "o-", color=colour, label=way)
    left.set_xlabel("budget, share of the events")
    left.set_ylabel("share of the alerts kept")
    left.set_title("1 % of the events are alerts", fontsize="medium")
    left.set_xlim(0.0, 1.0)
    left.set_ylim(0.0, 1.05)
    left.legend(loc="center right")
    right.set_title("budget: 20 % of the events", fontsize="medium")
    right.set_xlabel("alerts, share of the events")
    right.axvline(USUAL_KEEP_FRACTION, color=COLOURS[-1], linewidth=0.8, linestyle="--")
    right.annotate(
        "more alerts than\nthe budget holds",
        (USUAL_KEEP_FRACTION, 0.05),
        (6, 0),
        textcoords="offset points",
        fontsize="small",
    )
    right.set_xlim(0.0, 0.45)


def _run(request: Request, progress: Progress) -> Outcome:
    rows = _rows(request, progress)
    return Outcome(rows, _findings(rows), partial(_draw, rows))


ALERT_QUALITY = Experiment(
    "alert-quality",
    "Alerts left on the same budget: a policy against random drop",
    "ours",
    _run,
    simulated=True,
)
