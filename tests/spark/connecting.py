"""A query on Spark Connect, in a process of its own: a session is either classic or Connect, not both.

Run as ``python -m tests.spark.connecting CHECKPOINT``; prints what was kept as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spillway import Spillway
from spillway.core import control
from tests.spark.orders import PATIENCE_S, play


def main(checkpoint: Path) -> None:
    """Run the query to its end and report."""
    session = (
        SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    )
    controller = control.make("fixed", target_delay_s=2.0, keep_ratio=0.3)
    with Spillway("connect", 2.0, checkpoint, controller=controller, arrival="timestamp") as shed:
        frame = shed.tuples(play(session), utility="score", never="vip", floor=0.02, key="id")
        query = (
            frame.select("id", "weight")
            .writeStream.format("parquet")
            .option("path", str(checkpoint.parent / "out"))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        history = shed.history()
        print(  # noqa: T201  the parent reads it
            json.dumps(
                {
                    "arrived": history["arrived_rows"].to_pylist(),
                    "kept": history["kept_rows"].to_pylist(),
                    "delays": history["worst_delay_s"].to_pylist(),
                    "problems": list(shed.status().problems),
                }
            )
        )
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
