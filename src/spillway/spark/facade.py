"""The facade: the class ``Spillway``, one object per query, whose methods take and return DataFrames."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spillway.core.groups.accuracy import Accuracy
from spillway.core.groups.rates import Rule
from spillway.core.windows import Arrangement
from spillway.durations import Duration
from spillway.errors import SpillwayError, invalid
from spillway.loop.step_controller import Steps
from spillway.spark.control_row import ControlRow
from spillway.spark.groups.foreach_batch_groups import SecondPasses
from spillway.spark.groups.plan import AT_LEAST, GroupPlan, GroupRow
from spillway.spark.query_binding import Attached, Mode
from spillway.spark.tuples import TuplePlan
from spillway.spark.windows import WindowPlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from spillway.core.cep import Shed
    from spillway.core.join import Predicate, Shedding
    from spillway.spark.join.plan import JoinPlan
    from spillway.spark.match.plan import MatchPlan


class Spillway(Attached):
    """Keeps one streaming query within its latency target.

    Use it in the plan just before the expensive part. Start the query as usual, with the same checkpoint::

        shed = Spillway("rides", target_delay="2 seconds", checkpoint="/data/checkpoints/rides",
                        arrival="timestamp")
        (shed.tuples(rides).groupBy("route").agg(F.sum("weight").alias("rides"))
             .writeStream.outputMode("update").format("console")
             .option("checkpointLocation", "/data/checkpoints/rides").start())

    ============= ========================================================================================
    option        meaning
    ============= ========================================================================================
    name          appears in metrics and messages; also seeds the choice of rows
    target_delay  how long a row may take from its arrival to its result: "2 seconds", a timedelta, seconds
    checkpoint    the same path that ``writeStream`` gets as ``checkpointLocation``; Spillway keeps its state in
                  ``checkpoint/spillway``. Without it nothing survives a restart, and the size of a batch is
                  estimated instead of known
    controller    a name (deadline, ctrl, baseline, aurora, fixed, none) or an object with ``step``
    arrival       the timestamp column that says when a row arrived; without it delays are not measured
    mode          "enforce" drops rows; "observe" measures and decides but drops nothing
    ============= ========================================================================================
    """

    def __init__(
        self,
        name: str,
        target_delay: Duration,
        checkpoint: str | os.PathLike[str] | None = None,
        controller: str | Steps = "deadline",
        arrival: str | None = None,
        mode: Mode = "enforce",
    ) -> None:
        super().__init__(name, target_delay, checkpoint, controller, mode)
        self._arrival = arrival
        self._arrangements: dict[tuple[Arrangement, tuple[int, ...]], int] = {}
        self._joins: Counter[str] = Counter()
        self._has_shards = False
        self._passes = SecondPasses(self._add_groups)

    def tuples(
        self,
        df: DataFrame,
        utility: str | Column | None = None,
        never: str | Column | None = None,
        floor: float = 0.0,
        key: str | Sequence[str] | None = None,
        weight: str = "weight",
    ) -> DataFrame:
        """Shed single rows: uniformly, or the rows of the lowest utility first.

        ======== ==========================================================================================
        option   meaning
        ======== ==========================================================================================
        utility  a numeric column or expression; null and NaN rank below all other values and are counted
        never    a boolean column or condition; rows for which it is true are never dropped, and are counted
        floor    with a utility: the least share of rows that is kept at every utility, so that no class of
                 rows is dropped completely. It is lowered where less than that share fits
        key      the columns whose hash picks the rows; by default all. If whole rows repeat, name the columns
                 that identify a row: rows of one batch with equal keys are kept or dropped together
        weight   the name of the column that is added: 1 / the probability that the row is kept
        ======== ==========================================================================================
        """
        self._require_open()
        self._require_in_front()
        plan = TuplePlan.check(
            df, utility=utility, never=never, floor=floor, key=key, weight=weight, arrival=self._arrival
        )
        self._listen(df.sparkSession)
        stage = self._loop.add_stage(plan.floor, chained=plan.chained)
        control_row = ControlRow(str(self._folder.root), self._checkpoint_text, stage)
        return plan.build(control_row, self._observe(stage), enforce=self.mode == "enforce")

    def groups(
        self,
        df: DataFrame,
        by: str | Sequence[str] | None,
        value: str | Column | None = None,
        time: str | Column | None = None,
        window: Duration | None = None,
        rule: Rule = "variance",
        at_least: int = AT_LEAST,
        accuracy: str | Accuracy | None = None,
        join: str | None = None,
        key: str | Sequence[str] | None = None,
        weight: str = "weight",
        batch: int | None = None,
    ) -> DataFrame:
        """Shed rows by group, so that no group is missing and each group keeps enough rows for its estimate.

        Rows of rare or new groups are kept. Rows of frequent groups are kept with a probability that the rule sets.

        ======== ==========================================================================================
        option   meaning
        ======== ==========================================================================================
        by       the columns that make the groups; nulls are a group. None for a query without groups
        value    the number that will be averaged: the variance rule gives more rows to groups where it varies more.
                 Without it that rule is the same as "equal"
        time     the timestamp column by which windows are made; without it event time is taken to be arrival time
        window   the length of the window that is aggregated: no group should be missing in it. Each task then counts
                 the groups of its rows and draws exact numbers of rows, for about half a microsecond per row. A batch
                 is replayed exactly if its source cuts it into the same partitions. Without a window each row has
                 an independent random draw
        rule     "variance", "equal", or "proportional" with at least some rows per group
        at_least the least expected number of kept rows per group: with n rows a group is missed with probability e⁻ⁿ
        accuracy "1 % at 95 %": keep no more rows of a group than its mean needs in a window, even if more would fit
        join     a name of your choice, given to both inputs of a join on ``by``: keys that cannot match are shed
                 first, and keys that match most keep most. Estimate from the result with ``est.joined``
        key      the columns whose hash picks the rows; by default all. If whole rows repeat, name the columns that
                 identify a row: rows of one batch with equal keys are kept or dropped together (``est.clustered``)
        weight   the name of the column that is added: 1 / the probability that the row is kept
        batch    within ``foreachBatch``: the number of the batch that ``df`` is. Its groups are then counted before
                 rows are shed, and the census of earlier batches is not used
        ======== ==========================================================================================
        """
        self._require_open()
        self._require_in_front()
        if join is not None:
            if batch is not None:
                raise invalid(
                    "join", join, "None within foreachBatch", hint="shed before a stream-stream join"
                )
            self._joins[join] += 1
            if self._joins[join] > 2:
                raise invalid("join", join, "a name for two inputs", hint="this is the third call with it")
        plan = GroupPlan.check(
            df,
            by=by,
            value=value,
            time=time,
            window=window,
            rule=rule,
            at_least=at_least,
            accuracy=accuracy,
            join=join,
            key=key,
            weight=weight,
            arrival=self._arrival,
            batch=batch,
        )
        spark = df.sparkSession if batch is None else self._session_of_query()
        self._listen(spark)
        if batch is not None:
            return self._shed_batch(plan, spark, batch)
        stage, observation = self._add_groups(plan)
        row = GroupRow(str(self._folder.root), self._checkpoint_text, stage)
        return plan.build(row, observation, enforce=self.mode == "enforce")

    def windows(
        self,
        df: DataFrame,
        arrangement: Arrangement,
        time: str,
        max_gap: int | Sequence[int],
        level: int | tuple[int, ...] = 0,
    ) -> DataFrame:
        """Shed whole windows: every window in the output has exactly the result it would have without shedding.

        Adds a column ``window`` that holds only the allowed windows, for use in ``groupBy("window", ...)``. Rows that
        no allowed window needs are dropped at once.

        =========== =======================================================================================
        option      meaning
        =========== =======================================================================================
        arrangement ``tumbling("5 minutes") >> tumbling("1 hour")``: the windowed aggregates that follow in the plan
        time        the timestamp column with the watermark; for a level below the first: "window"
        max_gap     how many results in a row may be missing; one number, or one for each last level
        level       which aggregate of the arrangement: 0 is the first that reads the input, 1 the second (the next
                    branch), (0, 0) the first that reads the output of aggregate 0, and so on
        =========== =======================================================================================
        """
        self._require_open()
        self._require_in_front()
        if self._checkpoint is None:
            raise SpillwayError(
                "whole windows are shed only with a checkpoint: what rows have come is read from its offset log.",
                hint="give Spillway the path that writeStream gets as checkpointLocation",
            )
        plan = WindowPlan.check(
            df, arrangement, time=time, max_gap=max_gap, level=level, arrival=self._arrival
        )
        self._listen(df.sparkSession)
        declared = (arrangement, arrangement.gaps(max_gap))
        stage = self._arrangements.get(declared)
        observation = None
        if stage is None:
            if len(plan.path) > 1:
                raise SpillwayError(
                    f"level {plan.path} of {arrangement!r} comes before its first, or with another max_gap.",
                    hint="call windows() with the same arrangement and max_gap on the input first",
                )
            stage = self._arrangements[declared] = self._loop.add_stage(window=plan.spec)
            observation = self._observe(stage)
        enforce = self.mode == "enforce"
        row = plan.row(str(self._folder.root), self._checkpoint_text, stage, enforce=enforce)
        return plan.build(row, observation)

    def join(
        self,
        left: DataFrame,
        right: DataFrame,
        on: Predicate,
        within: Duration | tuple[Duration, Duration],
        time: str | tuple[str, str],
        shedding: str | Shedding = "selective",
        suffixes: tuple[str, str] = ("_left", "_right"),
        score: str = "score",
        shards: int | None = None,
        access: str | None = None,
        idle: Duration | None = None,
    ) -> DataFrame:
        """Join two streams; if there is no time for all comparisons, make those that are most likely to match.

        Comparisons are shed, and every row stays. The exception is a join that looks up single values in an index
        (the default for equality): there rows are dropped at random, because no part of a window is a better choice.
        Returns one row per pair: the columns of both sides, and the score of the match.

        ======== ==========================================================================================
        option   meaning
        ======== ==========================================================================================
        on       ``overlap("words", at_least=3)``, ``inner_product``, ``equality``, ``subset`` or ``superset``
        within   how far apart in time the rows of a pair may be; or two values: how long left and right rows stay
        time     the timestamp column with the watermark, or one for each side. A pair is output when the watermark
                 has passed its later row
        shedding "selective", "timecorr", "newest", "random" (drop rows instead), or a ``Shedding`` with its
                 parameters and utilities
        suffixes the suffixes for the names of columns that both sides have
        score    the name of the column with the score: common items, or the inner product
        shards   how many tasks share the work; by default as many as can run at once. It cannot be changed later,
                 because the state depends on it
        access   "scan" or "index"; by default an index for equality and a scan for the other predicates
        idle     how far the time of one side may lag behind the other's before the join stops waiting for it. By
                 default the join waits without limit, as Spark's own joins do, and the status says if the state
                 grows because of it
        ======== ==========================================================================================
        """
        from spillway.spark.join.plan import JoinPlan  # noqa: PLC0415  loads the compiler

        self._require_open()
        plan = JoinPlan.check(
            left,
            right,
            on=on,
            within=within,
            time=time,
            shedding=shedding,
            suffixes=suffixes,
            score=score,
            shards=shards,
            access=access,
            idle=idle,
            arrival=self._arrival,
            salt=self._loop.published.seed,
        )
        return self._add_shards(plan, left.sparkSession)

    def match(
        self,
        df: DataFrame,
        query: str,
        time: str,
        type: str,
        columns: Sequence[str] | None = None,
        shedding: str | Shed | None = "hybrid",
        history: pa.Table | DataFrame | None = None,
        most_runs: int = 500_000,
        order: str | None = None,
        times: tuple[str, str] = ("first_time", "last_time"),
        timeouts: str | None = None,
        index: str = "all",
        shards: int | None = None,
    ) -> DataFrame:
        """Find a pattern in a stream: ``"PATTERN SEQ(A a, B+ b[], C c) WHERE [id] WITHIN 8 ms"``.

        Returns a row for each match: for each variable of the pattern a struct with the columns of its row, or an
        array of structs if the variable is repeated, and the match's first and last time. Errors in the query are
        reported with their line and column.

        ========= =========================================================================================
        option    meaning
        ========= =========================================================================================
        time      the timestamp column with the watermark. A match is output when the watermark has passed its last
                  row, or its whole window if the pattern ends with a negated element
        type      the column with the type of a row, as the pattern names it: strings or whole numbers
        columns   the columns to output for each row of a match; by default all. Fewer columns make a smaller state
        shedding  what is shed if there is no time for all work: "hybrid" (the partial matches and rows with the
                  least benefit for their cost), "state", "input", or without a cost model "random_input",
                  "random_state", "selective_input", "selective_state"; or a ``spillway.core.cep.Shed`` with more
                  options and without a bound. None drops the last rows of a batch. It cannot be changed later,
                  because the learned values depend on it
        history   training rows: earlier rows, some windows long, from which the values of partial matches are
                  learned. A pyarrow Table, or a DataFrame, whose states are learned in parallel. It is read once in
                  the life of a checkpoint. Without it the first rows of the stream are the training rows
        most_runs how many partial matches a shard may keep; beyond that the least valuable are shed
        order     a column of whole numbers by which rows of the same time are ordered; by default a hash of the row
        times     the names of the columns with the match's first and last time
        timeouts  the name of a boolean column to add. Partial matches whose window has passed are then output as
                  well, with false in this column, and null for the variables that have no row
        index     which equalities find partial matches: "all" (also computed ones), "attributes" or "none"
        shards    how many tasks share the work; by default as many as can run at once, or one if no attribute is
                  equal in all rows of a match. It cannot be changed later, because the state depends on it
        ========= =========================================================================================
        """
        from spillway.spark.match.plan import MatchPlan  # noqa: PLC0415  loads the compiler

        self._require_open()
        plan = MatchPlan.check(
            df,
            query,
            time=time,
            type=type,
            columns=columns,
            shedding=shedding,
            history=history,
            most_runs=most_runs,
            order=order,
            times=times,
            timeouts=timeouts,
            index=index,
            shards=shards,
            arrival=self._arrival,
            salt=self._loop.published.seed,
        )
        if plan.warning is not None:
            self._loop.note(plan.warning)
        return self._add_shards(plan, df.sparkSession, plan.settle)

    def _shed_batch(self, plan: GroupPlan, spark: SparkSession, batch: int) -> DataFrame:
        """Shed the groups of a batch that can be read twice."""
        if self._checkpoint is None:
            raise SpillwayError(
                "within foreachBatch rows are shed only with a checkpoint: whose batch it is, is read there.",
                hint="give Spillway the path that writeStream gets as checkpointLocation",
            )
        return self._passes.shed(
            plan,
            spark,
            folder=str(self._folder.root),
            checkpoint=str(self._checkpoint),
            batch=batch,
            enforce=self.mode == "enforce",
        )

    def _add_groups(self, plan: GroupPlan) -> tuple[int, str]:
        """Add a stage that sheds groups; return its number, and the name under which its counts are reported."""
        stage = self._loop.add_stage(chained=plan.chained, groups=plan.spec)
        return stage, self._observe(stage)

    def _require_in_front(self) -> None:
        """Refuse to shed the output of a join or a pattern: its rows would be counted as arriving rows."""
        if self._has_shards:
            raise SpillwayError(
                f"this Spillway {self.name!r} has a join or a pattern: rows are shed in front of it, not behind.",
                hint="shed what goes in: shed.match(shed.tuples(df), ...)",
            )

    def _add_shards(
        self,
        plan: JoinPlan | MatchPlan,
        spark: SparkSession,
        settle: Callable[[ControlRow], None] | None = None,
    ) -> DataFrame:
        """Add an operator that keeps state in shards to the query.

        ``settle`` checks the call against the checkpoint. This check and that of the layout come before anything is
        added: if a call is refused and then corrected, it must get the same stage number as a correct first call.
        """
        from spillway.spark.shards.grid import lasting_grid  # noqa: PLC0415  loads the compiler

        self._require_layout()
        if self._has_shards:
            raise SpillwayError(
                f"this Spillway {self.name!r} has a join or a pattern already, and Spark allows one in a query.",
                hint="start a query of its own for the other one, with a Spillway and a checkpoint of its own; to "
                "call it again, make a new Spillway",
            )
        stage = len(self._observations)  # as every stage is observed, this is the number of the next one
        control_row = ControlRow(str(self._folder.root), self._checkpoint_text, stage)
        if settle is not None:
            settle(control_row)
        grid = lasting_grid(spark, self._folder, stage, plan.shards, hashed=plan.hashed)
        self._listen(spark)
        self._loop.add_stage(works=True)
        built = plan.build(control_row, grid, self._observe(stage), enforce=self.mode == "enforce")
        self._has_shards = True
        return built

    def _require_layout(self) -> None:
        """Require a checkpoint, in which a restart finds the number of shards: with another number, state is lost."""
        if self._checkpoint is not None:
            return
        lost = "without a checkpoint the number of shards is not kept, and a restart with another one loses results"
        hint = "give Spillway the path that writeStream gets as checkpointLocation"
        if self.mode == "enforce":
            raise SpillwayError(f"{lost}.", hint=hint)
        self._loop.note(f"{lost}: {hint}")
