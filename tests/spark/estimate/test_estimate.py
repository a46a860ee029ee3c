"""Estimates on Spark: the values and intervals of an oracle, their coverage, streams, and what is refused."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError
from spillway import estimate as est
from spillway.core import control
from spillway.core.groups import Sampled, intervals
from spillway.core.groups.student import t_quantile
from spillway.replay import Rates, stream
from spillway.spark.tuples import WEIGHT_MARK
from tests.spark.orders import PAST, run

NAN, INF = float("nan"), float("inf")
ENDS = ("value", "low", "high")
Interval = tuple[float | None, float | None, float | None]

# ---- an oracle: the table of spillway.estimate, worked out row by row with the group in memory ----------------


@dataclass
class Oracle:
    """The kept rows of a group; None is null."""

    rows: Sequence[tuple[float | None, float | None, float | None]]  # y, x, w
    level: float = 0.95

    def _full(self, *at: int) -> list[np.ndarray]:
        """The columns at these places, over the rows that have all of them, in many digits."""
        full = [[row[i] for i in at] for row in self.rows if all(row[i] is not None for i in at)]
        return [np.array(column, dtype=np.longdouble) for column in zip(*full, strict=True)]

    def count(self) -> Interval:
        if not (columns := self._full(2)):
            return 0.0, 0.0, 0.0
        (w,) = columns
        value, low, high = self._around(w.sum(), self._own(w), self._own(w).sum())
        return value, float(np.maximum(low, len(w))), high

    def sum(self) -> Interval:
        if not (columns := self._full(0, 2)):
            return None, None, None
        y, w = columns
        variances = self._own(w) * y**2
        if self._own(w).sum() > 0 and variances.sum() == 0:
            return self._same((w * y).sum(), np.abs(y).max(), self._others(w))
        return self._around((w * y).sum(), variances, variances.sum())

    def mean(self) -> Interval:
        if not (columns := self._full(0, 2)):
            return None, None, None
        y, w = columns
        return self._ratio(y, np.ones_like(y), w)

    def ratio(self) -> Interval:
        columns = self._full(0, 1, 2)
        if not columns or (columns[1] * columns[2]).sum() == 0:
            return None, None, None
        return self._ratio(*columns)

    def _ratio(self, y: np.ndarray, x: np.ndarray, w: np.ndarray) -> Interval:
        R, X, N, a = (w * y).sum() / (w * x).sum(), (w * x).sum(), w.sum(), self._own(w)
        if a.sum() == 0:
            return self._around(R, a, np.longdouble(0))
        if len(w) == 1:
            return (float(R), NAN, NAN) if np.isnan(a).any() else (float(R), -INF, INF)
        if np.isinf(R):
            return (float(R),) * 3
        if np.isfinite(y).all() and np.ptp(y / x) <= 1e-12 * abs(R) and not np.isnan(a).any():
            return self._same(R, abs((w * y).sum() / N), min(self._others(w), N) / abs(X))
        # What is left of a spread s² when the mean is the sample's own: s² times this.
        part = (a * ((1 - w / N) ** 2 + ((w**2).sum() - w**2) / N**2)).sum() / a.sum()
        return self._around(R, a, (a * (y - R * x) ** 2).sum() / X**2 / part, part)

    def quantile(self, q: float) -> Interval:
        if not (columns := self._full(0, 2)):
            return None, None, None
        y, w = columns
        order = np.lexsort((w, y))
        y, w = y[order], w[order]
        a, N, passed = self._own(w), w.sum(), np.cumsum(w)

        def at(share: float) -> float:
            return float(y[np.argmax(passed >= share * N * (1 - 1e-9))])

        if np.isnan(a).any():
            return at(q), NAN, NAN
        if a.sum() == 0:
            return (at(q),) * 3
        # The row that crosses q lies below it in part.
        below = np.clip((q * N - (passed - w)) / w, 0, 1)
        V = (a * (below * (1 - q) ** 2 + (1 - below) * q**2)).sum() / N**2
        half = float(self._t(a.sum() ** 2 / (a**2).sum()) * np.sqrt(V))
        return at(q), at(q - half) if half < q else -INF, at(q + half) if q + half < 1 else INF

    def _own(self, w: np.ndarray) -> np.ndarray:
        """What the coin of each row adds to the variance of a count."""
        a = np.where(np.abs(w - 1) < 1e-9, 0, w * (w - 1))
        return np.where(w < 1 - 1e-9, np.nan, a)

    def _others(self, w: np.ndarray) -> float:
        """How many rows of the mean weight are all shed with a chance of one minus the level."""
        return float(np.log(1 - self.level) / np.log(1 - w.sum() / (w**2).sum()))

    def _same(self, value: float, size: float, others: float) -> Interval:
        reach = (float(size) or 1.0) * others
        return float(value), float(value - reach), float(value + reach)

    def _t(self, dof: float) -> float:
        return float(t_quantile(self.level, np.array([max(float(dof), 1.0)]))[0])

    def _around(self, value: float, parts: np.ndarray, variance: float, part: float = 1.0) -> Interval:
        if np.isinf(value):
            return (float(value),) * 3
        if np.isnan(value) or np.isnan(parts).any():
            return float(value), NAN, NAN
        squares = (parts**2).sum()
        dof = parts.sum() ** 2 / squares * part if squares > 0 else 1.0
        reach = self._t(dof) * np.sqrt(variance)
        return float(value), float(value - reach), float(value + reach)


def close(found: Row, wanted: Interval, reach: float = 1e-6) -> bool:
    """Whether value, low and high agree; a little of the interval's own width is forgiven."""
    for mine, yours in zip(found, wanted, strict=True):
        if mine is None or yours is None or not np.isfinite(yours):
            same = mine is yours or (
                mine is not None and yours is not None and np.array_equal(mine, yours, True)
            )
            if not same:
                return False
        else:
            width = 0.0 if wanted[1] is None or not np.isfinite(wanted[1]) else abs(wanted[0] - wanted[1])
            if abs(mine - yours) > 1e-13 * abs(yours) + reach * width + 1e-12:
                return False
    return True


