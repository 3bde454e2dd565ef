"""Numbers that the driver can change between two batches without a new plan.

A `LiveArray` is a literal of Spark whose content stays in the driver's hands. Spark sends the
present content to the tasks whenever it launches a stage, and because an array is passed to
generated code by reference, a new number compiles nothing anew.

A number at a known place is a call of the array's own `getLong`: the shortest code there is, and
one that the optimiser does not replace by the present number, because the call is declared not
deterministic. (It is within a stage.)

Guarantees: all tasks of a stage, also retried and speculative ones, see the content at
the time the stage was submitted. Not guaranteed: anything on Spark Connect (the array
lives in the driver's JVM), and that the class names below stay in a later Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError

__all__ = ["LiveArray", "LiveTexts", "call_of", "column_of", "jvm_of"]


def jvm_of(spark: SparkSession) -> Any:
    """The driver's JVM; UsageError on Spark Connect, which has none."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None and type(spark).__name__ != "SparkSession":
        raise UsageError(f"Headgate needs a SparkSession, got {spark!r:.80}")
    if jvm is None:
        raise UsageError(
            "Headgate needs a classic Spark session; this one is Spark Connect. "
            "Run it in the driver program of the streaming queries"
        )
    return jvm


def column_of(jvm: Any, expression: Any) -> Column:
    """An expression of Spark as a column of PySpark."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    jcolumn = jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression)
    return ClassicColumn(jcolumn)  # type: ignore[no-any-return, no-untyped-call, unused-ignore]


def call_of(jvm: Any, target: Any, name: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
    """A call that Spark must not leave out, repeat or move: it is not deterministic.

    target: an expression that is an object of Java and never null. result: the type of the answer.
    """
    given, kinds = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    for argument in arguments:
        given.add(argument)
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    null_passes, may_be_null, deterministic = True, False, False
    return jvm.org.apache.spark.sql.catalyst.expressions.objects.Invoke(
        target,
        name,
        result,
        to_seq(given),
        to_seq(kinds),
        null_passes,
        may_be_null,
        deterministic,
    )


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
        as_object = jvm.org.apache.spark.sql.types.ObjectType(self._data.getClass())
        self.object_literal = expressions.Literal(self._data, as_object)
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

    def number(self, place: Column | int) -> Column:
        """The number at a place; null for a column that is no place."""
        if isinstance(place, int):
            return column_of(self._jvm, self.get_long(place))
        return F.get(self.column(), place)

    def get_long(self, place: int) -> Any:
        """The number at a place as an expression of Spark."""
        types = self._jvm.org.apache.spark.sql.types.DataTypes
        literal = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal
        where = literal.create(place, types.IntegerType)
        return call_of(self._jvm, self.object_literal, "getLong", types.LongType, [where])

    def column(self) -> Column:
        """The literal as a column of PySpark."""
        return column_of(self._jvm, self.literal)


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
        return column_of(self._jvm, self.literal)
