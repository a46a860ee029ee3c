"""Shedding single tuples in real queries: the same rows as the core, with their weights, and never a crash."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError
from spillway.core import control
from tests.spark.orders import PATIENCE_S, Sink, expected, play, run, start, told


def forget(checkpoint: Path, batch: int) -> None:
    """Bring the checkpoint back to where the batch had run but was not committed."""
    for log, first in (("commits", batch), ("offsets", batch + 1)):
        for entry in (checkpoint / log).iterdir():
            if int(entry.name.strip(".").removesuffix(".crc")) >= first:
                entry.unlink()


def keeping(ratio: float) -> control.Controller:
    return control.make("fixed", target_delay_s=2.0, keep_ratio=ratio)


@pytest.mark.parametrize(
    ("utility", "never", "floor"),
    [(None, None, 0.0), ("tier", None, 0.0), ("score", "vip", 0.05), (None, "vip", 0.0)],
)
def test_spark_and_the_core_keep_the_same_rows(
    spark: SparkSession, tmp_path: Path, utility: str | None, never: str | None, floor: float
) -> None:
    with Spillway("same", "2 seconds", tmp_path, controller=keeping(0.3), arrival="timestamp") as shed:
        kept = run(
            shed.tuples(play(spark), utility=utility, never=never, floor=floor, key="id"), tmp_path, shed
        )
        history = shed.history()
    assert sorted(kept) == [0, 1, 2, 3]
    for batch in kept:
        table = expected(tmp_path, batch, utility=utility, never=never)
        mine = dict(zip(table["id"].to_pylist(), table["weight"].to_pylist(), strict=True))
        assert {row["id"]: row["weight"] for row in kept[batch]} == pytest.approx(mine)
        assert len(kept[batch]) == pytest.approx(900, rel=0.15)
    assert history["arrived_rows"].to_pylist() == [3000] * 4
    assert history["kept_rows"].to_pylist() == [len(kept[batch]) for batch in range(4)]
    assert history["dropped_rows"].to_pylist() == [3000 - len(kept[batch]) for batch in range(4)]
    assert all(history["logged"].to_pylist())


def test_lowest_utility_goes_first_and_odd_values_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("utility", "2 seconds", tmp_path, controller=keeping(0.3)) as shed:
        kept = run(shed.tuples(play(spark), utility="score", key="id"), tmp_path, shed)
        history = shed.history()
    missing = [0, 0, 0, 0]
    for n in range(7, 12_000, 20):
        missing[n // 3000] += n // 20 % 4 in (0, 1)  # null and NaN; an infinity is a score like any other
    assert history["utility_missing_rows"].to_pylist() == missing
    ranked = [batch for batch in kept if told(tmp_path, batch).cuts[0].value < math.inf]
    assert ranked, "the first batches have no ranks yet and are shed uniformly, the later ones have"
    for batch in ranked:
        scores = [row["score"] for row in kept[batch]]
        assert all(score is not None and not math.isnan(score) and score >= 650 for score in scores)
        assert math.inf in scores


def test_what_must_never_be_dropped_is_not(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("never", "2 seconds", tmp_path, controller=keeping(0.01)) as shed:
        kept = run(shed.tuples(play(spark), never=F.col("vip") & F.lit(True), key="id"), tmp_path)
        history = shed.history()
    vips = [n for n in range(12_000) if n % 50 == 0 and n % 97 != 0]
    assert set(vips) <= {row["id"] for rows in kept.values() for row in rows}
    assert sum(history["protected_rows"].to_pylist()) == len(vips)


def test_a_floor_starves_no_class(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("floor", "2 seconds", tmp_path, controller=keeping(0.4)) as shed:
        kept = run(shed.tuples(play(spark), utility="tier", floor=0.1, key="id"), tmp_path, shed)
    rows = [row for batch in kept.values() for row in batch]
    for tier in range(5):
        of_tier = [row["weight"] for row in rows if row["tier"] == tier]
        assert len(of_tier) >= 0.07 * 12_000 / 5
        assert sum(of_tier) == pytest.approx(12_000 / 5, rel=0.25), "weights make up for what was dropped"


def test_observing_drops_nothing_and_reports_what_it_would(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("watch", "2 seconds", tmp_path, controller=keeping(0.3), mode="observe") as shed:
        kept = run(shed.tuples(play(spark), key="id"), tmp_path)
        history = shed.history()
    assert all(len(rows) == 3000 and all(row["weight"] == 1.0 for row in rows) for rows in kept.values())
    assert history["dropped_rows"].to_pylist() == [0] * 4
    would = [3000 - expected(tmp_path, batch).num_rows for batch in range(4)]
    assert history["would_drop_rows"].to_pylist() == would


def test_the_first_batch_of_a_burst_is_cut(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("burst", 2.0, tmp_path) as shed:
        kept = run(shed.tuples(play(spark, rows=400_000, per_batch=400_000), key="id").select("id"), tmp_path)
    decision = told(tmp_path, 0)
    assert decision.expected_rows == 400_000
    assert decision.limit_rows is not None
    assert decision.limit_rows < 400_000
    assert len(kept[0]) == pytest.approx(decision.keep_ratio * 400_000, rel=0.05)


def test_without_a_checkpoint_it_sheds_all_the_same(spark: SparkSession) -> None:
    with Spillway("temporary", 2.0, controller=keeping(0.3)) as shed:
        kept = run(shed.tuples(play(spark), key="id"), None)
        assert len(shed.history()) == 4
    assert sum(len(rows) for rows in kept.values()) == pytest.approx(3600, rel=0.1)


def test_with_stateful_aggregates_and_a_watermark(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("state", 2.0, tmp_path, controller=keeping(0.5), arrival="timestamp") as shed:
        counts = (
            shed.tuples(play(spark).withWatermark("timestamp", "1 second"), key="id")
            .groupBy(F.window("timestamp", "1 second"), "tier")
            .agg(F.sum("weight").alias("orders"))
        )
        query = (
            counts.writeStream.format("memory").queryName("stateful").outputMode("complete")
            .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(120)
        history = shed.history()
    found = {
        row["tier"]: row["orders"]
        for row in spark.table("stateful").groupBy("tier").agg(F.sum("orders").alias("orders")).collect()
    }
    assert found == pytest.approx(dict.fromkeys(range(5), 2400), rel=0.15)
    assert all(delay > 0 for delay in history["worst_delay_s"].to_pylist() if delay is not None)


def test_two_queries_in_one_session_do_not_hear_each_other(spark: SparkSession, tmp_path: Path) -> None:
    with (
        Spillway("left", 2.0, tmp_path / "a", controller=keeping(0.2)) as left,
        Spillway("right", 2.0, tmp_path / "b", controller=keeping(0.6)) as right,
    ):
        few, many = Sink(), Sink()
        both = [
            start(left.tuples(play(spark), key="id"), tmp_path / "a", few.take),
            start(right.tuples(play(spark), key="id"), tmp_path / "b", many.take),
        ]
        assert all(query.awaitTermination(PATIENCE_S) for query in both)
        for shed, sink, share in ((left, few, 0.2), (right, many, 0.6)):
            kept = [len(sink[batch]) for batch in range(4)]
            assert shed.history()["kept_rows"].to_pylist() == kept
            assert sum(kept) == pytest.approx(12_000 * share, rel=0.1)


def test_two_stages_in_one_plan(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("union", 2.0, tmp_path, controller=keeping(0.5)) as shed:
        low = shed.tuples(play(spark).where("tier < 2"), key="id")
        high = shed.tuples(play(spark).where("tier >= 2"), key="id")
        kept = run(low.union(high), tmp_path)
        history = shed.history()
    assert sum(history["arrived_rows"].to_pylist()) == 12_000
    assert sum(history["kept_rows"].to_pylist()) == sum(len(rows) for rows in kept.values())
    assert sum(row["weight"] for rows in kept.values() for row in rows) == pytest.approx(12_000, rel=0.1)


def test_chained_weights_multiply(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("chain", 2.0, tmp_path, controller=keeping(0.5)) as shed:
        kept = run(shed.tuples(shed.tuples(play(spark), key="id"), key=["id", "tier"]), tmp_path)
    rows = [row for batch in kept.values() for row in batch]
    assert {round(row["weight"], 9) for row in rows} == {2.0}, "1 / 0.7 twice"
    assert len(rows) == pytest.approx(6000, rel=0.1)


def test_chained_stages_with_one_key_drop_different_rows(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("chain", 2.0, tmp_path, controller=keeping(0.25)) as shed:
        kept = run(shed.tuples(shed.tuples(play(spark), key="id"), key="id"), tmp_path)
        history = shed.history()
    rows = [row for batch in kept.values() for row in batch]
    assert len(rows) == pytest.approx(3000, rel=0.15)
    assert sum(row["weight"] for row in rows) == pytest.approx(12_000, rel=0.15)
    assert sum(history["arrived_rows"].to_pylist()) == 12_000, "each row is counted once"
    assert sum(history["kept_rows"].to_pylist()) == len(rows)


def prices_of(checkpoint: Path) -> list[float]:
    """Return how likely it was learned to be that a batch and a dropped row cost as much as so many kept rows."""
    model = json.loads((checkpoint / "spillway" / "latest.json").read_text())["cost_model"]
    return list(model["weights"])


def test_a_restart_goes_on_with_what_was_learned(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("again", 2.0, tmp_path) as shed:
        run(shed.tuples(play(spark), key="id"), tmp_path)
        shed.status()  # waits for the last batch
        before = prices_of(tmp_path)
    forget(tmp_path, 3)
    with Spillway("again", 2.0, tmp_path) as shed:
        assert "no row has been timed" not in shed.status().decision.reason
        shed.tuples(play(spark), key="id")  # publishes a decision for the first batch
        assert prices_of(tmp_path) == before, "only how slow the machine is now is not known any more"
        assert len(shed.history()) == 4
        run(shed.tuples(play(spark), key="id"), tmp_path)
        assert len(shed.history()) > 4


@pytest.mark.parametrize(
    "batch", [0, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_a_batch_replayed_after_a_lost_commit_keeps_the_same_rows(
    spark: SparkSession, tmp_path: Path, batch: int
) -> None:
    with Spillway("replay", 2.0, tmp_path, controller=keeping(0.3)) as shed:
        first = run(shed.tuples(play(spark), utility="score", never="vip", floor=0.02, key="id"), tmp_path)
    forget(tmp_path, batch)
    with Spillway("replay", 2.0, tmp_path, controller=keeping(0.9)) as shed:
        again = run(shed.tuples(play(spark), utility="score", never="vip", floor=0.02, key="id"), tmp_path)
    assert again.ids(batch) == first.ids(batch)
    assert [row["weight"] for row in sorted(again[batch], key=lambda row: row["id"])] == [
        row["weight"] for row in sorted(first[batch], key=lambda row: row["id"])
    ]
    later = [len(again[number]) for number in again if number > batch]
    assert all(rows > 2000 for rows in later), "only what was told before is told again"


def test_the_target_can_be_changed_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    with Spillway("retarget", 2.0, tmp_path) as shed:
        shed.tuples(play(spark))
        before = shed.status().decision.queue_limit_rows
        shed.retarget("4 seconds")
        after = shed.status().decision
        assert after.target_delay_s == 4.0
        assert before is not None
        assert after.queue_limit_rows is not None
        assert after.queue_limit_rows > before
        published = json.loads((tmp_path / "spillway" / "latest.json").read_text())["published"]
        assert published["decision"]["target_delay_s"] == 4.0
        with pytest.raises(SpillwayError, match="target_delay"):
            shed.retarget("soon")