# ---- values ---------------------------------------------------------------------------------------------------


def cases() -> dict[str, list[tuple[float | None, float | None, float | None]]]:
    """Groups of rows (y, x, w) of all sorts."""
    dice = np.random.default_rng(4)

    def rows(n: int, w: Any, y: Any = None) -> list[tuple[Any, Any, Any]]:
        y = dice.gamma(2.0, 10.0, n) if y is None else y
        x = 1.0 + dice.gamma(2.0, 2.0, n)
        return [tuple(map(float, row)) for row in zip(y, x, np.broadcast_to(w, n), strict=True)]

    mixed = dice.choice([1.0, 1.5, 7.0, 20.0], 60)
    holes = rows(40, dice.choice([1.0, 3.0], 40))
    holes = [
        tuple(None if (n + i) % 7 == 0 else one for i, one in enumerate(row)) for n, row in enumerate(holes)
    ]
    return {
        "whole": rows(30, 1.0),
        "whole but for rounding": rows(30, 1.0 + 1e-12),
        "equal weights": rows(25, 8.0),
        "mixed weights": rows(60, mixed),
        "random weights": rows(80, 1.0 + dice.gamma(0.5, 20.0, 80)),
        "heavy where large": [(y, x, 1.0 + y) for y, x, _ in rows(50, 1.0)],
        "one outweighs the others": rows(20, [1e6, *[1.0] * 19]),
        "one sampled row": rows(1, 5.0),
        "one whole row": rows(1, 1.0),
        "two rows": rows(2, [3.0, 4.0]),
        "nulls": holes,
        "no values": [(None, 1.0, 3.0), (None, 2.0, 1.0)],
        "no weights": [(1.0, 1.0, None), (2.0, 2.0, None)],
        "seconds since 1970": rows(60, mixed, 1.7e9 + dice.normal(0.0, 50.0, 60)),
        "milliseconds since 1970": rows(60, mixed, 1.7e12 + dice.normal(0.0, 5e4, 60)),
        "all the same": rows(60, mixed, np.full(60, 1e9 / 3.0)),
        "all zeros": rows(60, mixed, np.zeros(60)),
        "zeros but for the certain": [(0.0, 1.0, 5.0), (0.0, 2.0, 3.0), (7.0, 1.0, 1.0)],
        "all in one proportion": [(x / 3.0, x, w) for _, x, w in rows(60, mixed)],
        "two that are equal": rows(2, 1.5, np.full(2, 4.0)),
        "hardly any shed": rows(40, 1.02, np.ones(40)),
        "infinite": [(INF, 1.0, 2.0), *rows(6, 2.0)],
        "minus infinite": [(-INF, 1.0, 2.0), *rows(6, 2.0)],
        "both infinite": [(INF, 1.0, 2.0), (-INF, 1.0, 2.0), *rows(6, 2.0)],
        "around zero": rows(60, mixed, dice.normal(0.0, 1.0, 60)),
        "ties": rows(60, mixed, dice.integers(0, 4, 60)),
        "nothing below the line": [(y, 0.0, w) for y, _, w in rows(5, 2.0)],
        "line below zero": [(y, -x, w) for y, x, w in rows(30, 4.0)],
        "NaN": [(NAN, 1.0, 2.0), *rows(6, 2.0)],
        "weights below one": rows(10, [0.5] * 2 + [3.0] * 8),
        "weights below zero": rows(10, [-1.0] + [3.0] * 9),
    }


