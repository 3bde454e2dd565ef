"""Numbers that the driver can change between two batches without a new plan.

A `LiveArray` is an array literal of Spark whose content stays in the driver's hands.
Spark sends the present content to the tasks whenever it launches a stage, and because
an array is passed to generated code by reference, a new number compiles nothing anew.

Guarantees: all tasks of a stage, also retried and speculative ones, see the content at
the time the stage was submitted. Not guaranteed: anything on Spark Connect (the array
lives in the driver's JVM), and that the class names below stay in a later Spark.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError

__all__ = ["LiveArray", "LiveTexts", "jvm_of", "live_number"]


def jvm_of(spark: SparkSession) -> Any:
    """The driver's JVM; UsageError on Spark Connect, which has none."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise UsageError(
            "Headgate needs a classic Spark session; this one is Spark Connect. "
            "Run it in the driver program of the streaming queries"
        )
    return jvm


def live_number(array: Column, seed: Column, place: Column | int) -> Column:
    """The number at a place of a live array; null for a column that is no place of it.

    seed: a whole number that differs between rows. With a constant place the optimiser would
    write the present number into the generated code and compile it anew at every change.
    Bits, and no sum or remainder: Spark's checks of these take much code, and Java's compiler
    stops to inline where there is too much of it.
    """
    nought = F.bit_count(seed.bitwiseAND(F.lit(0)))
    number = F.get(array, nought.bitwiseOR(place))
    # What is never null needs no code for it.
    return F.coalesce(number, F.lit(0).cast("bigint")) if isinstance(place, int) else number


class LiveArray:
    """Whole numbers of 64 bits in one array literal."""

    def __init__(self, spark: SparkSession, values: tuple[int, ...]) -> None:
        jvm = jvm_of(spark)
        gateway: Any = spark.sparkContext._gateway
        content = gateway.new_array(jvm.long, len(values))
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._data = expressions.UnsafeArrayData.fromPrimitiveArray(content)
        types = jvm.org.apache.spark.sql.types.DataTypes
        array_of_long = types.createArrayType(types.LongType, False)
        self.literal = expressions.Literal(self._data, array_of_long)
        self._jvm = jvm
        self._values: tuple[int, ...] | None = None
        self.set(values)

    @property
    def values(self) -> tuple[int, ...]:
        assert self._values is not None
        return self._values

    def set(self, values: tuple[int, ...]) -> None:
        """Change the content; must not be called while a batch that uses it starts stages."""
        old = self._values or (None,) * len(values)
        for index, (value, before) in enumerate(zip(values, old, strict=True)):
            if value != before:  # each is a call to the JVM
                self._data.setLong(index, value)
        self._values = values

    def column(self) -> Column:
        """The literal as a column of PySpark."""
        jcolumn = self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(self.literal)
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(jcolumn)  # type: ignore[no-any-return, no-untyped-call, unused-ignore]


class LiveTexts:
    """Texts in one array literal, with the guarantees of `LiveArray`."""

    def __init__(self, spark: SparkSession, count: int, first: str = "") -> None:
        jvm = jvm_of(spark)
        gateway: Any = spark.sparkContext._gateway
        content = gateway.new_array(jvm.java.lang.Object, count)
        self._data = jvm.org.apache.spark.sql.catalyst.util.GenericArrayData(content)
        self._jvm = jvm
        self._values: dict[int, str] = {}
        for place in range(count):
            self.set(place, first)
        types = jvm.org.apache.spark.sql.types.DataTypes
        array_of_text = types.createArrayType(types.StringType, False)
        literal = jvm.org.apache.spark.sql.catalyst.expressions.Literal
        self.literal = literal(self._data, array_of_text)

    def set(self, place: int, text: str) -> None:
        """Change one text; must not be called while a batch that uses it starts stages."""
        if self._values.get(place) != text:
            as_utf8 = self._jvm.org.apache.spark.unsafe.types.UTF8String.fromString(text)
            self._data.update(place, as_utf8)
            self._values[place] = text

    def column(self) -> Column:
        """The literal as a column of PySpark."""
        jcolumn = self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(self.literal)
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(jcolumn)  # type: ignore[no-any-return, no-untyped-call, unused-ignore]
