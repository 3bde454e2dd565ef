"""Answers under shedding that say how wrong they can be: count, sum and average with intervals.

    per_shop = orders.groupBy("shop").agg(hg.count(), hg.sum("amount"), hg.avg("amount"))

Each is an ordinary aggregate column, a struct of `estimate`, `low` and `high`, made of Spark's
own aggregates: it works in batch and streaming, in every output mode, and over rows that were
kept at different fractions. `weight` is the column that the gate added, 1 / keep fraction; behind
several gates, the product of their weights.

How. Each tuple was kept independently with a probability p that is known (Poisson sampling), so
with w = 1/p the sum of w y over the kept tuples is unbiased (Horvitz and Thompson), and the sum
of w (w - 1) y^2 estimates its variance without bias. An average is the ratio of two such sums;
its variance is that of the residuals (y - average), and its bias is of the order of 1 / kept.
Plus or minus 1.96 deviations covers too little when few tuples were kept. Hence:

count  the score interval: all totals N whose own deviation explains the difference. The
       deviation is taken to grow with the root of N.
sum    the same where all values have one sign; else symmetric around the estimate. Student's t
       stands in for 1.96, with degrees of freedom from how unequal the squares are.
avg    Student's t with degrees of freedom from the number kept and the kurtosis; on a
       logarithmic scale where all values have one sign.

Where all kept values are 0 the intervals of sum and avg have width 0, whatever was dropped, unless
a bound of the values is given.

Guarantees: low <= estimate <= high; where nothing was dropped all three are equal, and are what
Spark's own function gives. The kept part is certain: `low` of a count is at least the number of
kept tuples. Not guaranteed: 95 % for few kept tuples or heavy tails. docs/spark.md says where the
intervals covered the truth in 93 to 97 % of cases and where they did not. A group of which
nothing was kept does not appear at all. An average of one kept tuple has no interval (null).
Wrong for rows that do not fall independently: gates by key or window, equal identities.
Numerics: the residuals lose their digits when the mean is more than a million deviations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError

__all__ = ["WEIGHT", "average", "count", "total"]

WEIGHT = "weight"
_Z = 1.959963984540054
_CONSTANT = 1e9  # degrees of freedom that make no difference


def count(weight: str = WEIGHT) -> Column:
    """How many tuples there were; 0 of no rows."""
    w = F.col(weight)

    def interval(s: Column) -> Column:
        return _let(
            lambda x: _interval(s["estimate"], F.greatest(x["low"], s["kept"]), x["high"]),
            **_score(s["estimate"], s["variance"], F.lit(_Z)),
        )

    sums = {
        "estimate": F.coalesce(F.sum(w), F.lit(0.0)),
        "kept": F.count(w).cast("double"),
        "variance": F.coalesce(F.sum(w * (w - 1.0)), F.lit(0.0)),
    }
    return _let(interval, **sums).alias("count")


def total(column: Column | str, weight: str = WEIGHT, bound: float | None = None) -> Column:
    """The sum over all tuples; null where all values are null.

    bound: all values lie between 0 and this. It counts where all that were kept are 0.
    """
    most = _checked(bound)
    y, w, name = _parts(column, weight)
    k = w * (w - 1.0)
    spread = k * y * y

    def derived(s: Column) -> Column:
        return _let(lambda x: interval(s, x), t=_student(_freedom_of_squares(s)))

    def interval(s: Column, x: Column) -> Column:
        size = F.abs(s["estimate"])
        return _let(
            lambda z: _interval(s["estimate"], *_with_zeros(s, most, *_with_sign(s, z))),
            **_score(size, s["variance"], x["t"]),
            half=x["t"] * F.sqrt(s["variance"]),
        )

    sums = {
        "estimate": F.sum(w * y),
        "kept": F.sum(y),
        "variance": F.sum(spread),
        "fourth": F.sum(spread * spread),
        "w": F.sum(w),
        "k": F.sum(k),
        "kk": F.sum(k * k),
        "smallest": F.min(y),
        "largest": F.max(y),
    }
    return _let(derived, **sums).alias(f"sum({name})")


def _with_sign(s: Column, z: Column) -> tuple[Column, Column]:
    """low and high of a sum; the kept part is certain where all values have one sign."""
    estimate, kept = s["estimate"], s["kept"]
    positive, negative = s["smallest"] >= 0.0, s["largest"] <= 0.0
    low = F.when(positive, F.greatest(z["low"], kept)).when(negative, -z["high"])
    high = F.when(positive, z["high"]).when(negative, F.least(-z["low"], kept))
    return low.otherwise(estimate - z["half"]), high.otherwise(estimate + z["half"])


def _with_zeros(
    s: Column, bound: float | None, low: Column, high: Column, over: Column | None = None
) -> tuple[Column, Column]:
    """low and high where all kept values are 0: their scale is not in the data, but in the bound.

    The score interval of an estimate of 0, if what was not seen is as large as it can be.
    over: what a sum is divided by for an average, which is within the bound itself.
    """
    if bound is None:
        return low, high
    unseen = F.coalesce(F.try_divide(s["k"], s["w"]), F.lit(0.0)) * (_Z**2 * abs(bound))
    if over is not None:
        unseen = F.least(F.try_divide(unseen, over), F.lit(abs(bound)))
    zeros = (s["smallest"] == 0.0) & (s["largest"] == 0.0)
    nothing = F.lit(0.0)
    least, most = (-unseen, nothing) if bound < 0.0 else (nothing, unseen)
    return F.when(zeros, least).otherwise(low), F.when(zeros, most).otherwise(high)


def _checked(bound: float | None) -> float | None:
    if bound is None or (math.isfinite(bound) and bound != 0):
        return None if bound is None else float(bound)
    raise UsageError(
        f"all values lie between 0 and the bound, so it is a number other than 0; got {bound!r}"
    )


def average(column: Column | str, weight: str = WEIGHT, bound: float | None = None) -> Column:
    """The mean over all tuples; null where all values are null. bound: as for `total`."""
    most = _checked(bound)
    y, w, name = _parts(column, weight)
    k = w * (w - 1.0)

    def means(s: Column) -> Column:
        return _let(
            lambda x: moments(s, x),
            estimate=F.try_divide(s["wy"], s["w"]),
            n=_effective_number(s),
        )

    def moments(s: Column, x: Column) -> Column:
        residuals = s["kyy"] - x["estimate"] * (2.0 * s["ky"] - x["estimate"] * s["k"])
        unbiased = F.greatest(residuals, F.lit(0.0)) * F.try_divide(x["n"], x["n"] - 1.0)
        # For independent residuals the sum of squares has 2 n / (kurtosis - 1) degrees of freedom.
        by_kurtosis = F.try_divide(2.0 * x["n"], s["excess_kurtosis"] + 2.0)
        return _let(
            lambda m: bounds(s, x, m),
            half=_student(F.least(x["n"] - 1.0, F.greatest(by_kurtosis, F.lit(1.0))))
            * F.try_divide(F.sqrt(unbiased), s["w"]),
        )

    def bounds(s: Column, x: Column, m: Column) -> Column:
        estimate, half = x["estimate"], m["half"]
        factor = F.exp(F.try_divide(half, F.abs(estimate)))
        one_sign = (s["smallest"] > 0.0) | (s["largest"] < 0.0)

        def ends(z: Column) -> tuple[Column, Column]:
            low = F.when(one_sign, F.least(z["near"], z["far"])).otherwise(estimate - half)
            high = F.when(one_sign, F.greatest(z["near"], z["far"])).otherwise(estimate + half)
            exact = s["k"] <= 0.0
            low, high = (F.when(exact, estimate).otherwise(end) for end in (low, high))
            return _with_zeros(s, most, low, high, s["w"])

        return _let(
            lambda z: _interval(estimate, *ends(z)),
            near=F.try_divide(estimate, factor),
            far=estimate * factor,
        )

    sums = {
        "w": F.sum(w),
        "wy": F.sum(w * y),
        "k": F.sum(k),
        "kk": F.sum(k * k),
        "ky": F.sum(k * y),
        "kyy": F.sum(k * y * y),
        "excess_kurtosis": F.kurtosis(y),
        "smallest": F.min(y),
        "largest": F.max(y),
    }
    return _let(means, **sums).alias(f"avg({name})")


def _let(body: Callable[[Column], Column], **values: Column) -> Column:
    """`body` of a struct of the values, each computed once.

    Written into each other the formulas would hold the same sums hundreds of times, and Spark
    would take half a minute to compile them.
    """
    struct = F.struct(*(column.alias(name) for name, column in values.items()))
    return F.element_at(F.transform(F.array(struct), lambda x: body(x)), 1)


def _parts(column: Column | str, weight: str) -> tuple[Column, Column, str]:
    """Value, weight where there is a value, and a name."""
    y = (F.col(column) if isinstance(column, str) else column).cast("double")
    name = column if isinstance(column, str) else "value"
    return y, F.when(y.isNotNull(), F.col(weight)), name


def _interval(estimate: Column, low: Column, high: Column) -> Column:
    return F.struct(estimate.alias("estimate"), low.alias("low"), high.alias("high"))


def _score(estimate: Column, variance: Column, z: Column) -> dict[str, Column]:
    """All T with (estimate - T)^2 <= z^2 variance T / estimate, for an estimate that is not < 0."""
    ratio = F.coalesce(F.try_divide(variance, estimate), F.lit(0.0)) * z * z
    middle = estimate + ratio / 2.0
    half = F.sqrt(ratio * estimate + ratio * ratio / 4.0)
    return {"low": F.greatest(middle - half, F.lit(0.0)), "high": middle + half}


def _effective_number(s: Column) -> Column:
    """How many tuples carry the uncertainty: all kept ones if their weights are equal."""
    return F.try_divide(s["k"] * s["k"], s["kk"])


def _freedom_of_squares(s: Column) -> Column:
    """2 / (variance of the sum of squares beyond what equal values would have)."""
    squares = F.try_divide(s["fourth"], s["variance"] * s["variance"])
    excess = squares - F.try_divide(s["kk"], s["k"] * s["k"])
    freedom = F.try_divide(F.lit(2.0), F.greatest(excess, F.lit(2.0 / _CONSTANT)))
    return F.coalesce(F.greatest(freedom, F.lit(2.0)), F.lit(_CONSTANT))


def _student(freedom: Column) -> Column:
    """The 97.5 % point of Student's t by the expansion of Cornish and Fisher; too small below 2."""
    z, z3, z5, z7 = (_Z**power for power in (1, 3, 5, 7))
    first = (z3 + z) / 4.0
    second = (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0
    third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0
    return _let(
        lambda x: z + x["i"] * (first + x["i"] * (second + x["i"] * third)),
        i=F.try_divide(F.lit(1.0), freedom),
    )
