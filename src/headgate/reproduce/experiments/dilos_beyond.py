"""Beyond the classes paper: a guaranteed minimum, no starvation, shared operators.

Five runs under DILoS on the paper's node:

- *overload*: 1800 tuples/s on every stream, too much for all three classes together;
- *guarantee*: the same, but class 3 is promised half of its data (`keep_at_least`);
- *flood*: class 1 at 6000 tuples/s, more than twice what the whole of its portion can
  process; class 3 must still give results at its delay target;
- *shared*: all classes read the same two streams, at 1800 tuples/s, through the same two
  operators; their cost is charged to the classes by priority and a class sheds behind them;
- *random*: table III with Poisson arrivals in place of the paper's constant rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headgate.control import class_loads
from headgate.network import Network, Statistics
from headgate.reproduce.experiment import Experiment, Finding, Outcome, Progress, Request, Row
from headgate.reproduce.experiments.dilos_runs import NAMES, TARGETS_MS
from headgate.reproduce.figures import COLOURS
from headgate.simulation.arrivals import Constant, Poisson
from headgate.simulation.operator_managers import ClassManager
from headgate.simulation.operator_record import OperatorRecord
from headgate.simulation.operator_run import OperatorLoad, simulate_operators
from headgate.simulation.operator_workload import class_network, class_settings, paper_setup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DILOS_BEYOND"]

_RATE = 1800.0
_FLOOD = 6000.0
_PROMISE = 0.5


@dataclass(frozen=True)
class _Case:
    name: str
    rate_per_second: float = _RATE
    class1_per_second: float = _RATE
    keep_at_least: Mapping[str, float] = field(default_factory=dict)
    shared: bool = False
    random: bool = False


_CASES = (
    _Case("overload"),
    _Case("guarantee", keep_at_least={"class3": _PROMISE}),
    _Case("flood", class1_per_second=_FLOOD),
    _Case("shared", shared=True),
    _Case("random", 1300.0, 1300.0, random=True),
)


def _rates(case: _Case, network: Network) -> dict[str, float]:
    return {
        s.name: case.class1_per_second if s.name.startswith("class1.") else case.rate_per_second
        for s in network.streams
    }


def _simulate(case: _Case, seconds: float, seed: int) -> OperatorRecord:
    network = class_network(shared_readers=case.shared)
    process = Poisson if case.random else Constant
    arrivals = {name: process(rate) for name, rate in _rates(case, network).items()}
    manager = ClassManager(class_settings(10, case.keep_at_least))
    load = OperatorLoad(arrivals, seconds, jitter_seconds=1e-3)
    return simulate_operators(paper_setup(network), load, manager, seed)


def _rows(case: _Case, record: OperatorRecord, since: float) -> list[Row]:
    return [
        {
            "case": case.name,
            "class": label,
            "response_ms": 1e3 * record.mean_response_seconds(name, since),
            "loss_percent": 100.0 * record.loss_fraction(name, since),
            "least_keep_percent": 100.0 * min(c.keep_fraction for c in record.cycles[name]),
            "longest_silence_seconds": _longest_silence(record, name),
            "portion": record.cycles[name][-1].portion,
        }
        for name, label in NAMES.items()
    ]


def _longest_silence(record: OperatorRecord, name: str) -> float:
    """The longest time in which no result came out, in whole load cycles."""
    longest = silent = 0
    for cycle in record.cycles[name]:
        silent = silent + 1 if cycle.response_seconds is None else 0
        longest = max(longest, silent)
    return longest * record.cycle_seconds


def _run(request: Request, progress: Progress) -> Outcome:
    seconds, since = (30.0, 15.0) if request.quick else (90.0, 30.0)
    rows: list[Row] = []
    for done, case in enumerate(_CASES):
        progress(done, len(_CASES), case.name)
        rows += _rows(case, _simulate(case, seconds, request.seed), since)
    progress(len(_CASES), len(_CASES), "done")
    return Outcome(rows, _findings(rows), partial(_draw, rows))


def _findings(rows: Sequence[Row]) -> list[Finding]:
    def value(case: str, number: int, column: str) -> float:
        (row,) = (r for r in rows if r["case"] == case and r["class"] == f"class {number}")
        return float(row[column] or 0.0)

    promise = f"at least {100 * (1 - _PROMISE):g} % are promised; taken from class 2, then class 1"
    found = [
        Finding(f"{case.name}: class {n} loses, %", value(case.name, n, "loss_percent"))
        for case in _CASES
        for n in (1, 2, 3)
    ]
    found += [
        Finding("guarantee: least share that class 3 kept, %",
                value("guarantee", 3, "least_keep_percent"), note=promise),
        Finding("flood: longest time without a result of class 3, s",
                value("flood", 3, "longest_silence_seconds")),
        Finding("flood: response of class 3, ms", value("flood", 3, "response_ms"),
                note=f"its delay target is {TARGETS_MS['class3']:g}"),
        Finding("flood: portion of class 3", value("flood", 3, "portion"),
                note="its original portion is 0.1; nobody can take it while class 3 needs it"),
        Finding("random: response of class 3, ms", value("random", 3, "response_ms"),
                note="with the constant rates of table III it is below 50, a tenth of the target"),
    ]  # fmt: skip
    return found + _shared_loads()


def _shared_loads() -> list[Finding]:
    """Charged loads with and without sharing, at the marginal cost of a tuple."""
    priorities = class_settings().priorities
    totals = {}
    for shared in (False, True):
        network = class_network(shared_readers=shared)
        rates = {s.name: _RATE for s in network.streams}
        totals[shared] = class_loads(network, Statistics(), rates, priorities)
    return [
        Finding(
            f"shared: {label} is charged for readers, server seconds per second",
            totals[True][name].shared_load,
            note="alone it would pay "
            f"{totals[False][name].private_load - totals[True][name].private_load:.4f}",
        )
        for name, label in NAMES.items()
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    for axes, column, label in (
        (left, "loss_percent", "data loss, % (simulated)"),
        (right, "response_ms", "mean response, ms (simulated)"),
    ):
        for shift, (colour, name) in enumerate(zip(COLOURS, NAMES.values(), strict=False)):
            values = [float(r[column] or 0.0) for r in rows if r["class"] == name]
            places = [p + 0.27 * (shift - 1) for p in range(len(values))]
            axes.bar(places, values, 0.25, color=colour, label=name)
        axes.set_xticks(range(len(_CASES)), [case.name for case in _CASES], fontsize="small")
        axes.set_ylabel(label)
    right.set_yscale("log")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)


DILOS_BEYOND = Experiment(
    "dilos-beyond",
    "Classes with a guaranteed minimum, under a flood, and with shared operators",
    "beyond DILoS (2011): issue 3, classes",
    _run,
    simulated=True,
)
