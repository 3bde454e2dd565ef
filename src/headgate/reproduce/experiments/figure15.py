"""Figure 15 of 2007: how much of a table goes over the wire.

(a) entries against the error and the query load;
(b) share of the entries to send after a selectivity has changed;
(c) share of the entries to send after load has moved from parent to child.

In (b) and (c) the parent keeps old entries that are right within a difference from the
actual score (see `headgate.planning.sampled_tables.fit_delta`); the rest is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.network import Network
from headgate.planning.sampled_tables.feasible_table import FeasibleTable
from headgate.planning.sampled_tables.fit import FitPlanner, FitSettings
from headgate.planning.sampled_tables.fit_delta import table_delta
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.figures import COLOURS
from headgate.reproduce.networks import figure9

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE_15A", "FIGURE_15B", "FIGURE_15C"]

MAX_ERROR = 0.05  # of the tables in (b) and (c)
LOADS = (1.0, 0.75, 0.5, 0.25)
SELECTIVITIES = (0.9, 0.8, 0.7, 0.6, 0.5)
MOVED_MS = (8, 16, 24)


def _scaled(network: Network, load: float) -> Network:
    operators = (replace(o, cost_seconds=(o.cost_seconds or 0.0) * load) for o in network.operators)
    return replace(network, operators=tuple(operators))


def _changed(network: Network, **by_operator: dict[str, Any]) -> Network:
    names = {name.replace("_", "."): values for name, values in by_operator.items()}
    operators = (replace(o, **names.get(o.name, {})) for o in network.operators)
    return replace(network, operators=tuple(operators))


def _sent_table(network: Network, settings: FitSettings) -> FeasibleTable:
    """The table that the second server sends to the first."""
    return FitPlanner(network, settings=settings).tables["server2"]


def _run_a(request: Request, progress: Progress) -> Outcome:
    errors = (0.05, 0.1, 0.2) if request.quick else (0.02, 0.03, 0.05, 0.1, 0.15, 0.2)
    network = figure9("b")
    best = float(max(_sent_table(network, FitSettings()).scores))
    rows: list[Row] = []
    for done, load in enumerate(LOADS):
        progress(done, len(LOADS), f"load {load:.0%}")
        for error in errors:
            for name, settings in (
                ("share", FitSettings(max_error=error)),
                ("absolute", FitSettings(spread_error=error * best)),
            ):
                table = _sent_table(_scaled(network, load), settings)
                rows.append({"sampling": name, "load": load, "error": error, "entries": len(table)})
    return Outcome(rows, _findings_a(rows), partial(_draw_a, rows))


def _entries(rows: Sequence[Row], sampling: str, load: float) -> list[float]:
    return [
        float(row["entries"] or 0)
        for row in rows
        if row["sampling"] == sampling and row["load"] == load
    ]


def _findings_a(rows: Sequence[Row]) -> list[Finding]:
    share, absolute = _entries(rows, "share", 1.0), _entries(rows, "absolute", 1.0)
    return [
        Finding(
            "entries at the smallest error over the largest, error as a share",
            share[0] / share[-1],
            note="the paper: entries decrease in a dramatic way with the error",
        ),
        Finding(
            "entries at a quarter of the load over full load, absolute error",
            _entries(rows, "absolute", 0.25)[0] / absolute[0],
            note="the paper: less load, more entries",
        ),
        Finding(
            "entries at a quarter of the load over full load, error as a share",
            _entries(rows, "share", 0.25)[0] / share[0],
            note="about 1, unlike the paper: when all costs shrink, rates and scores grow "
            "alike, and an error that is a share of the score needs no more points",
        ),
    ]


def _draw_a(rows: Sequence[Row], figure: Figure) -> None:
    panels = figure.subplots(1, 2, sharey=True)
    errors = sorted({float(row["error"] or 0) for row in rows})
    for axes, sampling, title in zip(
        panels, ("share", "absolute"), ("error as a share", "absolute error"), strict=True
    ):
        for load, colour in zip(LOADS, COLOURS, strict=False):
            axes.semilogy(
                [100 * e for e in errors],
                _entries(rows, sampling, load),
                "o-",
                color=colour,
                label=f"load {load:.0%}",
            )
        axes.set_title(title)
        axes.set_xlabel("maximum error, %")
    panels[0].set_ylabel("entries sent to the parent")
    panels[0].legend()


def _shares(
    old: FeasibleTable, new: FeasibleTable, thresholds: Sequence[float], what: str
) -> list[Row]:
    rows: list[Row] = []
    for threshold in thresholds:
        delta = table_delta(old, new, threshold)
        rows.append(
            {
                "change": what,
                "difference": threshold,
                "entries": len(new),
                "sent": delta.added,
                "removed": len(delta.removed),
                "share": delta.added / len(new),
                "bytes": delta.wire_bytes,
                "bytes_full": new.wire_bytes,
            }
        )
    return rows


def _thresholds(quick: bool) -> list[float]:
    step = 10 if quick else 2
    return [percent / 100 for percent in range(0, 51, step)]


def _run_b(request: Request, progress: Progress) -> Outcome:
    settings = FitSettings(max_error=MAX_ERROR, join_inputs=False)
    network = figure9("b")
    old = _sent_table(network, settings)
    rows: list[Row] = []
    for done, selectivity in enumerate(SELECTIVITIES):
        progress(done, len(SELECTIVITIES), f"selectivity {selectivity}")
        new = _sent_table(_changed(network, r1_2={"selectivity": selectivity}), settings)
        rows += _shares(old, new, _thresholds(request.quick), f"selectivity {selectivity}")
    return Outcome(rows, _findings_b(rows), partial(_draw_shares, rows))


def _column(rows: Sequence[Row], change: str, column: str = "share") -> list[float]:
    return [float(row[column] or 0) for row in rows if row["change"] == change]


def _at(rows: Sequence[Row], change: str, difference: float) -> float:
    return next(
        float(row["share"] or 0)
        for row in rows
        if row["change"] == change and row["difference"] == difference
    )


def _findings_b(rows: Sequence[Row]) -> list[Finding]:
    return [
        *(
            Finding(
                f"share to send at a difference of 10 %, selectivity 1.0 to {selectivity}",
                _at(rows, f"selectivity {selectivity}", 0.1),
            )
            for selectivity in SELECTIVITIES
        ),
        Finding(
            "share to send at a difference of 0, selectivity 1.0 to 0.9",
            _at(rows, "selectivity 0.9", 0.0),
            note="nearly every score has changed; the paper: more for a larger change, more for "
            "a smaller difference",
        ),
    ]


def _run_c(request: Request, progress: Progress) -> Outcome:
    settings = FitSettings(max_error=MAX_ERROR, join_inputs=False)
    network = figure9("b")
    old = _sent_table(network, settings)
    rows: list[Row] = []
    for done, moved in enumerate(MOVED_MS):
        progress(done, len(MOVED_MS), f"parent to child {moved}")
        after = _changed(
            network,
            r1_1={"cost_seconds": (64 - moved) / 1e3},
            r1_2={"cost_seconds": (32 + moved) / 1e3},
        )
        new = _sent_table(after, settings)
        rows += _shares(old, new, _thresholds(request.quick), f"parent-to-child-{moved}")
    return Outcome(rows, _findings_c(rows), partial(_draw_shares, rows))


def _withdrawn(rows: Sequence[Row], moved: int) -> int:
    return int(_column(rows, f"parent-to-child-{moved}", "removed")[0])


def _findings_c(rows: Sequence[Row]) -> list[Finding]:
    found = [
        Finding(
            f"share to send at a difference of 10 %, parent-to-child-{moved}",
            _at(rows, f"parent-to-child-{moved}", 0.1),
        )
        for moved in MOVED_MS
    ]
    return [
        *found,
        *(
            Finding(
                f"entries withdrawn at a difference of 0, parent-to-child-{moved}",
                _withdrawn(rows, moved),
                note="not counted by the paper; 4 bytes each",
            )
            for moved in MOVED_MS
        ),
        Finding(
            "smallest share to send, parent-to-child-24",
            min(_column(rows, "parent-to-child-24")),
            0.08,
            note="the paper: not below 8 % however large the difference. The same effect here: "
            "most old entries became infeasible, and a new entry with no old one below it must "
            "be sent. Ours has more of those, because its table has rows near the boundary only",
        ),
    ]


def _draw_shares(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    changes = list(dict.fromkeys(str(row["change"]) for row in rows))
    for change, colour in zip(changes, COLOURS, strict=False):
        axes.plot(
            [100 * d for d in _column(rows, change, "difference")],
            [100 * s for s in _column(rows, change)],
            "o-",
            color=colour,
            label=change,
        )
    axes.set_xlabel("difference from the actual score, %")
    axes.set_ylabel("entries to send, %")
    axes.legend()


FIGURE_15A = Experiment(
    "figure-15a",
    "Entries of a table against the error and the query load",
    "Staying FIT (2007), figure 15(a)",
    _run_a,
)
FIGURE_15B = Experiment(
    "figure-15b",
    "Share of the entries to send after a change of selectivity",
    "Staying FIT (2007), figure 15(b)",
    _run_b,
)
FIGURE_15C = Experiment(
    "figure-15c",
    "Share of the entries to send after load has moved from parent to child",
    "Staying FIT (2007), figure 15(c)",
    _run_c,
)
