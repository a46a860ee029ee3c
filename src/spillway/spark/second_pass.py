"""Groups within one micro-batch: inside ``foreachBatch`` the rows are there to be looked at before they are shed.

On a stream the chances of a batch come from the batches before. A function that ``foreachBatch`` calls has the batch
as a table, so it can be read twice: once to count the groups and how their values vary, once to shed by just that.
Nothing has to be guessed, new groups are known, and drift costs nothing but the first pass::

    batch -> persist -> count rows, mean and variance a group -> chances -> decisions/b.json
          -> look the group's limit up -> count what is kept -> filter -> weight -> the user's aggregates

While everything is kept the first pass is left out. At most as many groups as a control row tells of are counted one
by one, the most frequent ones; the others are the rest, as on a stream. A batch that is run again is told what was
written down and not counted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spillway.core.groups.census import MOST_GROUPS, Census
from spillway.spark.decide import BatchDecision, decide
from spillway.spark.groups import GroupPlan, GroupRow
from spillway.spark.offsets import BatchSize
from spillway.spark.plane import read_published
from spillway.spark.report import Metrics
from spillway.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True)
class CountedRow(GroupRow):
    """The control row of a batch whose groups can be counted."""

    count: Callable[[], Census] = field(kw_only=True)

    def decide(self, folder: Folder, batch: int, size: BatchSize) -> BatchDecision:
        """Decide by the batch's own groups, which are counted only if rows must go."""
        published = read_published(folder)
        made = decide(published, batch, size)
        stages = list(published.stages)
        asked = stages[self.stage].groups
        if made.keep_ratio >= 1.0 and (asked is None or asked.accuracy is None):
            return made
        stages[self.stage] = replace(stages[self.stage], census=self.count())
        return decide(replace(published, stages=tuple(stages)), batch, size)


class SecondPass:
    """Holds what the batches of one place in the user's function have in common."""

    def __init__(self, stage: int, name: str) -> None:
        self.stage = stage
        self.name = name
        self._held: DataFrame | None = None

    def shed(
        self, plan: GroupPlan, *, folder: str, checkpoint: str, batch: int, enforce: bool
    ) -> tuple[DataFrame, Metrics]:
        """Return the rows that are kept, and what a stage of a stream would have observed."""
        self._hold(plan.df)
        row = CountedRow(folder, checkpoint, self.stage, count=lambda: count_groups(plan))
        told = row.row(*row.decision_for(batch, None))
        frame = plan.df.sparkSession.createDataFrame([told], row.schema)
        marked = plan.mark(frame, self.stage)
        metrics = marked.agg(*plan.metrics(enforce=enforce, learn=False)).first()
        return plan.keep(marked, enforce=enforce), {} if metrics is None else metrics.asDict()

    def release(self) -> None:
        """Let the last batch go from memory."""
        if self._held is not None:
            self._held.unpersist()
            self._held = None

    def _hold(self, df: DataFrame) -> None:
        self.release()
        if not df.is_cached:
            self._held = df.persist()


def count_groups(plan: GroupPlan) -> Census:
    """Count the rows of each group, and how its values vary."""
    value = F.lit(None).cast("double") if plan.value is None else plan.value.cast("double")
    value = F.when(~F.isnan(value), value)
    rows = plan.df.select(F.xxhash64(*plan.by).alias("key"), value.alias("value"))
    counted = rows.groupBy("key").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count("value").alias("values"),
        F.avg("value").alias("mean"),
        F.var_pop("value").alias("variance"),
    )
    found = counted.orderBy(F.desc("rows"), "key").limit(MOST_GROUPS).collect()
    return Census.counted(
        rows=plan.df.count(),
        keys=[row["key"] for row in found],
        counts=[row["rows"] for row in found],
        moments=[] if plan.value is None else [_moments(row) for row in found],
    )


def _moments(row: Row) -> tuple[int, float, float]:
    """Return number, mean and variance; infinite values say nothing."""
    mean, variance = row["mean"], row["variance"]
    if mean is None or not math.isfinite(mean) or not math.isfinite(variance):
        return 0, 0.0, 0.0
    return row["values"], mean, variance