def test_values_and_intervals_are_those_of_the_oracle(spark: SparkSession) -> None:
    groups = cases()
    table = [(name, *row, row[2]) for name, rows in groups.items() for row in rows]
    df = spark.createDataFrame(table, "g string, y double, x double, weight double, `other w` double")
    grouped = df.repartition(3).groupBy("g")
    answers = grouped.agg(
        est.count(),
        est.sum("y"),
        est.mean("y"),
        est.ratio("y", F.col("x")),
        est.quantile("y", 0.5),
        est.quantile("y", 0.9, level=0.8, weight="other w"),
        F.avg("y").alias("plain"),
    ).collect()
    found = {row["g"]: row for row in answers}
    assert set(found) == set(groups), "all groups have an answer"
    wrong = []
    for name, rows in groups.items():
        oracle, row = Oracle(rows), found[name]
        with np.errstate(invalid="ignore"):  # inf - inf is NaN
            wanted = {
                "count": oracle.count(),
                "sum_y": oracle.sum(),
                "mean_y": oracle.mean(),
                "ratio_y_x": oracle.ratio(),
                "p50_y": oracle.quantile(0.5),
                "p90_y": Oracle(rows, level=0.8).quantile(0.9),
            }
        wrong += [(name, kind, row[kind], one) for kind, one in wanted.items() if not close(row[kind], one)]
    assert wrong == []
    for kind in ("count", "sum_y", "mean_y", "ratio_y_x", "p50_y", "p90_y"):
        for whole in ("whole", "one whole row"):
            assert found[whole][kind]["low"] == found[whole][kind]["value"] == found[whole][kind]["high"]
    assert found["whole"]["mean_y"]["value"] == pytest.approx(found["whole"]["plain"], rel=1e-14)
    # Where weights are equal, these are the intervals of the core for rows that each had a coin.
    equal, row = np.array(groups["equal weights"]), found["equal weights"]
    core = Sampled(np.zeros(25, np.int64), equal[:, 2], groups=1, design="independent")
    for kind, one in {
        "count": intervals.count(core),
        "mean_y": intervals.mean(core, equal[:, 0]),
        "ratio_y_x": intervals.ratio(core, equal[:, 0], equal[:, 1]),
        "p50_y": intervals.quantile(core, equal[:, 0], 0.5),
    }.items():
        assert close(row[kind], (one.value[0], one.low[0], one.high[0])), kind
    for kind, name in {
        "sum_y": "all zeros",
        "mean_y": "all the same",
        "ratio_y_x": "all in one proportion",
    }.items():
        assert found[name][kind]["low"] < found[name][kind]["value"] < found[name][kind]["high"], name
    assert found["infinite"]["sum_y"] == Row(value=INF, low=INF, high=INF)


