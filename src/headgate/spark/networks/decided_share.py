"""What share of its tuples a gate was told to let pass, before anything came. Pure."""

from __future__ import annotations

from headgate.spark.agent.progress import BatchReport
from headgate.spark.gates.threshold import EVERYTHING
from headgate.spark.gates.window_drop import WindowShape

__all__ = ["decided_share"]


def decided_share(report: BatchReport, gate: str) -> float:
    """By the decision of the batch; everything where nobody decided or there is no such gate.

    Where whole windows fall, of windows to come: the batch may have mostly those that stay or
    mostly those that fall, and over many batches it is this.
    """
    decision = report.decision
    if decision is None or gate not in report.gates:
        return 1.0
    share = decision.threshold(gate) / EVERYTHING
    memory = decision.windows.get(gate)
    return share if memory is None else _of_tuples(memory.shape, share)


def _of_tuples(shape: WindowShape, share: float) -> float:
    """The inverse of `WindowShape.block_share`: a tuple stays if one of its blocks does."""
    in_two = (shape.windows_of_a_tuple - 1) * shape.slide / shape.width
    return share + in_two * share * (1.0 - share)
