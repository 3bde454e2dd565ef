"""What is wrong with the arrivals that the gates of a batch saw. Pure, no pyspark.

A latency target is held on measured latencies. An arrival column that is NULL in every row, or in
milliseconds instead of seconds, measures nothing, and nothing else would say so.
"""

from __future__ import annotations

from headgate.spark.agent.progress import BatchReport, GateReport

__all__ = ["arrival_problems"]

_UNITS = (("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9))
_SAME_UNIT = 10.0  # times more or less than now


def arrival_problems(report: BatchReport, has_target: bool) -> list[str]:
    """A sentence for each gate whose arrivals are no times, or are not known though a latency
    target asks for them. A gate without an arrival column has no problem.
    """
    problems = []
    for gate, seen in report.gates.items():
        if seen.odd_arrival is not None:
            problems.append(f"{gate}: {_odd(seen.odd_arrival, report.end_seconds)}")
        elif has_target and _is_unknown(seen):
            problems.append(
                f"{gate}: none of the {seen.kept} rows of batch {report.batch} has a known arrival "
                "(NULL, or not finite), so the latency that the target is for is not measured"
            )
    return problems


def _is_unknown(seen: GateReport) -> bool:
    return seen.has_arrivals and seen.kept > 0 and seen.arrival_mean is None


def _odd(arrival: float, now_seconds: float) -> str:
    for unit, factor in _UNITS:
        if now_seconds / _SAME_UNIT < arrival / factor < now_seconds * _SAME_UNIT:
            return (
                f"an arrival of {arrival:.4g} looks like {unit} since 1970; expected seconds, so "
                f"divide the column by {factor:,.0f} before the gate. Latency is not measured"
            )
    return f"an arrival of {arrival:.4g} is no time in seconds since 1970; latency is not measured"
