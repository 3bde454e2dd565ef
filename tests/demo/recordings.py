"""Recordings made of literal numbers: what a run of the demo leaves behind."""

from __future__ import annotations

from headgate.demo.recording import (
    WITH,
    WITHOUT,
    Batch,
    Capacity,
    Ledger,
    LedgerRow,
    Recording,
    Run,
)
from headgate.demo.scenario import FULL, Scenario


def recording() -> Recording:
    """Capacity 1,000 a second, 40 s, the crowd from 6 to 28: held at 3 s, and not held."""
    made = Recording(FULL, {"Spark": "4.3.0, local[2]", "processor": "<fast>"})
    made.capacity = Capacity(1000.0, True, (900.0, 1000.0, 1010.0))
    made.scenario = Scenario(40.0, 3.0, 1000.0)
    made.runs[WITH] = Run(
        WITH,
        [
            Batch(0, 2.0, 1.0, 800, 800, 1.0, 1.5, 800),
            Batch(1, 8.0, 2.0, 5000, 2000, 4.0, 4.5, 5000),
            Batch(2, 18.0, 2.0, 6000, 2000, 3.0, 3.5, 6000),
            Batch(3, 20.0, 2.0, 6000, 1000, 3.3, 3.8, 6000),
            Batch(4, 38.0, 1.0, 400, 400, 0.8, 1.0, 400),
        ],
        Ledger(
            (
                LedgerRow(0, 800, 800, 0, "none"),
                LedgerRow(1, 5000, 2000, 3000, "feedback"),
                LedgerRow(2, 6000, 2000, 4000, "feedback"),
                LedgerRow(3, 6000, 1000, 5000, "feedback"),
                LedgerRow(4, 400, 400, 0, "none"),
            )
        ),
    )
    made.runs[WITHOUT] = Run(
        WITHOUT,
        [
            Batch(0, 2.0, 1.0, 800, 800, 1.0, 1.5, 800),
            Batch(1, 18.0, 2.0, 2000, 2000, 9.0, 9.5, 2000),
            Batch(2, 20.0, 2.0, 2000, 2000, 11.0, 11.5, 2000),
            Batch(3, 39.0, 2.0, 2000, 2000, 22.0, 22.5, 2000),
        ],
    )
    return made
