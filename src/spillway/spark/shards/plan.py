"""Builds the part of a plan that all operators with shards have: packed rows in, results out, counts to the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from spillway.spark.columns import WATERMARK
from spillway.spark.control_row import PREFIX, check_executors, control_frame
from spillway.spark.shards.packets import Unpack
from spillway.spark.shards.task import RESULT, ShardTask, metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

_MARK = f"{PREFIX}event"


def through_shards(
    packed: DataFrame, task: ShardTask, *, state: str, observation: str, schema: T.StructType
) -> DataFrame:
    """Return the results of the shards for packed rows; ``state`` is the schema of a shard's state."""
    check_executors(control_frame(packed.sparkSession, task.control))
    # Spark gives an operator the watermark if the input has a column with one. A null is never late.
    marked = F.lit(None).cast("timestamp").alias(_MARK, metadata={WATERMARK: 0})
    made = (
        packed.select("*", marked)
        .groupBy("key")
        .applyInPandasWithState(
            task,
            outputStructType=RESULT,
            stateStructType=state,
            outputMode="append",
            timeoutConf=GroupStateTimeout.EventTimeTimeout,
        )
    )
    return made.observe(observation, *metrics()).select("results").mapInArrow(Unpack(), schema)
