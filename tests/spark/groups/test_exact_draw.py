"""Exact draws of groups on Spark, of tables: none is missing, and the rows are those that the core would draw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spillway.core.groups import census as census_module
from spillway.core.groups.quota import Drawn, Quota, quota, settled
from spillway.spark.groups import exact_draw
from spillway.spark.groups.exact_draw import WEIGHT, count_groups, find_limits, mark_drawn
from spillway.spark.groups.plan import HASH, GroupPlan

ROWS = 6_000
SALT = 7


def plan_of(df: DataFrame) -> GroupPlan:
    return GroupPlan.check(
        df,
        by="route",
        value="fare",
        time=None,
        window=None,
        rule="variance",
        at_least=2,
        accuracy=None,
        join=None,
        key=None,
        weight="weight",
        arrival=None,
        batch=0,
    )


@pytest.fixture(scope="module")
def rides(spark: SparkSession) -> Iterator[DataFrame]:
    """Routes of one row, of two, of thirty and of thousands, rows without a route, and a hundred identical rows."""
    n = F.col("id")
    route = (
        F.when(n < 20, F.concat(F.lit("one "), n.cast("string")))
        .when(n < 60, F.concat(F.lit("two "), F.floor(n / 2).cast("string")))
        .when(n < 150, F.concat(F.lit("thirty "), (n % 3).cast("string")))
        .when(n < 250, F.lit("twins"))
        .when(n < 400, None)
        .otherwise(F.concat(F.lit("busy "), (n % 4).cast("string")))
    )
    twin = (n >= 150) & (n < 250)
    fare = F.when(twin, 5.0).otherwise(10.0 + F.pmod(F.hash("id"), F.lit(100)) * (n % 4))
    rows = spark.range(ROWS).select(
        F.when(twin, 0).otherwise(n).alias("id"), route.alias("route"), fare.alias("fare")
    )
    rows = rows.persist()
    yield rows
    rows.unpersist()


def drawn_of(plan: GroupPlan, share: float) -> tuple[Quota, Drawn, list[Row]]:
    counted = count_groups(plan, SALT)
    planned = quota(
        counted.census,
        counted.smallest,
        groups=counted.groups,
        keep_ratio=share,
        rule="variance",
        at_least=plan.spec.at_least,
    )
    assert planned is not None
    drawn = settled(planned, find_limits(plan, planned, SALT))
    marked = mark_drawn(plan, drawn, salt=SALT, note="")
    return planned, drawn, plan.keep(marked, enforce=True, weight=F.col(WEIGHT)).collect()


def hashes_of(plan: GroupPlan) -> dict[Any, list[int]]:
    found = defaultdict(list)
    for row in plan.df.select(
        "route", F.xxhash64(*plan.key, F.lit(SALT).cast("bigint")).alias(HASH)
    ).collect():
        found[row["route"]].append(row[HASH])
    return found


def test_each_group_has_the_rows_of_its_smallest_hashes(rides: DataFrame) -> None:
    plan = plan_of(rides)
    planned, _, kept = drawn_of(plan, 0.05)
    hashes, drawn = hashes_of(plan), Counter(row["route"] for row in kept)
    assert set(drawn) == set(hashes), "no group is missing, nor are rows without one"
    weights: Counter[Any] = Counter()
    for row in kept:
        weights[row["route"]] += row["weight"]
    assert weights == pytest.approx({route: len(found) for route, found in hashes.items()})
    key_of = {
        row["route"]: row["k"]
        for row in rides.select("route", F.xxhash64("route").alias("k")).distinct().collect()
    }
    wanted = dict(zip(planned.keys, planned.rows, strict=True))
    for route, found in hashes.items():
        n = wanted.get(key_of[route], len(found))
        last = sorted(found)[n - 1]
        assert drawn[route] == sum(hashed <= last for hashed in found) >= n, route
    assert drawn["twins"] == 100, "identical rows stay together"
    assert sum(drawn.values()) - drawn["twins"] + wanted[key_of["twins"]] == pytest.approx(0.05 * ROWS, abs=1)


def test_groups_beyond_the_table_keep_a_row_each(rides: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_draw, "MOST_GROUPS", 3)
    plan = plan_of(rides.where("route is null or route != 'twins'"))
    planned, drawn, kept = drawn_of(plan, 0.02)
    assert len(drawn.keys) == 3
    assert drawn.others == 1, "118 rows for 48 groups, of which 59 for those that are not listed"
    hashes, routes = hashes_of(plan), Counter(row["route"] for row in kept)
    assert set(routes) == set(hashes)
    assert sum(routes.values()) == sum(planned.rows) + len(hashes) - 3 <= 0.02 * ROWS
    assert sum(row["weight"] for row in kept) == pytest.approx(ROWS - 100)
    assert census_module.MOST_GROUPS > 3


def test_large_groups_have_a_limit_without_a_sort(rides: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_draw, "MOST_RANKED", 30)
    monkeypatch.setattr("spillway.core.groups.quota.MOST_RANKED", 30)
    plan = plan_of(rides)
    planned, drawn, kept = drawn_of(plan, 0.1)
    large = [key for key, n in zip(planned.keys, planned.rows, strict=True) if n >= 30]
    assert large
    limits = dict(zip(drawn.keys, drawn.limits, strict=True))
    assert all(
        limits[key] == bound for key, bound in zip(planned.keys, planned.bounds, strict=True) if key in large
    )
    assert sum(row["weight"] for row in kept) == pytest.approx(ROWS)