def test_any_number_will_do_and_no_rows_are_counted_as_none(spark: SparkSession) -> None:
    rows = spark.range(50).select(
        (F.col("id") % 10).alias("y"), (1 + F.col("id") % 3).cast("float").alias("weight")
    )
    constant = est.mean(F.lit(3), spread=0.0).alias("constant")
    kinds = ("tinyint", "bigint", "float", "decimal(20,3)")
    sums = [est.sum(F.col("y").cast(kind)).alias(kind.partition("(")[0]) for kind in kinds]
    assert rows.agg(constant).first() == Row(constant=Row(value=3.0, low=3.0, high=3.0))
    same, none = rows.agg(*sums).first(), rows.limit(0).agg(est.count(), est.mean("y")).first()
    assert same is not None
    assert len(set(same)) == 1
    assert same[0]["value"] == sum(n % 10 * (1 + n % 3) for n in range(50))
    assert none is not None
    assert list(none) == [Row(value=0.0, low=0.0, high=0.0), Row(value=None, low=None, high=None)]


# ---- coverage -------------------------------------------------------------------------------------------------


def test_intervals_hold_the_truth_as_often_as_they_say(spark: SparkSession) -> None:
    """Five groups, skewed values, each row kept by a coin of its own: the same rows under 400 salts."""
    dice, salts = np.random.default_rng(11), 400
    sizes, chances = (2_000, 1_000, 400, 150, 600), (0.02, 0.05, 0.1, 0.5, 0.1)
    n = sum(sizes)
    group = np.repeat(np.arange(5), sizes)
    chance = np.take(chances, group) * np.where((group == 4) & (np.arange(n) % 3 == 0), 3.0, 1.0)
    x = dice.gamma(4.0, 2.0, n)
    rows = pd.DataFrame({"id": np.arange(n), "g": group, "chance": chance, "x": x})
    rows["y"] = 5.0 + x * dice.gamma(4.0, 1.0, n)
    coin = F.pmod(F.xxhash64("id", "salt"), F.lit(2**52)) / float(2**52)
    sample = (
        spark.createDataFrame(rows)
        .crossJoin(spark.range(salts).withColumnRenamed("id", "salt"))
        .where(coin < F.col("chance"))
        .withColumn("weight", 1.0 / F.col("chance"))
    )
    truth = {
        "count": rows.groupby("g").size(),
        "sum_y": rows.groupby("g")["y"].sum(),
        "mean_y": rows.groupby("g")["y"].mean(),
        "ratio_y_x": rows.groupby("g")["y"].sum() / rows.groupby("g")["x"].sum(),
        "p50_y": rows.groupby("g")["y"].apply(lambda y: np.quantile(y, 0.5, method="inverted_cdf")),
    }
    answers = (
        sample.groupBy("salt", "g")
        .agg(est.count(), est.sum("y"), est.mean("y"), est.ratio("y", "x"), est.quantile("y", 0.5))
        .toPandas()
    )
    assert len(answers) == 5 * salts
    for kind, exact in truth.items():
        wanted = answers["g"].map(exact)
        value, low, high = (answers[kind].map(lambda cell, end=end: cell[end]) for end in ENDS)
        held = (low <= wanted) & (wanted <= high)
        assert 0.93 <= held.mean() <= 0.985, kind
        assert (value / wanted).mean() == pytest.approx(1.0, abs=0.01), "unbiased"


