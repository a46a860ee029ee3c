"""Joins on real Spark against the definition: every pair once, some of them with a budget, the same on replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError, equality, inner_product, overlap
from spillway.core import control
from spillway.core.join import Shedding, Utility
from tests.core.join import oracle
from tests.spark.join.join_rows import articles, expected, left, right, values
from tests.spark.orders import Sink, run, told

ROWS, STEP_MS = 400, 5  # of the left side, of which there are four for one of the right


def both(spark: SparkSession, *columns: str) -> tuple[DataFrame, DataFrame]:
    """Return both sides over the same time, the right one with a quarter of the rows."""
    chosen = ("timestamp", "ts", "id", *columns)
    return (
        articles(spark, "left", ROWS, 220, STEP_MS).select(*chosen),
        articles(spark, "right", ROWS // 4, 40, 4 * STEP_MS).select(*chosen),
    )


def oracle_pairs(on: Any, column: str, within_ms: tuple[int, int]) -> set[oracle.Pair]:
    sides = values("left", ROWS, STEP_MS, column), values("right", ROWS // 4, 4 * STEP_MS, column)
    return expected(on, sides, within_ms)


def go_back(checkpoint: Path, batch: int) -> None:
    """Make it look as if Spark had crashed between the sink and the commit of a batch."""
    for log, first in (("commits", batch), ("offsets", batch + 1)):
        for path in (checkpoint / log).iterdir():
            if int(path.name.strip(".").split(".")[0]) >= first:
                path.unlink()


def pairs(sink: Sink) -> list[oracle.Pair]:
    return [(row["id_left"], row["id_right"], row["score"]) for rows in sink.values() for row in rows]


def test_all_pairs_come_once_with_the_columns_of_both(spark: SparkSession, tmp_path: Path) -> None:
    on = overlap("words", at_least=2)
    with Spillway("news", "1 hour", tmp_path, arrival="timestamp") as shed:
        sides = both(spark, "words", "price", "origin", "weights")
        frame = shed.join(*sides, on=on, within=("700 ms", "300 ms"), time="ts", suffixes=("_left", "_right"))
        sink = run(frame, tmp_path, shed)
        history = [entry for entry in shed.history().to_pylist() if entry["arrived_rows"]]
        status = str(shed.status())
    found = pairs(sink)
    assert len(found) == len(set(found))
    assert set(found) == oracle_pairs(on, "words", (700, 300))
    assert len(found) > 300
    rows: list[Row] = [row for rows in sink.values() for row in rows]
    written = {row["id"]: row for row in [*left(0, ROWS).to_pylist(), *right(0, ROWS // 4).to_pylist()]}
    for row in rows[::50]:
        for side in ("left", "right"):
            article = written[row[f"id_{side}"]]
            assert row[f"words_{side}"] == article["words"]
            assert row[f"price_{side}"] == article["price"]
            assert row[f"origin_{side}"].asDict() == article["origin"]
            assert row[f"weights_{side}"] == dict(article["weights"])
            assert row[f"ts_{side}"] is not None
    assert sum(entry["arrived_rows"] for entry in history) == ROWS + ROWS // 4
    assert sum(entry["unmatched_rows"] for entry in history) > 20, "null, empty, and of a single word"
    assert sum(entry["pairs"] for entry in history) == len(found)
    assert all(entry["work_spent"] == entry["work_demanded"] < entry["work_budget"] for entry in history)
    assert all(entry["late_rows"] == 0 and entry["dropped_rows"] == 0 for entry in history)
    assert all(entry["worst_delay_s"] is not None for entry in history)
    assert "a unit of work costs" in history[-1]["reason"]
    assert "next:" in status


def test_with_a_budget_some_pairs_come_and_the_same_on_replay(spark: SparkSession, tmp_path: Path) -> None:
    on = equality("tag", "number")

    def joined(shed: Spillway) -> DataFrame:
        first, second = both(spark, "tag")
        second = second.select("id", F.col("ts").alias("at"), F.col("tag").cast("bigint").alias("number"))
        return shed.join(first, second, on=on, within="1 second", time=("ts", "at"))

    def budget(units: float) -> Any:
        return control.make("fixed", target_delay_s=2.0, work_budget=units)

    with Spillway("tags", "2 seconds", tmp_path, controller=budget(2_000)) as shed:
        sink = run(joined(shed), tmp_path, shed)
        history = [entry for entry in shed.history().to_pylist() if entry["work_demanded"]]
        assert sink[0] == [] or set(sink[0][0].asDict()) >= {"tag", "number", "ts", "at", "timestamp"}
    found = pairs(sink)
    exact = oracle_pairs(equality("tag"), "tag", (1000, 1000))
    assert len(found) == len(set(found))
    assert set(found) < exact
    assert len(found) > 0.02 * len(exact)
    assert 0 < sum(entry["work_spent"] for entry in history) < 1.3 * 2_000 * len(history), "kept on average"
    assert max(entry["work_demanded"] for entry in history) > 4_000
    assert 50 < sum(entry["sampled_out_rows"] for entry in history) < ROWS, (
        "an index drops rows and counts them"
    )
    assert told(tmp_path, 1).work_budgets == (2_000.0,)

    last = max(batch for batch, rows in sink.items() if rows)
    go_back(tmp_path, last)
    with Spillway("tags", "2 seconds", tmp_path, controller=budget(10**9)) as shed:
        again = run(joined(shed), tmp_path, shed)
    assert sorted(map(repr, again[last])) == sorted(map(repr, sink[last])), "what was told holds"


def test_watching_compares_everything_and_needs_no_checkpoint(spark: SparkSession) -> None:
    on = inner_product("weights", at_least=3.0)
    first, second = (side.select("id", "ts", "weights") for side in both(spark, "weights"))
    listed = F.transform(
        F.map_entries("weights"), lambda e: F.struct(e["key"].alias("w"), e["value"].alias("n"))
    )
    second = second.withColumn("weights", listed)
    controller = control.make("fixed", target_delay_s=2.0, work_budget=0)
    with Spillway("watch", "2 seconds", controller=controller, mode="observe") as shed:
        frame = shed.join(first, second, on=on, within="300 ms", time="ts", shards=1)
        found = pairs(run(frame, None, shed))
        assert set(found) == oracle_pairs(on, "weights", (300, 300))
        assert len(found) > 100
        entry = max(shed.history().to_pylist(), key=lambda entry: entry["work_demanded"])
        assert entry["work_spent"] == entry["work_demanded"] > entry["work_budget"] == 0
        assert any("the number of shards is not kept" in problem for problem in shed.status().problems)
    with Spillway("blind", "2 seconds") as shed, pytest.raises(SpillwayError, match="without a checkpoint"):
        shed.join(first, second, on=on, within="300 ms", time="ts")


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return both(spark, "words", "tag", "origin")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on": "words"}, "on = 'words'"),
        ({"on": overlap("wrods", at_least=1)}, "did you mean 'words'"),
        ({"on": overlap("words", "origin", at_least=1)}, "right column 'origin' has type struct"),
        ({"on": overlap("words", "tag", at_least=1)}, "cast one of them"),
        ({"within": "2 secnds"}, "did you mean 'second'"),
        ({"within": ("1 s", "2 s", "3 s")}, "within"),
        ({"time": "tss"}, "did you mean 'ts'"),
        ({"time": "words"}, "has type array<string>: expected timestamp"),
        ({"time": ("ts", "timestamp")}, "'timestamp' of the right side has no watermark"),
        ({"shedding": "selectiv"}, "did you mean 'selective'"),
        ({"shedding": Shedding(utility=Utility("kind", {"a": 1.0}))}, "utility type, left column = 'kind'"),
        ({"suffixes": ("", "")}, "suffixes"),
        ({"suffixes": ("_id", "_left")}, "suffixes"),
        ({"score": ""}, "score = ''"),
        ({"score": "id_left"}, "'id_left' is taken"),
        ({"shards": 0}, "shards = 0"),
        ({"access": "scna"}, "did you mean 'scan'"),
        ({"idle": "-1 s"}, "idle"),
        ({"left": 3}, "left = 3"),
        ({"right": "static"}, "right is not a streaming DataFrame"),
        ({"right": "tag.x"}, "rename it: right.withColumnRenamed('tag.x', 'tag_x')"),
        ({"right": "tag`x"}, "without dots and backticks"),
    ],
)
def test_what_is_wrong_is_told_at_the_call(
    spark: SparkSession,
    sides: tuple[DataFrame, DataFrame],
    tmp_path: Path,
    options: dict[str, Any],
    said: str,
) -> None:
    first, second = sides
    if "_id" in str(options):
        first = first.withColumn("ts_left", F.lit(1))
    given = {"left": first, "right": second, "on": overlap("words", at_least=1), "within": 1, "time": "ts"}
    given |= options
    if given["right"] == "static":
        given["right"] = spark.range(1)
    elif isinstance(given["right"], str):
        given["right"] = second.withColumnRenamed("tag", given["right"])
    with Spillway("bad", "2 seconds", tmp_path) as shed, pytest.raises(SpillwayError) as error:
        shed.join(**given)
    assert said in str(error.value)


def test_shards_and_what_is_joined_are_for_good(spark: SparkSession, tmp_path: Path) -> None:
    first, second = both(spark, "words")
    given: dict[str, Any] = {"on": overlap("words", at_least=1), "within": 1, "time": "ts"}
    with Spillway("news", "2 seconds", tmp_path) as shed:
        shed.join(first, second, shards=4, **given)
    with Spillway("news", "2 seconds", tmp_path) as shed, pytest.raises(SpillwayError, match="shards = 2"):
        shed.join(first, second, shards=2, **given)
    with Spillway("news", "2 seconds", tmp_path) as shed:
        shed.join(first, second, **given)
    for other, said in (
        ({"on": equality("words")}, "another kind of join"),
        ({"within": 2}, "of another join"),
    ):
        with Spillway("news", "2 seconds", tmp_path) as shed, pytest.raises(SpillwayError, match=said):
            shed.join(first, second, **{**given, **other})
