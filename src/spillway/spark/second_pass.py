"""Groups within one micro-batch: inside ``foreachBatch`` the rows are there to be looked at before they are shed.

On a stream the chances of a batch come from the batches before. A function that ``foreachBatch`` calls has the batch
as a table, so it can be read twice: once to count the groups and how their values vary, once to shed by just that.
Nothing has to be guessed, new groups are known, and drift costs nothing but the first pass::

    batch -> persist -> count rows, mean and variance a group -> chances -> rations/b.stage.json
          -> look the group's limit up -> count what is kept -> filter -> weight -> the user's aggregates

While everything is kept the first pass is left out. At most as many groups as a control row tells of are counted one
by one, the most frequent ones; the others are the rest, as on a stream. A batch that is run again is told what was
written down and not counted again.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spillway.core.groups.census import MOST_GROUPS, Census, Ration
from spillway.errors import SpillwayError, invalid
from spillway.spark.decide import BatchDecision, chain_lengths
from spillway.spark.group_decide import Sharing, decide_groups
from spillway.spark.groups import GroupPlan, GroupRow
from spillway.spark.plane import read_published
from spillway.spark.report import Metrics
from spillway.spark.storage import RATIONS, Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_IN_FLIGHT = 10  # batches whose counts wait for their progress event


@dataclass(frozen=True)
class CountedRow(GroupRow):
    """The control row of a batch whose groups can be counted."""

    count: Callable[[], Census] = field(kw_only=True)

    def decision_for(self, batch: int, query: str | None) -> tuple[BatchDecision | None, str]:
        """Return what the batch is told, with chances by its own groups."""
        decision, note = super().decision_for(batch, query)
        if decision is None:
            return None, note
        try:
            ration = self._ration(Folder(Path(self.folder)), decision)
        except (OSError, SpillwayError, KeyError, TypeError, ValueError) as error:
            return None, f"nothing shed: {error!r}"
        before = (*decision.rations, *[None] * self.stage)[: self.stage]
        return replace(decision, rations=(*before, ration)), note

    def _ration(self, folder: Folder, decision: BatchDecision) -> Ration:
        """Return the chances that were written down, or count the groups and write them down."""
        published = read_published(folder)
        asked = published.stages[self.stage].groups
        share = decision.keep_ratio ** (1.0 / chain_lengths(published.stages)[self.stage])
        if asked is None or (share >= 1.0 and asked.accuracy is None):
            return Ration()
        name = f"{RATIONS}/{decision.batch}.{self.stage}.json"
        written = folder.read(name)
        if written is not None and json.loads(written)["cut_s"] == decision.cut_s:
            return Ration.from_dict(json.loads(written))
        folder.remove(name)
        census = self.count()
        (made,) = decide_groups(
            [Sharing(asked, census, share)], rows=census.rows, rows_per_s=published.rows_per_s
        )
        text = json.dumps({"cut_s": decision.cut_s, **asdict(made or Ration())})
        return Ration.from_dict(
            json.loads(text if folder.write_once(name, text) else folder.read(name) or "")
        )


class SecondPasses:
    """The places of the user's function at which rows are shed, and what was counted there of late.

    ``add_stage`` gives a new place its number and the name under which its counts are looked for.
    """

    def __init__(self, add_stage: Callable[[GroupPlan], tuple[int, str]]) -> None:
        self._add_stage = add_stage
        self._places: dict[Hashable, SecondPass] = {}
        self._counted: dict[int, dict[str, Metrics]] = {}
        self._attempt: tuple[str | None, int] | None = None
        self._calls: Counter[Hashable] = Counter()

    def shed(
        self, plan: GroupPlan, spark: SparkSession, *, folder: str, checkpoint: str, batch: int, enforce: bool
    ) -> DataFrame:
        """Return the rows that are kept of a batch, or of a part of it."""
        attempt = (require_this_batch(spark, batch), batch)
        if self._attempt != attempt:
            self._attempt, self._calls = attempt, Counter()
        call = (plan.weight, plan.spec)
        self._calls[call] += 1
        place = (call, self._calls[call])  # the same call on another part of the batch is another place
        if place not in self._places:
            self._places[place] = SecondPass(*self._add_stage(plan))
        here = self._places[place]
        kept, metrics = here.shed(plan, folder=folder, checkpoint=checkpoint, batch=batch, enforce=enforce)
        self._counted = {b: found for b, found in self._counted.items() if batch - b < _IN_FLIGHT}
        self._counted.setdefault(batch, {})[here.name] = metrics
        return kept

    def counts_of(self, batch: int) -> Mapping[str, Metrics]:
        """Return what was counted in a batch, by the names of the places."""
        return self._counted.get(batch, {})

    def release(self) -> None:
        """Let the last batches go from memory."""
        for place in self._places.values():
            place.release()


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


def require_this_batch(spark: SparkSession, batch: int) -> str | None:
    """Refuse the number of another batch than the one that runs; return the id of the run, if it can be told."""
    told = spark.sparkContext.getLocalProperty("streaming.sql.batchId")
    if told is not None and told != str(batch):
        raise invalid("batch", batch, f"{told}, the number that foreachBatch gives to the function")
    return spark.sparkContext.getLocalProperty("spark.jobGroup.id")
