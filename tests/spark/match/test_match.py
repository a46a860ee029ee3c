"""Patterns on real Spark against the definition: every match once, some of them with a budget, the same on replay."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway, SpillwayError
from spillway.core import control
from spillway.core.cep import PatternConfig, Shed
from spillway.core.cep.language import QueryError, parse
from spillway.spark.match import plan as on_spark
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_rows import learned_before
from spillway.spark.match.training_stretch import CLASSES
from tests.core.cep.oracle import Match
from tests.spark.match.match_rows import calls, event, events, expected, interpreted, moment_ms
from tests.spark.orders import Sink, run, told
from tests.spark.replay.test_replay import uncommit

ROWS, PER_BATCH = 150, 75
BUDGETED = 240
LONG_PAST = pa.array([0], pa.timestamp("ms"))
PAIRED = """
PATTERN SEQ(A a, B{1,2} b[], C c, NEG D d)
WHERE a.bike = b[i].bike AND a.bike = c.user AND a.bike = d.user AND a.v <= c.v
WITHIN 800 ms
"""


def found(sink: Sink) -> list[Match]:
    """Return the matches by the ids that they tell, in the order of the variables."""
    return [
        tuple(
            tuple(row["id"] for row in match[name]) if isinstance(match[name], list) else match[name]["id"]
            for name in match.asDict()
            if name not in ("first_time", "last_time", "complete")
        )
        for matches in sink.values()
        for match in matches
    ]


def anyhow(query: str, rows: int) -> set[Match]:
    """Return the matches of a query without repetition, in whatever order events of the same time are."""
    within_ms, result = parse(query).within_us // 1_000, set()
    for bike in range(3):
        kinds = zip("ABC", ("bike", "bike", "user"), strict=True)
        ids = [
            [n for n in range(rows) if event(n)["type"] == kind and event(n)[name] == bike]
            for kind, name in kinds
        ]
        for match in itertools.product(*ids):
            times = [moment_ms(n) for n in match]
            if times == sorted(times) and times[2] - times[0] < within_ms:
                result.add(match)
    return result


def back_to_the_last(sink: Sink, checkpoint: Path) -> int:
    """Make it look as if Spark had crashed before it committed the last batch that brought something."""
    last = max(batch for batch, rows in sink.items() if rows)
    uncommit(checkpoint, last)
    for batch in range(
        last + 1, max(sink) + 1
    ):  # those that only moved the watermark were not planned by then
        uncommit(checkpoint, batch)
        (checkpoint / "offsets" / str(batch)).unlink()
        (checkpoint / "offsets" / f".{batch}.crc").unlink(missing_ok=True)
    return last


def test_all_matches_come_once_with_the_columns_of_their_rows_and_also_after_a_crash(
    spark: SparkSession, tmp_path: Path
) -> None:
    def matched(shed: Spillway) -> DataFrame:
        with interpreted(), pytest.warns(UserWarning, match="may be invented: a row of d that is dropped"):
            return shed.match(
                events(spark, ROWS, PER_BATCH), PAIRED, time="ts", type="type", order="id", shedding=None
            )

    with Spillway("rides", "1 hour", tmp_path, arrival="timestamp") as shed:
        sink = run(matched(shed), tmp_path, shed)
        history = [entry for entry in shed.history().to_pylist() if entry["arrived_rows"]]
        (problem,) = shed.status().problems
    result = found(sink)
    assert len(result) == len(set(result))
    assert set(result) == expected(PAIRED, ROWS)
    assert len(result) > 20
    for match in [match for matches in sink.values() for match in matches][::5]:
        rows = [match["a"], *match["b"], match["c"]]
        for row in rows:
            told = event(row["id"])
            assert row["place"].asDict() == told["place"]
            assert (row["type"], row["bike"], row["v"]) == (told["type"], told["bike"], told["v"])
        times = [moment_ms(row["id"]) for row in rows]
        assert [match["first_time"], match["last_time"]] == [rows[0]["ts"], rows[-1]["ts"]]
        assert times == sorted(times)
    assert sum(entry["arrived_rows"] for entry in history) == ROWS
    unnamed = [n for n in range(ROWS) if n % 37 == 0 or n % 31 == 0 or event(n)["type"] == "X"]
    assert sum(entry["unmatched_rows"] for entry in history) == len(unnamed)
    assert sum(entry["matches"] for entry in history) + len(sink[max(sink)]) == len(result)
    assert all(entry["late_rows"] == 0 and entry["dropped_rows"] == 0 for entry in history)
    assert all(entry["worst_delay_s"] is not None for entry in history)
    assert "may be invented" in problem

    longer, last = PAIRED.replace("800", "900"), back_to_the_last(sink, tmp_path)
    with (
        Spillway("rides", "1 hour", tmp_path, arrival="timestamp") as shed,
        interpreted(),
        pytest.raises(
            SpillwayError, match=r"another pattern: there it has '.*WITHIN 800 ms .*here '.*WITHIN 900 ms"
        ) as refused,
    ):
        shed.match(events(spark, ROWS, PER_BATCH), longer, time="ts", type="type", order="id", shedding=None)
    assert len(str(refused.value)) < 330
    with Spillway("rides", "1 hour", tmp_path, arrival="timestamp") as shed:
        again = run(matched(shed), tmp_path, shed)
    assert sorted(map(repr, again[last])) == sorted(map(repr, sink[last]))


def test_with_a_budget_some_matches_come_and_the_same_on_replay(spark: SparkSession, tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.bike = b.bike AND a.bike = c.user WITHIN 1 s"

    def matched(shed: Spillway) -> DataFrame:
        with interpreted():
            return shed.match(
                events(spark, BUDGETED, BUDGETED // 2), query, time="ts", type="type", columns=["id"]
            )

    def budget(units: float) -> Any:
        return control.make("fixed", target_delay_s=2.0, work_budget=units)

    with Spillway("rides", "2 seconds", tmp_path, controller=budget(200)) as shed:
        sink = run(matched(shed), tmp_path, shed)
        history = shed.history().to_pylist()
    result = found(sink)
    assert len(result) == len(set(result))
    assert len(result) > 20
    assert set(result) < anyhow(query, BUDGETED)
    assert all(entry["work_spent"] <= 200 + 2 * 60 for entry in history), (
        "and what one row of each shard may take"
    )
    assert sum(entry["sampled_out_rows"] for entry in history) > 20
    for entry in history:
        assert entry["dropped_rows"] == entry["would_drop_rows"] == entry["sampled_out_rows"]
        assert entry["kept_rows"] == max(0, entry["arrived_rows"] - entry["dropped_rows"])
        assert entry["state_bytes"] > 0
    assert history[-1]["arrived_rows"] == 0, "a batch in which only the watermark has moved"
    assert history[-1]["state_bytes"] > history[-2]["state_bytes"] / 2, "tells what there still is"
    assert told(tmp_path, 1).work_budgets == (200.0,)

    last = back_to_the_last(sink, tmp_path)
    with Spillway("rides", "2 seconds", tmp_path, controller=budget(10**9)) as shed:
        again = run(matched(shed), tmp_path, shed)
    assert sorted(map(repr, again[last])) == sorted(map(repr, sink[last])), "what was told holds"


def test_without_a_key_one_task_sees_every_row(spark: SparkSession, tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, (B|C){1,2} b[]) WHERE a.v != b[i].v WITHIN 2 s UNDER strict_contiguity"
    with Spillway("near", "2 seconds", tmp_path) as shed:
        with interpreted(), pytest.warns(UserWarning, match="one task.*no longer stands between two others"):
            frame = shed.match(
                events(spark, ROWS, PER_BATCH),
                query,
                time="ts",
                type="type",
                columns=["id"],
                order="id",
                shedding=None,
                times=("since", "until"),
                timeouts="complete",
            )
        assert frame.columns == ["a", "b", "since", "until", "complete"]
        with pytest.raises(
            SpillwayError, match=r"a pattern already.*one in a query.*a checkpoint of its own"
        ):
            shed.match(events(spark, ROWS, PER_BATCH), query, time="ts", type="type")
        for behind in (shed.tuples, lambda df: shed.groups(df, by="since")):
            with pytest.raises(SpillwayError, match=r"in front of it, not behind.*shed\.match\(shed\.tuples"):
                behind(frame)
        assert "one task" in shed.status().problems[0]
        sink = run(frame.drop("since", "until"), tmp_path, shed)
        kept = [entry["runs"] for entry in shed.history().to_pylist()]
    told = [match for matches in sink.values() for match in matches]
    gone = [match for match in told if not match["complete"]]
    assert len(gone) >= 3
    assert all(match["a"] is not None and match["b"] is None for match in gone), "a row that none followed"
    assert max(kept) > 0
    result = found({0: [match for match in told if match["complete"]]})
    assert len(result) == len(set(result))
    assert set(result) == expected(query, ROWS)
    assert len(result) > 5


def test_a_history_is_a_table_or_a_frame_whose_states_are_learned_at_once(spark: SparkSession) -> None:
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.bike = b.bike AND a.v <= c.v WITHIN 1 s"
    at = [moment_ms(n) * 1_000 for n in range(400)]
    past = calls(0, 400).append_column("ts", pa.array(at, pa.timestamp("us", "UTC")))
    config = PatternConfig(
        query, past.schema, time="ts", type="type", tracked=True, classes=CLASSES, compile=False
    )
    spec = SheddingSpec()
    here = learned_before(config, past, spec)
    there = learned_before(
        config, spark.createDataFrame(past.select(["id", "ts", "type", "bike", "v"])), spec
    )
    assert here.gain.sum() > 0.0
    for name in ("gain", "own", "cost", "event_matches"):
        assert np.allclose(getattr(here, name), getattr(there, name))
    with pytest.raises(SpillwayError, match="a stream"):
        learned_before(config, events(spark, ROWS, PER_BATCH), spec)
    with pytest.raises(SpillwayError, match="history = 'v' is not allowed: expected a column of type double"):
        learned_before(config, past.set_column(4, "v", pa.array(["one"] * 400)), spec)
    with pytest.raises(SpillwayError, match="windows or more"):
        learned_before(config, past.slice(0, 20), spec)


def past_of(rows: int) -> pa.Table:
    """Return a history: events with their times."""
    at = [moment_ms(n) * 1_000 for n in range(rows)]
    return calls(0, rows).append_column("ts", pa.array(at, pa.timestamp("us", "UTC")))


def test_what_a_history_told_holds_for_a_restart_with_another_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.bike = b.bike AND a.bike = c.user WITHIN 1 s"
    how = Shed(select="greedy", slices=2)

    def matched(shed: Spillway, history: pa.Table | None, shedding: Any = how) -> DataFrame:
        with interpreted():
            return shed.match(
                events(spark, BUDGETED, BUDGETED // 3),
                query,
                time="ts",
                type="type",
                columns=["id"],
                history=history,
                shedding=shedding,
            )

    def spillway() -> Spillway:
        controller = control.make("fixed", target_delay_s=2.0, work_budget=300)
        return Spillway("rides", "2 seconds", tmp_path, controller=controller)

    with spillway() as shed:
        with pytest.raises(SpillwayError, match="windows or more"):
            matched(shed, past_of(20))
        sink = run(matched(shed, past_of(400)), tmp_path, shed)
    learned = (tmp_path / "spillway" / "learned" / "0.txt").read_bytes()
    result = found(sink)
    assert len(result) == len(set(result)) > 20
    assert set(result) < anyhow(query, BUDGETED)

    monkeypatch.setattr(on_spark, "learned_before", lambda *_: pytest.fail("learned again"))
    last = back_to_the_last(sink, tmp_path)
    with spillway() as shed:
        told = r"shedding = 'state' is not allowed: expected 'hybrid'.*a new checkpoint"
        with pytest.raises(SpillwayError, match=told):
            matched(shed, past_of(900), "state")
        again = run(matched(shed, past_of(900)), tmp_path, shed)
    assert sorted(map(repr, again[last])) == sorted(map(repr, sink[last]))
    assert (tmp_path / "spillway" / "learned" / "0.txt").read_bytes() == learned


def test_rows_that_come_twice_are_dropped_in_front(spark: SparkSession, tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B b) WHERE a.bike = b.bike WITHIN 1 s"
    copied = events(spark, ROWS, PER_BATCH).withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2))))
    once = copied.dropDuplicatesWithinWatermark(["id"])
    with Spillway("twice", "1 hour", tmp_path) as shed:
        with interpreted():
            frame = shed.match(once, query, time="ts", type="type", columns=["id"], order="id", shedding=None)
        sink = run(frame, tmp_path, shed)
        arrived = sum(entry["arrived_rows"] for entry in shed.history().to_pylist())
    result = found(sink)
    assert arrived == ROWS
    assert len(result) == len(set(result)) > 20
    assert set(result) == expected(query, ROWS)


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return events(spark, ROWS, PER_BATCH)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"query": "PATTERN SEQ(A a, B b) WHER a.id = b.id WITHIN 1 s"}, "line 1, column 23"),
        ({"query": "PATTERN SEQ(A a, B b)\nWHERE a.idd = b.id WITHIN 1 s"}, "line 2, column 7"),
        ({"query": "PATTERN SEQ(A a, B b) WHERE a.place = b.place WITHIN 1 s"}, "line 1, column 29"),
        ({"query": 3}, "query = 3"),
        ({"time": "tss"}, "did you mean 'ts'"),
        ({"time": "timestamp"}, "'timestamp' has no watermark"),
        (
            {"time": "v"},
            "has type double: expected timestamp. Hint: df.withColumn('v', F.timestamp_seconds('v'))",
        ),
        ({"time": "type"}, "withColumn('type', F.to_timestamp('type'))"),
        ({"time": "TS"}, "did you mean 'ts'"),
        ({"columns": ["ID"]}, "did you mean 'id'"),
        ({"columns": [3]}, "expected names of columns"),
        ({"type": "tpye"}, "did you mean 'type'"),
        ({"type": "place"}, "type = place has type struct"),
        ({"columns": ["idd"]}, "did you mean 'id'"),
        ({"columns": "id"}, "columns = 'id'"),
        ({"columns": ["id", "id"]}, "each column once"),
        ({"order": "v"}, "expected whole numbers"),
        ({"times": ("a", "z")}, "two columns named 'a'"),
        ({"times": "ab"}, "times = 'ab'"),
        ({"timeouts": 3}, "timeouts = 3"),
        ({"timeouts": "B"}, "two columns named 'B'"),
        ({"index": "al"}, "did you mean 'all'"),
        ({"shards": 0}, "shards = 0"),
        ({"shedding": "hybird"}, "did you mean 'hybrid'"),
        ({"shedding": Shed(bound_s=1.0)}, "shedding, bound_s = 1.0"),
        ({"history": 3}, "history = 'int'"),
        ({"history": pa.table({"ts": [0]})}, "history, column = 'type'"),
        ({"history": pa.table({"TS": [0], "type": ["X"]})}, "did you mean 'TS'"),
        (
            {"history": pa.table({"ts": [0], "type": ["X"], "id": [1]})},
            "history = 'ts' is not allowed: expected a",
        ),
        (
            {"history": pa.table([[0], ["X"], [1], [1]], names=["ts", "type", "id", "id"])},
            "2 columns have that",
        ),
        ({"history": pa.table({"ts": LONG_PAST, "type": ["X"], "id": [1]})}, "1 rows over 0 windows"),
        ({"history": type("DataFrame", (), {"columns": 1, "index": 2})()}, "pa.Table.from_pandas(...)"),
        ({"most_runs": 0}, "most_runs = 0"),
        ({"shards": 2, "query": "PATTERN SEQ(A a, B b) WITHIN 1 s"}, "no attribute is equal"),
        ({"df": "static"}, "df is not a streaming DataFrame"),
        ({"df": "v.x"}, "rename it: df.withColumnRenamed('v.x', 'v_x')"),
        ({"df": "v`x"}, "without dots and backticks"),
        ({"df": "months"}, "column 'months' has type interval month, which Spark does not hand to Python"),
        ({"df": 3}, "df = 3"),
    ],
)
def test_what_is_wrong_is_told_at_the_call(
    spark: SparkSession, stream: DataFrame, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    given = {"query": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 1 s", "time": "ts", "type": "type"}
    given |= {"df": stream} | options
    if given["df"] == "static":
        given["df"] = spark.range(1)
    elif given["df"] == "months":
        given["df"] = stream.selectExpr("*", "interval 1 month AS months")
    elif isinstance(given["df"], str):
        given["df"] = stream.withColumnRenamed("v", given["df"])
    with Spillway("bad", "2 seconds", tmp_path) as shed, pytest.raises(SpillwayError) as error:
        shed.match(**given)
    assert said in str(error.value)
    assert isinstance(error.value, QueryError) == said.startswith("line")
