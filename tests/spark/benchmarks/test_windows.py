"""The parts of the windows suite that run on Spark, in small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.windows.delivered import summary
from benchmarks.windows.spark_promises import promised_on_spark
from spillway import Spillway, sliding, tumbling
from spillway.demo.playback import source
from spillway.replay import Rates
from tests.spark.orders import PATIENCE_S


@pytest.mark.parametrize(
    ("arrangement", "gaps"),
    [
        (tumbling("1 second") >> tumbling("4 seconds"), [3]),
        (sliding("2 seconds", "1 second") | tumbling("2 seconds"), [6, 3]),
    ],
    ids=["pipeline", "fan-out"],
)
def test_the_promises_hold_on_spark(spark: SparkSession, tmp_path: Path, arrangement, gaps) -> None:
    times = np.cumsum(np.random.default_rng(5).exponential(2e4, 7_500)).astype(np.int64)
    found = promised_on_spark(spark, tmp_path, times, arrangement, gaps)
    assert (found.subset_violations, found.gap_violations) == (0, 0)
    assert found.delivered > 0
    if len(gaps) == 1:  # each branch reads the files for itself, and of two sources little is known in time
        assert found.delivered < found.windows


def test_the_query_gives_the_same_with_the_stage_and_nothing_to_shed(
    spark: SparkSession, tmp_path: Path
) -> None:
    answers = []
    for name in ("plain", "idle"):
        events = source(spark, Rates((500.0,), (4.0,)), start="2020-01-01T00:00:00+00:00")
        rows: list[object] = []

        def take(frame: DataFrame, _: int, rows: list[object] = rows) -> None:
            rows += frame.select(F.col("window.start"), "n", "visitor", "audited").collect()

        with Spillway("idle", "1 hour", tmp_path / name) as shed:
            query = (
                summary(events, shed if name == "idle" else None)
                .writeStream.foreachBatch(take)
                .outputMode("update")
                .option("checkpointLocation", str(tmp_path / name))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(PATIENCE_S)
        answers.append(sorted(rows))  # type: ignore[type-var]
    assert answers[0] == answers[1]
    assert sum(row["n"] for row in answers[0]) == 2_000  # type: ignore[index]
