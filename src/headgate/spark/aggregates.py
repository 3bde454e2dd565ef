"""What a query puts into its own plan: answers under shedding, and the age of results. Part of
`Headgate`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from headgate.spark.gates import estimates, results
from headgate.spark.gates.column_names import ColumnNames
from headgate.spark.gates.estimates import WEIGHT

__all__ = ["Aggregates"]


class Aggregates:
    """See the module."""

    def count(self, weight: str = WEIGHT) -> Column:
        """An aggregate: how many tuples there were, as a struct of estimate, low and high.

        weight: the column that `gate` added, here and below.
        """
        return estimates.count(weight)

    def sum(self, column: Column | str, weight: str = WEIGHT, bound: float | None = None) -> Column:
        """An aggregate: the sum over all tuples, kept or not.

        bound: all values lie between 0 and this. It counts where all that were kept are 0.
        """
        return estimates.total(column, weight, bound)

    def avg(self, column: Column | str, weight: str = WEIGHT, bound: float | None = None) -> Column:
        """An aggregate: the mean over all tuples, kept or not. bound: as for `sum`."""
        return estimates.average(column, weight, bound)

    def oldest(self, arrival: str) -> Column:
        """An aggregate: when the first tuple of a group arrived, as `oldest_arrival`."""
        return results.oldest(arrival)

    def measure(self, frame: DataFrame, name: str, arrival: str = results.OLDEST) -> DataFrame:
        """`frame` with the age of its rows measured, for the report and the ledger.

        Put it just before the sink. arrival: the column with the time; see `oldest`.
        """
        arrival = ColumnNames(frame, f"results {name!r}").find(arrival, "arrival")
        return results.measure_results(frame, name, arrival)