# ---- streams --------------------------------------------------------------------------------------------------

ROWS, PER_BATCH = 8_200, 2_734  # a thousand a second; the third batch holds the window from 6 to 8 s


def rides(rows: DataFrame) -> DataFrame:
    """Two busy routes, and one of three rows in a batch, which is not shed in the third, when that is known."""
    n = F.col("id")
    route = F.when(n % 1_000 == 507, "rare").otherwise(F.concat(F.lit("busy "), n % 2))
    fare = 10.0 + n * 7919 % 1_000 / 50.0
    return rows.select(
        "id", F.timestamp_seconds(n / 1_000).alias("at"), route.alias("route"), fare.alias("fare")
    )


def truth(start_s: float, route: str) -> np.ndarray:
    """All fares of a route in a window of two seconds."""
    n = np.arange(max(0, int(start_s * 1_000)), min(ROWS, int(start_s * 1_000) + 2_000))
    rare = n % 1_000 == 507
    n = n[rare if route == "rare" else ~rare & (n % 2 == int(route[-1]))]
    return 10.0 + n * 7919 % 1_000 / 50.0


def test_sliding_windows_after_two_stages(spark: SparkSession, tmp_path: Path) -> None:
    """Each row is in two windows and has passed two coins; the estimates are the oracle's on the kept rows."""
    trace = Rates((float(ROWS),), (1.0,))
    source = stream(
        spark, trace, generator="tests.spark.orders:orders", start=PAST, max_rows_per_batch=PER_BATCH
    )
    half = control.make("fixed", target_delay_s=2.0, keep_ratio=0.5)
    with Spillway("e", 2.0, tmp_path, controller=half) as shed:
        rows = rides(source).withWatermark("at", "0 seconds")
        kept = shed.groups(shed.tuples(rows, never=F.col("route") == "rare"), by="route", value="fare")
        fares = F.collect_list(F.struct("fare", "weight")).alias("kept")
        windows = kept.groupBy(F.window("at", "2 seconds", "1 second"), "route")
        found = run(windows.agg(fares, est.count(), est.mean("fare")), tmp_path, shed)
        assert shed.status().problems == ()
    answers = [row for batch in found.values() for row in batch]
    assert len({(row["window"], row["route"]) for row in answers}) == len(answers) > 6
    whole, held = 0, []
    for row in answers:
        exact = truth(row["window"]["start"].replace(tzinfo=datetime.UTC).timestamp(), row["route"])
        oracle = Oracle([(one["fare"], None, one["weight"]) for one in row["kept"]])
        assert close(row["count"], oracle.count())
        assert close(row["mean_fare"], oracle.mean())
        if {one["weight"] for one in row["kept"]} == {1.0}:
            whole += 1
            assert set(row["count"]) == {len(exact)}
            assert len(set(row["mean_fare"])) == 1
            assert row["mean_fare"]["value"] == pytest.approx(exact.mean())
        else:
            held += [row["count"]["low"] <= len(exact) <= row["count"]["high"]]
            held += [row["mean_fare"]["low"] <= exact.mean() <= row["mean_fare"]["high"]]
    assert whole > 0
    assert np.mean(held) > 0.8


