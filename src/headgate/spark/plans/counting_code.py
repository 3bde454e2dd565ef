"""Expressions of Spark with a side effect, for columns that count rows (`counting`).

Built in the driver's JVM from Spark's own classes: nothing of ours has to be there.

Guarantees: Spark does not leave out, repeat or move what is built here, because it is declared not
deterministic; all of it also runs in Spark's interpreter. Works on internal classes of Spark 4, in
classic sessions.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.spark.plans.live_array import LiveArray, call_of, jvm_of

__all__ = ["CountingCode", "items_of"]

_NO_PARTITION = -1
_SERIALIZATION = "org.apache.commons.lang3.SerializationUtils"
_TASK_CONTEXT = "org.apache.spark.TaskContext"
_BATCH_PROPERTY = "streaming.sql.batchId"


class CountingCode:
    """What a counting column is made of.

    `Invoke` cannot call a method that returns nothing, and all that accumulators have for adding
    returns nothing. `InitializeJavaBean` calls such a method and gives the object on; then
    `isZero`, which is false after something was added, makes a truth value of it.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm = jvm_of(spark)
        self._context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined, unused-ignore]
        self._jvm, self._util = jvm, jvm.org.apache.spark.util
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._types = jvm.org.apache.spark.sql.types
        self.true, self.long_one = self._literals(spark, F.lit(True), F.expr("1L"))
        self._spark = spark

    def accumulator(self, kind: str) -> Any:
        made = getattr(self._util, kind)()
        self._context.register(made)
        return made

    def add(self, accumulator: Any, value: Any) -> Any:
        """Adds the value; true."""
        setters = self._jvm.java.util.HashMap()
        setters.put("add", value)
        as_map = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(setters)
        bean = self._expressions.objects.InitializeJavaBean(self._object(accumulator), as_map)
        return self.no(self._call(bean, "isZero", self._types.DataTypes.BooleanType))

    def add_spread(
        self, home: Any, value: Any, orders: LiveArray, beyond: float, kinds: Collection[str]
    ) -> Any:
        """Takes the value into the task's least and largest, which go home with its first; true.

        beyond: by how much it must be outside of these. kinds: which of `Min` and `Max` is
        wanted; a comparison of doubles is much code.
        """
        own = self._object(self._util.StatCounter(self._seq([])))
        double = self._types.DataTypes.DoubleType
        least, largest = (self._call(own, name, double) for name in ("min", "max"))
        low, high = (
            (self.minus(value, -beyond), self.minus(value, beyond)) if beyond else (value,) * 2
        )
        is_new = self._expressions.GreaterThan(high, largest)
        if "Min" in kinds:
            below = self._expressions.LessThan(low, least)
            is_new = self._expressions.Or(is_new, below) if "Max" in kinds else below
        merged = self._call(own, "merge", own.dataType(), [value])
        count = self._call(merged, "count", self._types.DataTypes.LongType)
        is_first = self._expressions.EqualTo(count, orders.get_long(1))
        taken = self.either(is_first, self.add(home, own), self.true)
        return self.either(is_new, taken, self.true)

    def pass_begins(self, keys: Any, seen: Any, counters: Sequence[Any], orders: LiveArray) -> Any:
        """Hands over, with the first row of a partition, which one it is of which batch; true.

        keys: gets the number of the partition, then that of the batch. seen: gets the counters of
        the task with its first partition, as they are at its end, and a copy of them with others.
        """
        types, expressions = self._types.DataTypes, self._expressions
        anything = self._object_type("java.lang.Object")
        none = expressions.Literal.create(_NO_PARTITION, types.IntegerType)
        place = expressions.Literal.create(0, types.IntegerType)
        numbers = self._jvm.java.util.concurrent.atomic.AtomicIntegerArray(1)
        numbers.set(0, _NO_PARTITION)
        last = self._object(numbers)
        partition = expressions.SparkPartitionID()
        before = self._call(last, "get", types.IntegerType, [place])
        own = self.list_of(counters)
        copy = self._static(_SERIALIZATION, "serialize", anything, [self._object(own)])
        first_or_copy = self.either(
            expressions.EqualTo(before, none), expressions.Literal(own, anything), copy
        )
        context = self._static(_TASK_CONTEXT, "get", self._object_type(_TASK_CONTEXT))
        text = self._object_type("java.lang.String")
        name = expressions.Literal(_BATCH_PROPERTY, text)
        batch = self._call(context, "getLocalProperty", anything, [name])
        batch = self._static("java.util.Objects", "toString", text, [batch])  # no list takes nulls
        replaced = self._call(last, "getAndSet", types.IntegerType, [place, partition])
        handed_over = self.all_of(
            [
                self.add(keys, partition),
                self.add(keys, batch),
                self.add(seen, first_or_copy),
                expressions.GreaterThanOrEqual(replaced, none),
            ]
        )
        wanted = expressions.EqualTo(orders.get_long(1), self.long_one)
        begins = expressions.And(self.no(expressions.EqualTo(partition, before)), wanted)
        return self.either(begins, handed_over, self.true)

    def read_copy(self, text: str) -> Any:
        """The counters of a task at the begin of a pass, from what JSON shows of them."""
        return self._jvm.org.apache.commons.lang3.SerializationUtils.deserialize(b64decode(text))

    def in_turn(self, counter: Any, orders: LiveArray) -> Any:
        """True for every row with which the counter of the task has no bit of the first order."""
        count = self._call(self._object(counter), "count", self._types.DataTypes.LongType)
        masked = self._expressions.BitwiseAnd(count, orders.get_long(0))
        [zero] = self._literals(self._spark, F.expr("0L"))
        return self._expressions.EqualTo(masked, zero)

    def fewer(self, counter: Any, most: int) -> Any:
        count = self._call(self._object(counter), "count", self._types.DataTypes.LongType)
        [limit] = self._literals(self._spark, F.expr(f"{most}L"))
        return self._expressions.LessThan(count, limit)

    def is_known(self, column: Any) -> Any:
        return self._expressions.IsNotNull(column)

    def known(self, column: Any) -> Any:
        """For where `is_known` has been asked: no code asks it again."""
        return self._expressions.KnownNotNull(column)

    def either(self, condition: Any, then: Any, otherwise: Any) -> Any:
        return self._expressions.If(condition, then, otherwise)

    def under(self, condition: Any, then: Any) -> Any:
        """`then` where the condition holds, if there is one; else true."""
        return then if condition is None else self.either(condition, then, self.true)

    def both(self, first: Any, second: Any) -> Any:
        return self._expressions.And(first, second)

    def all_of(self, parts: Sequence[Any]) -> Any:
        """Each in turn; true if all are."""
        *others, result = parts
        for part in reversed(others):
            result = self.both(part, result)
        return result

    def no(self, value: Any) -> Any:
        return self._expressions.Not(value)

    def minus(self, column: Any, number: float) -> Any:
        double = self._types.DataTypes.DoubleType
        return self._expressions.Subtract(column, self._expressions.Literal.create(number, double))

    def named(self, value: Any, name: str) -> Any:
        new_id = self._expressions.NamedExpression.newExprId()
        nothing = self._jvm.scala.Option.empty()
        none = self._seq([])
        return self._expressions.Alias(value, name, new_id, none, nothing, none)

    def list_of(self, items: Sequence[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def field_writer(self) -> Any:
        """Writes the fields of objects as JSON: all numbers in one call to the JVM."""
        jackson = self._jvm.com.fasterxml.jackson
        made = jackson.databind.ObjectMapper()
        visibility = getattr(jackson.annotation, "JsonAutoDetect$Visibility")
        made.setVisibility(jackson.annotation.PropertyAccessor.ALL, visibility.NONE)
        made.setVisibility(jackson.annotation.PropertyAccessor.FIELD, visibility.ANY)
        return made.configure(jackson.databind.SerializationFeature.FAIL_ON_EMPTY_BEANS, False)

    @staticmethod
    def _literals(spark: SparkSession, *columns: Column) -> list[Any]:
        frame: Any = spark.range(1).select(*columns)
        plan = frame._jdf.queryExecution().analyzed()
        return [alias.child() for alias in items_of(plan.projectList())]

    def _object(self, value: Any) -> Any:
        return self._expressions.Literal(value, self._types.ObjectType(value.getClass()))

    def _call(self, target: Any, name: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
        return call_of(self._jvm, target, name, result, arguments)

    def _static(
        self, class_name: str, name: str, result: Any, arguments: Sequence[Any] = ()
    ) -> Any:
        """A call of a method that belongs to no object; not deterministic, as in `call_of`."""
        null_passes, may_be_null, deterministic = False, True, False
        return self._expressions.objects.StaticInvoke(
            self._class(class_name),
            result,
            name,
            self._seq(arguments),
            self._seq([]),
            null_passes,
            may_be_null,
            deterministic,
            self._jvm.scala.Option.empty(),
        )

    def _object_type(self, class_name: str) -> Any:
        return self._types.ObjectType(self._class(class_name))

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name)

    def _seq(self, items: Sequence[Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(self.list_of(items))


def items_of(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
