"""Finds a pattern in a stream of rows on Spark, and returns a stream of matches.

The plan that is added::

    rows -> part, hash -> Pack -> groupBy(key) -> ShardTask -> observe -> Unpack -> the user's plan

columns.py describes which columns are read and which rows belong together, shard.py what a shard does and keeps,
shedding_choice.py how it sheds, training_rows.py and training_stretch.py how the values of partial matches are
learned, shared_model.py how all shards get the learned values, packets.py how rows get to the shards and matches
back, and task.py how Spark calls a shard. The budget of a batch is part of its decision (decision.py): the first
shard that needs the decision stores it, and all other shards and every replay read the same one.

**Shards.** The conditions of a query often require that all rows of a match have a value in common: ``a.id = b.id``.
Then rows with the same value go to the same shard (``spillway.core.cep.language.partition_key``), and the rows of a
match are never separated. A query without such a key has a single shard, and the whole stream goes through one task.

A row that can be in no match (no time, a type that the pattern does not name, no key) is counted and left out before
the shuffle. Under the policy ``strict`` every row matters, since it may stand between two other rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spillway.core.cep import PatternConfig
from spillway.core.cep.language import Correlation, correlation, parse, to_text
from spillway.core.cep.shed import invented
from spillway.errors import invalid
from spillway.loop.checkpoint_store import Folder
from spillway.spark.columns import quoted, require_arrow_types, require_plain_names, resolve, row_hash
from spillway.spark.control_row import ControlRow
from spillway.spark.match.columns import (
    arrow_schema,
    chosen_columns,
    delay_of,
    key_hash,
    output_schema,
    require_events,
    require_names,
    require_order,
    require_type,
    usable,
)
from spillway.spark.match.shard import STATE, MatchLogic
from spillway.spark.match.shared_model import Sharing, last_planned
from spillway.spark.match.shedding_choice import keep_choice, spec_of
from spillway.spark.match.training_rows import learned_before, require_history
from spillway.spark.match.training_stretch import CLASSES
from spillway.spark.shards.grid import Grid, check_shards, require_same
from spillway.spark.shards.packets import ORDER, PACKED, PART, Pack
from spillway.spark.shards.plan import through_shards
from spillway.spark.shards.task import ShardTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class MatchPlan:
    """The arguments of ``Spillway.match``, checked against a DataFrame."""

    df: DataFrame
    logic: MatchLogic
    key: Correlation | None
    arrival: str | None
    shards: int | None
    history: Any = None

    @classmethod
    def check(
        cls,
        df: DataFrame,
        query: str,
        *,
        time: str,
        type: str,
        columns: Sequence[str] | None,
        order: str | None,
        times: tuple[str, str],
        shedding: Any,
        history: Any,
        most_runs: int,
        index: str,
        shards: int | None,
        arrival: str | None,
        salt: int,
        timeouts: str | None = None,
    ) -> MatchPlan:
        """Check the arguments when the call is made; raise for those that cannot work."""
        require_events(df)
        tree = parse(query)
        delay_us = delay_of(df, time)
        require_type(df, type)
        require_order(df, order)
        check_shards(shards)
        schema = arrow_schema(df)
        spec = spec_of(shedding)
        config = PatternConfig(
            tree,
            schema,
            time=time,
            type=type,
            index=index,  # type: ignore[arg-type]
            tracked=True,
            classes=CLASSES,
            slices=spec.slices,
            most_runs=most_runs,
            timeouts=timeouts is not None,
            late="drop",
        )
        key = correlation(tree, schema)
        if key is None and shards not in (None, 1):
            raise invalid(
                "shards",
                shards,
                "1 or None, for no attribute is equal in all rows of a match",
                hint="add a condition such as [id], if that is meant",
            )
        if arrival is not None:
            resolve(df, "arrival", arrival, (T.TimestampType, T.TimestampNTZType), "timestamp")
        logic = MatchLogic(
            config=config,
            columns=chosen_columns(df, columns),
            times=require_names(tree, times, timeouts),
            delay_us=delay_us,
            shedding=spec,
            order=order,
            salt=salt,
            complete=timeouts,
        )
        if history is not None:
            require_history(config, history)
        plan = cls(
            df=df,
            logic=logic,
            key=key,
            arrival=arrival,
            shards=1 if key is None else shards,
            history=history,
        )
        require_plain_names("df", plan._needed())
        require_arrow_types("df", df, sorted(plan._needed()))
        return plan

    @property
    def hashed(self) -> bool:
        """Whether rows go to shards by a hash of the key."""
        return True

    @property
    def warning(self) -> str | None:
        """A warning for the user, or None."""
        # With any strategy, rows of all types are dropped once the budget is spent.
        return "; ".join(filter(None, (self._in_one_task(), invented(self.logic.config.tree)))) or None

    def _in_one_task(self) -> str | None:
        if self.key is not None:
            return None
        why = (
            "under STRICT every row counts"
            if self.logic.config.tree.policy == "strict"
            else "no attribute is equal in all rows of a match"
        )
        return f"the whole stream is matched in one task: {why}"

    @property
    def identity(self) -> str:
        """A description of everything that must not change during the life of a state."""
        logic, config = self.logic, self.logic.config
        needed = self._needed()
        columns = ", ".join(
            f"{field.name} {field.dataType.simpleString()}"
            for field in self.df.schema
            if field.name in needed
        )
        return (
            f"{to_text(config.tree)} by time {config.time!r} and type {config.type!r}, index {config.index}, of "
            f"{columns}; a row is told by {', '.join(logic.columns)}, ordered by {logic.order}"
            f"{'' if logic.complete is None else ', with timeouts'}"
        )

    def settle(self, control: ControlRow) -> None:
        """Learn from the training rows, if nothing was learned before, and check the call against the checkpoint.

        A call that is refused here has stored nothing.
        """
        folder, sharing = Folder(Path(control.folder)), Sharing(control.folder, control.stage)
        spec, learned = self.logic.shedding, None
        if self.history is not None and spec.learns and not sharing.written():
            learned = learned_before(self.logic.config, self.history, spec)
        keep_choice(folder, control.stage, spec)
        require_same(folder, control.stage, self.identity, kind="pattern")
        if learned is not None:
            sharing.write(learned, last_planned(control.checkpoint))

    def build(self, control: ControlRow, grid: Grid, observation: str, *, enforce: bool) -> DataFrame:
        """Return the DataFrame of matches."""
        if enforce and self.warning is not None:
            warnings.warn(self.warning, stacklevel=4)  # the frame that calls Spillway.match
        logic = replace(self.logic, sharing=Sharing(control.folder, control.stage))
        config = logic.config
        config.build().warm_up()  # so that the tasks on this machine need not compile
        return through_shards(
            self._packed(grid),
            ShardTask(logic, grid, control, enforce),
            state=STATE,
            observation=observation,
            schema=output_schema(
                self.df, config.tree, logic.columns, config.time, logic.times, logic.complete
            ),
        )

    def _packed(self, grid: Grid) -> DataFrame:
        config = self.logic.config
        part = (
            F.lit(0)
            if self.key is None
            else F.pmod(key_hash(self.df, self.key, config.type), F.lit(len(grid.keys)))
        )
        fits = usable(config.tree, self.key, self.df, config.time, config.type)
        needed = [quoted(name) for name in self.df.columns if name in self._needed()]
        marked = self.df.select(
            *needed, F.when(fits, part.cast("int")).alias(PART), row_hash(self.df).alias(ORDER)
        )
        return marked.mapInArrow(Pack(0, grid.targets(0), grid.keys, config.time, self.arrival), PACKED)

    def _needed(self) -> set[str]:
        """Return the columns that go to the shards."""
        config = self.logic.config
        named = {name for name, _ in config.build().plan.attributes}
        found = {*self.logic.columns, config.time, config.type, *named}
        return found | {name for name in (self.logic.order, self.arrival) if name is not None}