# ---- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_errors_at_the_call() -> None:
    for wrong in (0.0, 1.0, 95, -0.5, NAN, "0.95", True, None):
        with pytest.raises(SpillwayError, match=r"level = .* between 0 and 1"):
            est.mean("fare", level=wrong)  # type: ignore[arg-type]
    for wrong in (0.0, 1.0, 50, NAN, "0.5", False):
        with pytest.raises(SpillwayError, match=r"q = .* between 0 and 1"):
            est.quantile("fare", wrong)  # type: ignore[arg-type]
    with pytest.raises(SpillwayError, match=r"Hint: write 95 % as 0\.95"):
        est.count(level=95)
    with pytest.raises(SpillwayError, match=r"Hint: write 90 % as 0\.9"):
        est.quantile("fare", 90)
    for wrong in (-1.0, NAN, INF, "1", True):
        with pytest.raises(SpillwayError, match=r"spread = .* >= 0, or None"):
            est.sum("fare", spread=wrong)  # type: ignore[arg-type]
    for call in (
        lambda: est.joined(left=[]),
        lambda: est.joined(left="a", right=3),
        lambda: est.clustered(""),
        lambda: est.clustered("user", weight=2),
        lambda: est.sum(""),
        lambda: est.mean(3),
        lambda: est.ratio("a", None),
        lambda: est.count(weight=2.0),
    ):
        with pytest.raises(SpillwayError, match=r"expected a column's name(,| or) a Column"):
            call()
    with pytest.raises(SpillwayError, match=r"left = None .* right= or both"):
        est.joined(left_weight="w")


def test_a_frame_without_weights_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", 1.0)], "g string, fare double")
    for estimate in (est.count(), est.mean("fare"), est.quantile("fare", 0.5)):
        with pytest.raises(AnalysisException) as error:
            df.groupBy("g").agg(estimate)
        said = str(error.value)
        assert "`weight` cannot be resolved" in said.splitlines()[0]
        assert "weights come from shed.tuples or shed.groups: see est.check" in said[:700]


def test_what_is_no_number_is_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame([("1", True, 1.0)], "word string, yes boolean, weight double")
    for message, estimate in {
        r'greatest\(word.*"STRING", "DOUBLE"': est.mean("word"),
        r'greatest\(yes.*"BOOLEAN", "DOUBLE"': est.ratio("weight", "yes"),
        r'greatest\(word, .*"STRING", "DOUBLE"': est.count(weight="word"),
    }.items():
        with pytest.raises(AnalysisException, match=message):
            df.agg(estimate)


def test_check_finds_the_weights(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", 1.0)], "g string, fare double")
    shed = df.withColumn("w", F.lit(2.0).alias("w", metadata={WEIGHT_MARK: True}))
    two = shed.withColumn("v", F.lit(2.0).alias("v", metadata={WEIGHT_MARK: True}))
    assert shed.transform(est.check, weight="w") is shed
    assert est.joined(left="g", right="fare", left_weight="w", right_weight="v").check(two) is two
    assert est.clustered([F.col("g"), "fare"], weight="w").check(shed) is shed
    own = df.withColumn("weight", F.lit(1.0))
    assert own.transform(est.check) is own, "weights of the user's own"
    for message, call in {
        r"no column 'weight'.*Hint: estimate after shed\.tuples or shed\.groups": lambda: est.check(df),
        "Hint: did you mean weight='w'": lambda: est.check(shed),
        "'fare' is not the column of weights that shedding added.*'w'": lambda: est.check(shed, "fare"),
        "'g' has type string: expected a number": lambda: est.check(df, "g"),
        r"'w' is not all.* 'w', 'v'.*est\.joined\(left=\.\.\., left_weight='w'": lambda: est.check(two, "w"),
        r"several columns 'w'.*weight=\"left_weight\"": lambda: est.check(shed.join(shed, "g"), "w"),
        "leave out: 'v'": lambda: est.clustered("g", weight="w").check(two),
        "key = 'h' is not allowed: expected one of 'fare', 'g'": lambda: est.clustered("h", weight="w").check(
            shed
        ),
        "right_weight = 'u'.*one of 'v', 'w'": lambda: est.joined(right="g", right_weight="u").check(two),
        "left_weight = 'g' has type string": lambda: est.joined(left="g", left_weight="g").check(two),
        "weight = 3": lambda: est.check(df, 3),
        "df = 3": lambda: est.check(3),
    }.items():
        with pytest.raises(SpillwayError, match=message):
            call()
