"""Sheds rows by group inside ``foreachBatch``, where the groups of a batch can be counted before rows are shed.

On a stream the keep probabilities of a batch come from the batches before. A function that ``foreachBatch`` calls has
the batch as a table, so the table can be read more than once: first to count the groups and the variance of their
values, then to draw an exact number of rows of each group. So nothing has to be estimated from earlier batches, new
groups are known, drift has no effect, and no group is missing::

    batch -> persist -> count rows, mean, variance per group -> rows to draw -> their hashes -> rations/b.stage.json
          -> look the group's limit up -> count the kept rows -> filter -> weight -> the user's aggregates

While everything is kept the first passes are left out. Only the most frequent groups are listed one by one, at most
as many as a control row can hold; for the other groups see core/groups/quota.py. If the budget is less than one row
per group, rows have keep probabilities, as on a stream. A batch that is run again uses the stored result and is not
counted again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spillway.core.groups.census import Ration
from spillway.core.groups.quota import Drawn, quota, settled
from spillway.errors import SpillwayError, invalid
from spillway.loop.checkpoint_store import RATIONS, Folder
from spillway.loop.decision import BatchDecision, chain_lengths
from spillway.loop.kinds.groups import GroupSpec, Sharing, decide_groups
from spillway.loop.reports import Metrics
from spillway.spark.control_row import read_published
from spillway.spark.groups.exact_draw import WEIGHT, count_groups, find_limits, mark_drawn
from spillway.spark.groups.plan import GroupPlan, GroupRow
from spillway.spark.position_bound import KEEP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IN_FLIGHT = 10  # batches whose counts wait for their progress event


@dataclass(frozen=True)
class Told:
    """The decision of a batch: the rows to draw of each of its groups, or else their keep probabilities."""

    decision: BatchDecision | None
    note: str
    drawn: Drawn | None = None


@dataclass(frozen=True)
class CountedRow(GroupRow):
    """The control row of a batch whose groups can be counted."""

    plan: GroupPlan = field(kw_only=True)

    def told(self, batch: int) -> Told:
        """Return the decision of the batch, made from its own groups."""
        decision, note = self.decision_for(batch, None)
        if decision is None:
            return Told(None, note)
        try:
            made = self._made(Folder(Path(self.folder)), decision)
        except (OSError, SpillwayError, KeyError, TypeError, ValueError) as error:
            return Told(None, f"nothing shed: {error!r}")
        if isinstance(made, Drawn):
            return Told(decision, note, made)
        before = (*decision.rations, *[None] * self.stage)[: self.stage]
        return Told(replace(decision, rations=(*before, made)), note)

    def _made(self, folder: Folder, decision: BatchDecision) -> Drawn | Ration:
        """Return the stored result; if there is none, count the groups, decide, and store the result."""
        published = read_published(folder)
        asked = published.stages[self.stage].groups
        share = decision.keep_ratio ** (1.0 / chain_lengths(published.stages)[self.stage])
        if asked is None or (share >= 1.0 and asked.accuracy is None):
            return Ration()
        name = f"{RATIONS}/{decision.batch}.{self.stage}.json"
        written = folder.read(name)
        if written is not None and json.loads(written)["cut_s"] == decision.cut_s:
            return _read(written)
        folder.remove(name)
        made = self._decide(asked, share, decision.salt_of(self.stage), published.rows_per_s)
        text = json.dumps({"cut_s": decision.cut_s, **asdict(made)})
        return _read(text if folder.write_once(name, text) else folder.read(name) or "")

    def _decide(self, asked: GroupSpec, share: float, salt: int, rows_per_s: float | None) -> Drawn | Ration:
        counted = count_groups(self.plan, salt)
        planned = quota(
            counted.census,
            counted.smallest,
            groups=counted.groups,
            keep_ratio=share,
            rule=asked.rule,
            at_least=asked.at_least,
            accuracy=asked.accuracy,
        )
        if planned is not None:
            return settled(planned, find_limits(self.plan, planned, salt))
        census = counted.census
        (made,) = decide_groups([Sharing(asked, census, share)], rows=census.rows, rows_per_s=rows_per_s)
        return made or Ration()


def _read(text: str) -> Drawn | Ration:
    found = json.loads(text)
    return Drawn.from_dict(found) if "limits" in found else Ration.from_dict(found)


class SecondPasses:
    """The places in the user's function at which rows are shed, with the counts of their latest batches.

    ``add_stage`` adds a stage for a new place; it returns its number, and the name under which counts are reported.
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
        """Return the kept rows of a batch, or of a part of it."""
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
        """Return the counts of a batch, by the names of the places."""
        return self._counted.get(batch, {})

    def release(self) -> None:
        """Release the last batches from memory."""
        for place in self._places.values():
            place.release()


class SecondPass:
    """One place in the user's function at which rows are shed: its stage, and the tables it holds in memory."""

    def __init__(self, stage: int, name: str) -> None:
        self.stage = stage
        self.name = name
        self._held: list[DataFrame] = []

    def shed(
        self, plan: GroupPlan, *, folder: str, checkpoint: str, batch: int, enforce: bool
    ) -> tuple[DataFrame, Metrics]:
        """Return the kept rows, and the metrics that a stage on a stream would have observed."""
        self._hold(plan.df)
        row = CountedRow(folder, checkpoint, self.stage, plan=plan)
        told = row.told(batch)
        if told.decision is not None and told.drawn is not None:
            salt = told.decision.salt_of(self.stage)
            marked = mark_drawn(plan, told.drawn, salt=salt, note=told.note)
            return self._drawn(plan, marked, told.drawn.arrived, enforce=enforce)
        frame = plan.df.sparkSession.createDataFrame([row.row(told.decision, told.note)], row.schema)
        marked = plan.mark(frame, self.stage)
        metrics = marked.agg(*plan.metrics(enforce=enforce, learn=False)).first()
        return plan.keep(marked, enforce=enforce), {} if metrics is None else metrics.asDict()

    def _drawn(
        self, plan: GroupPlan, marked: DataFrame, arrived: int, *, enforce: bool
    ) -> tuple[DataFrame, Metrics]:
        """Keep the few drawn rows in memory: they are read twice, to count them here and then by the user's query."""
        kept = marked.where(F.col(KEEP))
        if enforce:
            self._held.append(kept.persist())
        row = kept.agg(*plan.metrics(enforce=enforce, learn=False)).first()
        metrics = {**({} if row is None else row.asDict()), "arrived": arrived}
        if metrics.get("arrival_missing") == metrics.get("kept"):
            metrics["arrival_missing"] = arrived
        return plan.keep(kept if enforce else marked, enforce=enforce, weight=F.col(WEIGHT)), metrics

    def release(self) -> None:
        """Release the last batch from memory."""
        for held in self._held:
            held.unpersist()
        self._held.clear()

    def _hold(self, df: DataFrame) -> None:
        self.release()
        if not df.is_cached:
            self._held.append(df.persist())


def require_this_batch(spark: SparkSession, batch: int) -> str | None:
    """Refuse the number of a batch that is not the running one; return the id of the run, if it is known."""
    told = spark.sparkContext.getLocalProperty("streaming.sql.batchId")
    if told is not None and told != str(batch):
        raise invalid("batch", batch, f"{told}, the number that foreachBatch gives to the function")
    return spark.sparkContext.getLocalProperty("spark.jobGroup.id")
