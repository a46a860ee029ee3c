"""Groups on Spark: none is missing, weights are one over the chance that was used, a replay keeps the same rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError
from spillway.core import control
from spillway.core.control import Controller
from spillway.replay import Rates, stream
from tests.spark.orders import PAST, PATIENCE_S, Sink, run, start

SECONDS, PER_S, PER_BATCH = 12, 2_000, 4_000
BATCHES = SECONDS * PER_S // PER_BATCH


def keeping(share: float) -> Controller:
    return control.make("fixed", target_delay_s=2.0, keep_ratio=share)


def rides(spark: SparkSession, seconds: int = SECONDS) -> DataFrame:
    """Three busy routes of very different fares, forty routes of one row in 2,000 each, and rows without a route."""
    trace = Rates((float(PER_S),), (float(seconds),))
    rows = stream(
        spark, trace, generator="tests.spark.orders:orders", start=PAST, max_rows_per_batch=PER_BATCH
    )
    rare = F.concat(F.lit("rare "), (F.floor(F.col("id") / 50) % 40).cast("string"))
    busy = F.concat(F.lit("busy "), (F.col("id") % 3).cast("string"))
    nobody = F.col("id") % 400 == 3
    route = F.when(nobody, None).when(F.col("id") % 50 == 0, rare).otherwise(busy)
    spread = F.when(route == "busy 2", 50.0).otherwise(0.5)
    noise = (F.pmod(F.hash("id"), F.lit(2_001)) - 1_000) / 1_000.0
    return rows.select("id", "timestamp", route.alias("route"), (100.0 + spread * noise).alias("fare"))


def shed_rides(shed: Spillway, rows: DataFrame) -> DataFrame:
    """Name a window, of as many rows as a batch has."""
    return shed.groups(
        rows, by="route", value="fare", time="timestamp", window=f"{PER_BATCH // PER_S} seconds"
    )


def routes(rows: list[Row]) -> Counter[str | None]:
    return Counter(row["route"] for row in rows)


def totals(batches: Mapping[int, list[Row]]) -> dict[Any, float]:
    found: dict[Any, float] = defaultdict(float)
    for rows in batches.values():
        for row in rows:
            found[row["route"]] += row["weight"]
    return found


@pytest.fixture(scope="module")
def exact(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sink:
    return run(rides(spark), tmp_path_factory.mktemp("exact"))


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sink, Path]:
    checkpoint = tmp_path_factory.mktemp("kept")
    with Spillway("g", 2.0, checkpoint, controller=keeping(0.1)) as shed:
        found = run(shed_rides(shed, rides(spark)), checkpoint, shed)
        assert shed.status().problems == ()
    return found, checkpoint


def test_no_group_is_missing_and_the_budget_holds(exact, kept) -> None:
    found, _ = kept
    for batch in range(BATCHES):
        assert set(routes(found[batch])) == set(routes(exact[batch])), "also those without a route"
        assert sum(routes(found[batch]).values()) == pytest.approx(0.12 * PER_BATCH, rel=0.26)


def test_rare_groups_are_whole(exact, kept) -> None:
    found, _ = kept
    everything = routes([row for rows in exact.values() for row in rows])
    rare = [row for b in range(2, BATCHES) for row in found[b] if (row["route"] or "").startswith("rare")]
    assert {row["weight"] for row in rare} == {1.0}
    assert len(rare) == sum(n for route, n in everything.items() if (route or "").startswith("rare")) * 4 / 6


def test_the_group_that_varies_most_gets_the_most_rows(kept) -> None:
    found, _ = kept
    late = routes([row for b in range(3, BATCHES) for row in found[b]])
    assert late["busy 2"] > 3 * late["busy 0"]
    assert late["busy 2"] > 3 * late["busy 1"]


def test_weights_add_up_to_what_has_arrived_group_by_group(exact, kept) -> None:
    """Also in the first batches, when nothing is known: tasks count what they have."""
    found, _ = kept
    for batch in range(BATCHES):
        assert totals({batch: found[batch]}) == pytest.approx(dict(routes(exact[batch])))


def test_a_batch_that_is_replayed_keeps_the_same_rows(spark: SparkSession, kept) -> None:
    found, checkpoint = kept
    last = BATCHES - 1
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    with Spillway("g", 2.0, checkpoint, controller=keeping(0.9)) as shed:
        again = run(shed_rides(shed, rides(spark)), checkpoint)
    assert again.ids(last) == found.ids(last)


def test_chained_weights_multiply_and_observing_drops_nothing(
    spark: SparkSession, exact, tmp_path: Path
) -> None:
    with Spillway("g", 2.0, tmp_path / "two", controller=keeping(0.25)) as shed:
        rows = shed.groups(shed.tuples(rides(spark)), by="route")
        found = run(rows, tmp_path / "two", shed)
    assert sum(totals(found).values()) == pytest.approx(SECONDS * PER_S, rel=0.1)
    with Spillway("g", 2.0, tmp_path / "seen", controller=keeping(0.1), mode="observe") as shed:
        seen = run(shed.groups(rides(spark), by=["route"], rule="proportional"), tmp_path / "seen", shed)
        assert sum(shed.history()["would_drop_rows"].to_pylist()) > 0.5 * SECONDS * PER_S
    assert {b: routes(rows) for b, rows in seen.items()} == {b: routes(rows) for b, rows in exact.items()}
    assert {row["weight"] for rows in seen.values() for row in rows} == {1.0}


def test_every_row_its_own_group_stays_bounded(spark: SparkSession, tmp_path: Path) -> None:
    """The budget holds, and what is remembered does not grow with the groups."""
    with Spillway("g", 2.0, tmp_path, controller=keeping(0.2)) as shed:
        found = run(shed.groups(rides(spark), by="id"), tmp_path, shed)
    for batch in range(2, BATCHES):
        assert len(found[batch]) == pytest.approx(0.2 * PER_BATCH, rel=0.4)
    assert (tmp_path / "spillway" / "latest.json").stat().st_size < 1_000_000


def test_errors_at_the_call(spark: SparkSession, tmp_path: Path) -> None:
    rows = rides(spark)
    with Spillway("g", 2.0, tmp_path) as shed:
        for message, options in {
            "did you mean 'route'": {"by": "rout"},
            "by = \\[\\]": {"by": []},
            "did you mean 'equal'": {"by": "route", "rule": "equl"},
            "at_least": {"by": "route", "at_least": 0},
            "expected a number": {"by": "route", "value": "route"},
            "window": {"by": "route", "window": "a while"},
        }.items():
            with pytest.raises(SpillwayError, match=message):
                shed.groups(rows, **options)  # type: ignore[arg-type]
        with pytest.raises(SpillwayError, match="not a streaming DataFrame"):
            shed.groups(spark.range(3), by="id")


def test_the_inputs_of_a_join_keep_what_can_match(spark: SparkSession, tmp_path: Path) -> None:
    """Twenty keys on each side, five of them on both: three rows in ten find far more than 0.3² of the results."""
    near, late, last = (
        PER_S // 20,
        2 * PER_BATCH,
        4 * PER_BATCH,
    )  # rows within 50 ms, and those of batches 2 and 3

    def side(shift: int) -> DataFrame:
        key = F.when(F.col("id") % 7 != 5, F.col("id") % 20 + shift).alias("k")  # null in a seventh
        rows = rides(spark, last // PER_S).select(
            key, F.col("id").alias(f"id{shift}"), F.col("timestamp").alias(f"at{shift}")
        )
        return rows.withWatermark(f"at{shift}", "1 second")

    with Spillway("j", 2.0, tmp_path, controller=keeping(0.3)) as shed:
        left = shed.groups(side(0), by="k", join="near", weight="w0")
        right = shed.groups(side(15), by="k", join="near", weight="w15").withColumnRenamed("k", "k15")
        close = F.expr("at15 between at0 - interval 50 milliseconds and at0 + interval 50 milliseconds")
        found = run(left.join(right, (F.col("k") == F.col("k15")) & close), tmp_path, shed)
        assert shed.status().problems == ()
        with pytest.raises(SpillwayError, match="two inputs"):
            shed.groups(side(1), by="k", join="near")
        with pytest.raises(SpillwayError, match="without rule="):
            shed.groups(side(1), by="k", join="far", rule="equal")
    exact = sum(
        a % 20 == b % 20 + 15 and max(a, b) >= late and a % 7 != 5 != b % 7
        for a in range(late - near, last)
        for b in range(max(a - near, 0), min(a + near + 1, last))
    )
    pairs = [row for rows in found.values() for row in rows if max(row["id0"], row["id15"]) >= late]
    assert all(row["k"] == row["k15"] and abs(row["id0"] - row["id15"]) <= near for row in pairs)
    assert len(pairs) > 0.6 * exact, "uniform shedding would find 0.09 of them"
    assert sum(row["w0"] * row["w15"] for row in pairs) == pytest.approx(exact, rel=0.2)


def test_windows_by_event_time_in_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Two seconds bring four hours of events, with five rows of the small group in each quarter: none may go."""
    at = F.timestamp_micros(F.col("id") * (7_200 * 1_000_000 // PER_S))
    size = F.when(F.col("id") % 50 == 0, "small").otherwise("large")
    rows = rides(spark, 6).select("id", "timestamp", at.alias("at"), size.alias("size"))
    with Spillway("g", 2.0, tmp_path, controller=keeping(0.3)) as shed:
        kept = shed.groups(rows, by="size", time="at", window="15 minutes", rule="proportional")
        found = run(kept, tmp_path, shed)
    sizes = Counter(row["size"] for row in found[2])
    assert sizes["small"] == PER_BATCH // 50
    assert sum(sizes.values()) == pytest.approx(0.3 * PER_BATCH, rel=0.15)


def test_within_a_batch_nothing_has_to_be_guessed(spark: SparkSession, tmp_path: Path) -> None:
    """Routes that are new in every batch are there by the counts of the very batch, also when it runs again."""
    fresh = F.concat("route", F.lit(" of "), F.floor(F.col("id") / PER_BATCH).cast("string"))
    rows = rides(spark, 6).withColumn("route", fresh).where(F.col("route").isNotNull())
    arrived: dict[int, Counter[str | None]] = {}
    part = Sink()

    def run_once(checkpoint: Path, share: float) -> tuple[Sink, list[dict[str, Any]]]:
        found = Sink()
        with Spillway("g", 2.0, checkpoint, controller=keeping(share)) as shed:

            def take(batch: DataFrame, number: int) -> None:
                arrived[number] = routes(batch.collect())
                found.take(shed.groups(batch, by="route", value="fare", batch=number), number)
                even = batch.where("id % 2 = 0")
                part.take(shed.groups(even, by="route", value="fare", batch=number), number)
                with pytest.raises(SpillwayError, match=f"expected {number}, the number"):
                    shed.groups(batch, by="route", batch=number + 1)

            query = start(rows, checkpoint, take)
            assert query.awaitTermination(PATIENCE_S)
            assert shed.status().problems == ()
            return found, shed.history().to_pylist()

    found, history = run_once(tmp_path, 0.1)
    assert set(found) == {0, 1, 2}
    for batch in found:
        kept = routes(found[batch])
        assert set(kept) == set(arrived[batch])
        assert sum(kept.values()) == pytest.approx(0.1 * PER_BATCH, rel=0.2)
        assert kept[f"busy 2 of {batch}"] > 3 * kept[f"busy 0 of {batch}"], "it varies most"
        assert sum(row["weight"] for row in found[batch]) == pytest.approx(PER_BATCH, rel=0.25)
        entry = next(entry for entry in history if entry["batch"] == batch)
        assert entry["kept_rows"] == len(found[batch]) + len(part[batch])
        assert entry["arrived_rows"] == sum(arrived[batch].values()) + PER_BATCH // 2, (
            "none without a route is even"
        )
        assert {f"busy {n} of {batch}" for n in range(3)} < set(routes(part[batch])), (
            "a part by its own groups"
        )
        assert len(part[batch]) == pytest.approx(0.1 * PER_BATCH / 2, rel=0.3)
    (tmp_path / "commits" / "2").unlink()
    (tmp_path / "commits" / ".2.crc").unlink(missing_ok=True)
    again, _ = run_once(tmp_path, 0.9)
    assert again.ids(2) == found.ids(2)


def test_a_table_is_shed_only_as_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.range(3)
    with Spillway("g", 2.0, tmp_path) as shed:
        for message, rows, options in (
            ("also give batch=", table, {}),
            ("batch = -1", table, {"batch": -1}),
            (
                "foreachBatch gives",
                rides(spark).withColumnRenamed("id", "n").withColumn("id", F.lit(1)),
                {"batch": 1},
            ),
            ("stream-stream join", table, {"batch": 1, "join": "both"}),
        ):
            with pytest.raises(SpillwayError, match=message):
                shed.groups(rows, by="id", **options)  # type: ignore[arg-type]
        with pytest.raises(SpillwayError, match="window = None"):
            shed.groups(rides(spark), by="route", time="timestamp")
    with Spillway("g", 2.0) as shed, pytest.raises(SpillwayError, match="checkpoint"):
        shed.groups(table, by="id", batch=0)


def test_a_mean_gets_the_rows_that_its_accuracy_takes(spark: SparkSession, tmp_path: Path) -> None:
    """A query without groups, for which everything would fit."""
    with Spillway("g", 2.0, tmp_path, controller=keeping(1.0)) as shed:
        kept = shed.groups(rides(spark, 6), by=None, value="fare", accuracy="1 % at 95 %")
        found = run(kept, tmp_path, shed)
        with pytest.raises(SpillwayError, match="value = None"):
            shed.groups(rides(spark), by=None, accuracy="1 % at 95 %")
    fares = [row["fare"] for row in found[0]]
    assert len(fares) == PER_BATCH, "nothing is known before the first"
    mean, deviation = fmean(fares), pstdev(fares)
    endless = (1.96 * deviation / (0.01 * mean)) ** 2
    needed = endless / (1 + endless / PER_BATCH)
    rows = found[2]
    assert len(rows) == pytest.approx(needed, rel=0.25)
    weights = sum(row["weight"] for row in rows)
    assert sum(row["weight"] * row["fare"] for row in rows) / weights == pytest.approx(mean, rel=0.03)
