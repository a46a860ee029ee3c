"""Estimates of results that share coins, on Spark: an oracle's numbers, their coverage over many salts, a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway
from spillway import estimate as est
from spillway.core import control
from tests.core.estimate.joins import Results, Side
from tests.spark.orders import play, run

NAN = float("nan")
PAIRS = est.joined(left="l", right="r")


def group(
    dice: np.random.Generator, name: str, n: int, of: tuple[int, int], *, w: Any, y: Any = None
) -> pd.DataFrame:
    """Kept results of a join, out of so many left and right rows; ``w`` has the weights of both sides."""
    drawn = np.unique(np.stack([dice.integers(0, size, n) for size in of], axis=1), axis=0)
    left, right = drawn.T
    wl, wr = (np.broadcast_to(one, size)[at] for one, size, at in zip(w, of, drawn.T, strict=True))
    y = dice.gamma(2.0, 10.0, len(left)) if y is None else np.resize(y, len(left))
    x = 1.0 + dice.gamma(2.0, 2.0, len(left))
    columns = {"g": name, "l": left, "r": right, "left_weight": wl, "right_weight": wr, "y": y, "x": x}
    return pd.DataFrame(columns).astype({"left_weight": float, "right_weight": float, "y": float})


def cases() -> pd.DataFrame:
    dice = np.random.default_rng(3)
    some = dice.choice([1.0, 2.0, 7.0], 30)
    return pd.concat(
        [
            group(dice, "few", 60, (10, 12), w=(3.0, 4.0)),
            group(dice, "many", 900, (60, 50), w=(2.0, 5.0)),
            group(dice, "left only", 60, (10, 12), w=(3.0, 1.0)),
            group(dice, "right only", 60, (10, 12), w=(1.0, 2.5)),
            group(dice, "whole", 30, (5, 5), w=(1.0, 1.0 + 1e-12)),
            group(dice, "one left row", 30, (1, 12), w=(3.0, 2.0)),
            group(dice, "one result", 1, (1, 1), w=(3.0, 2.0)),
            group(dice, "two and two", 4, (2, 2), w=(2.0, 2.0)),
            group(dice, "all the same", 60, (10, 12), w=(3.0, 4.0), y=5.0),
            group(dice, "all zeros", 60, (10, 12), w=(3.0, 4.0), y=0.0),
            group(dice, "milliseconds", 200, (30, 30), w=(3.0, 4.0), y=1.7e12 + dice.normal(0.0, 5e4, 99)),
            group(dice, "mixed weights", 200, (30, 30), w=(some, some[::-1])),
            group(dice, "weights below one", 60, (10, 12), w=(0.5, 4.0)),
            group(dice, "around zero", 200, (30, 30), w=(3.0, 4.0), y=dice.normal(0.0, 1.0, 299)),
        ]
    )


def of(rows: pd.DataFrame, sides: int = 2) -> Results:
    both = [("l", "left_weight"), ("r", "right_weight")][:sides]
    coins = [Side.of(n, rows[key].to_numpy(), rows[w].to_numpy()) for n, (key, w) in enumerate(both)]
    return Results(rows["y"].to_numpy(), rows["x"].to_numpy(), coins)


def test_intervals_are_those_of_the_oracle(spark: SparkSession) -> None:
    table = cases()
    users = est.clustered("l", weight="left_weight")
    asked = [PAIRS.count(), PAIRS.sum("y"), PAIRS.mean("y"), PAIRS.ratio("y", "x"), PAIRS.quantile("y", 0.9)]
    asked += [users.mean("y").alias("mean1"), users.quantile("y", 0.5).alias("median1")]
    found = spark.createDataFrame(table).repartition(2).groupBy("g").agg(*asked).collect()
    assert len(found) == table["g"].nunique()
    wrong = []
    for row in found:
        rows = table[table["g"] == row["g"]]
        both, one = of(rows), of(rows, sides=1)
        wanted = {
            "count": both.count(),
            "sum_y": both.sum(),
            "mean_y": both.mean(),
            "ratio_y_x": both.ratio(),
        }
        wanted |= {"p90_y": both.quantile(0.9), "mean1": one.mean(), "median1": one.quantile(0.5)}
        if row["g"] == "weights below one":
            wanted = {kind: (numbers[0], NAN, NAN) for kind, numbers in wanted.items()}
        for kind, numbers in wanted.items():
            reach = 1e-5 * abs(numbers[2] - numbers[1]) if np.isfinite(numbers).all() else 0.0
            if not np.allclose(list(row[kind]), numbers, rtol=1e-13, atol=reach + 1e-9, equal_nan=True):
                wrong.append((row["g"], kind, row[kind], numbers))
        if row["g"] == "whole":
            assert all(row[kind]["low"] == row[kind]["high"] for kind in wanted)
        if row["g"].startswith("all"):
            assert all(row[kind]["low"] < row[kind]["high"] for kind in ("sum_y", "mean_y", "mean1"))
    assert wrong == []


# ---- coverage -------------------------------------------------------------------------------------------------

SALTS, KEYS, ROWS = 120, 4, 200  # fifteen and more kept rows a key and side: fewer are not normal enough


def coin(key: str, side: int) -> Column:
    return F.pmod(F.xxhash64(key, "salt", F.lit(side)), F.lit(2**52)) / float(2**52)


def test_intervals_of_a_join_hold_the_truth_as_often_as_they_say(spark: SparkSession) -> None:
    """Two tables of four keys, both shed by coins, joined and estimated by key: the same rows under many salts."""
    dice = np.random.default_rng(8)
    left = pd.DataFrame({"l": np.arange(ROWS), "k": np.arange(ROWS) % KEYS, "u": dice.gamma(4.0, 1.0, ROWS)})
    right = pd.DataFrame({"r": np.arange(ROWS), "k": np.arange(ROWS) % KEYS, "v": dice.gamma(4.0, 1.0, ROWS)})
    salts = spark.range(SALTS).withColumnRenamed("id", "salt")

    def shed(table: pd.DataFrame, key: str, side: int, weight: str) -> Any:
        chance = 0.3 + 0.1 * (F.col("k") % 2)
        rows = spark.createDataFrame(table).crossJoin(salts).where(coin(key, side) < chance)
        return rows.withColumn(weight, 1.0 / chance)

    kept = shed(left, "l", 0, "left_weight").join(shed(right, "r", 1, "right_weight"), ["k", "salt"])
    kept = kept.withColumn("y", F.col("u") * F.col("v"))
    naive = est.sum("y", weight=F.col("left_weight") * F.col("right_weight")).alias("naive")
    asked = [PAIRS.count(), PAIRS.sum("y"), PAIRS.mean("y"), PAIRS.quantile("y", 0.5), naive]
    answers = kept.groupBy("salt", "k").agg(*asked).toPandas()
    whole = left.merge(right, on="k")
    whole["y"] = whole["u"] * whole["v"]
    by_key = whole.groupby("k")["y"]
    median = by_key.apply(lambda y: np.quantile(y, 0.5, method="inverted_cdf"))
    truth = {"count": by_key.size(), "sum_y": by_key.sum(), "mean_y": by_key.mean(), "p50_y": median}
    assert len(answers) == KEYS * SALTS
    held = {}
    for kind, exact in {**truth, "naive": by_key.sum()}.items():
        wanted = answers["k"].map(exact)
        value, low, high = (
            answers[kind].map(lambda cell, end=end: cell[end]) for end in ("value", "low", "high")
        )
        held[kind] = ((low <= wanted) & (wanted <= high)).mean()
        assert (value / wanted).mean() == pytest.approx(1.0, abs=0.03), "unbiased"
    assert held.pop("naive") < 0.6, "pairs are not independent"
    assert all(0.90 <= share <= 0.99 for share in held.values()), held


# ---- a stream -------------------------------------------------------------------------------------------------


def test_a_join_of_two_shed_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Windows of a stream-stream join, in append mode: the numbers are the oracle's on the results that were kept."""

    def side(name: str) -> Any:
        n = F.col("id")
        rows = play(spark, rows=2_000, per_batch=1_000).select(
            n.alias(name), (n % 3).alias(f"k_{name}"), F.timestamp_millis(n).alias(f"at_{name}")
        )
        return rows.withWatermark(f"at_{name}", "0 seconds")

    half = control.make("fixed", target_delay_s=2.0, keep_ratio=0.5)
    with Spillway("j", 2.0, tmp_path, controller=half) as shed:
        left = shed.groups(side("l"), by="k_l", join="near", weight="left_weight", key="l")
        right = shed.groups(side("r"), by="k_r", join="near", weight="right_weight", key="r")
        near = F.expr(
            "k_l = k_r and at_r between at_l - interval 20 milliseconds and at_l + interval 20 milliseconds"
        )
        pairs = left.join(right, near).withColumn("y", (F.col("l") * 7919 % 100).cast("double"))
        results = F.collect_list(F.struct("l", "r", "left_weight", "right_weight", "y")).alias("results")
        windows = PAIRS.check(pairs).groupBy(F.window("at_l", "250 milliseconds"), "k_l")
        found = run(windows.agg(results, PAIRS.sum("y")), tmp_path, shed)
        assert shed.status().problems == ()
    answers = [row for batch in found.values() for row in batch]
    assert len(answers) >= 6
    shed_some = 0
    for row in answers:
        rows = pd.DataFrame([one.asDict() for one in row["results"]]).assign(x=1.0)
        shed_some += rows["left_weight"].max() > 1.0
        assert list(row["sum_y"]) == pytest.approx(of(rows).sum(), rel=1e-5)
    assert shed_some > 0
