"""Joins two streams on Spark into one stream of pairs, with as many comparisons as the budget allows.

The plan that is added::

    left   -> part, hash -> Pack ┐
                                 ├ union -> groupBy(key) -> ShardTask -> observe -> Unpack -> the user's plan
    right  -> part, hash -> Pack ┘

grid.py describes which shard joins which rows, packets.py how rows get to the shards and results back, shard.py what
a shard does and keeps, and task.py how Spark calls it. The budget of a batch is part of its decision (decision.py):
the first shard that needs the decision stores it, and all other shards and every replay read the same one.

A row that can match nothing (no value, no time, too few items) is counted and left out before the shuffle.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from spillway.core.join import JoinConfig, Predicate, warm_up
from spillway.core.join.adaptations import Shedding, shedding_of
from spillway.core.join.config import pair
from spillway.durations import Duration, seconds
from spillway.errors import SpillwayError, invalid, unknown
from spillway.loop.checkpoint_store import Folder
from spillway.spark.columns import quoted, resolve, row_hash
from spillway.spark.control_row import ControlRow
from spillway.spark.join.columns import (
    SIDES,
    Values,
    delay_of,
    output_of,
    output_schema,
    require_side,
    values_of,
)
from spillway.spark.join.shard import STATE, ShardLogic
from spillway.spark.shards.grid import Grid, check_shards, require_same
from spillway.spark.shards.packets import ORDER, PACKED, PART, Pack
from spillway.spark.shards.plan import through_shards
from spillway.spark.shards.task import ShardTask

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """The arguments of ``Spillway.join``, checked against two DataFrames."""

    sides: tuple[DataFrame, DataFrame]
    values: tuple[Values, Values]
    logic: ShardLogic
    arrival: tuple[str | None, str | None]
    shards: int | None

    @classmethod
    def check(
        cls,
        left: DataFrame,
        right: DataFrame,
        *,
        on: Predicate,
        within: Duration | tuple[Duration, Duration],
        time: str | tuple[str, str],
        shedding: str | Shedding,
        suffixes: tuple[str, str],
        score: str,
        shards: int | None,
        access: str | None,
        idle: Duration | None,
        arrival: str | None,
        salt: int,
    ) -> JoinPlan:
        """Check the arguments when the call is made; raise for those that cannot work."""
        sides = (left, right)
        for side, df in zip(SIDES, sides, strict=True):
            require_side(side, df)
        if not isinstance(on, Predicate):
            raise invalid("on", on, "a predicate such as overlap('words', at_least=3) or equality('id')")
        check_shards(shards)
        config = JoinConfig(
            on=on,
            within_s=_both(pair("within", within)),
            time=pair("time", time),
            shedding=shedding,
            access=access or ("index" if on.kind == "equality" else "scan"),  # type: ignore[arg-type]
            late="drop",
            salt=salt,
        )
        values = values_of("left", left, on.left), values_of("right", right, on.right)
        if values[0].item != values[1].item:
            raise SpillwayError(
                f"on: the left column {on.left!r} has {values[0].item} items, the right column {on.right!r} "
                f"{values[1].item}.",
                hint="cast one of them",
            )
        utility = shedding_of(shedding).utility
        for side, df in zip(SIDES, sides, strict=True):
            if utility is not None and utility.type not in df.columns:
                raise unknown(f"utility type, {side} column", utility.type, df.columns)
        delays = [delay_of(*each) for each in zip(SIDES, sides, config.times, strict=True)]
        logic = ShardLogic(
            config=config,
            output=output_of(left, right, suffixes, score),
            delays_us=(delays[0], delays[1]),
            idle_us=None if idle is None else round(seconds("idle", idle) * 1e6),
        )
        return cls(
            sides=sides,
            values=values,
            logic=logic,
            arrival=_arrivals(sides, arrival),
            shards=shards,
        )

    @property
    def hashed(self) -> bool:
        """Whether rows go to shards by a hash of the key."""
        return self.logic.config.on.kind == "equality"

    @property
    def identity(self) -> str:
        """A description of everything that must not change during the life of a state."""
        config = self.logic.config
        shedding, on = shedding_of(config.shedding), config.on
        types = None if shedding.utility is None else [*map(str, shedding.utility.values)]
        columns = " and ".join(df.schema.simpleString() for df in self.sides)
        return (
            f"{on.kind} of {on.left!r} and {on.right!r} by {config.access}, times {config.times}, windows "
            f"{config.windows} us, basic windows {config.length} us {shedding.slide}, types {types}, of {columns}"
        )

    def build(self, control: ControlRow, grid: Grid, observation: str, *, enforce: bool) -> DataFrame:
        """Return the DataFrame of pairs."""
        require_same(Folder(Path(control.folder)), control.stage, self.identity)
        warm_up((self.logic.config.access,))  # so that the tasks on this machine need not compile
        return through_shards(
            self._packed(0, grid).union(self._packed(1, grid)),
            ShardTask(self.logic, grid, control, enforce),
            state=STATE,
            observation=observation,
            schema=output_schema(*self.sides, self.logic.output),
        )

    def _packed(self, side: int, grid: Grid) -> DataFrame:
        df, config = self.sides[side], self.logic.config
        time = quoted(config.times[side])
        usable = self.values[side].usable(config.on) & time.isNotNull()
        part = F.pmod(self._hash(side), F.lit(grid.parts(side))).cast("int")
        marked = df.select("*", F.when(usable, part).alias(PART), row_hash(df).alias(ORDER))
        pack = Pack(side, grid.targets(side), grid.keys, config.times[side], self.arrival[side])
        return marked.mapInArrow(pack, PACKED)

    def _hash(self, side: int) -> Column:
        return (
            F.xxhash64(F.sort_array(self.values[side].items)) if self.hashed else row_hash(self.sides[side])
        )


def _both(within: tuple[Duration, Duration]) -> tuple[float, float]:
    return _length(within[0]), _length(within[1])


def _length(within: Duration) -> float:
    """Return a window's length in seconds. It may be 0: then only rows of the same instant make pairs.

    >>> _length("20 seconds"), _length("0 seconds"), _length(0)
    (20.0, 0.0, 0.0)
    """
    zero = (
        re.fullmatch(r"\s*0+(\.0*)?\s*[a-z]*\s*", within.lower()) if isinstance(within, str) else not within
    )
    return 0.0 if zero else seconds("within", within)


def _arrivals(sides: tuple[DataFrame, DataFrame], arrival: str | None) -> tuple[str | None, str | None]:
    """Return the arrival column of each side; one side need not have it."""
    if arrival is None:
        return None, None
    found: list[str | None] = []
    for df in sides:
        has = arrival in df.columns
        if has:
            resolve(df, "arrival", arrival, (T.TimestampType, T.TimestampNTZType), "timestamp")
        found.append(arrival if has else None)
    if not any(found):
        raise unknown("arrival", arrival, sorted({*sides[0].columns, *sides[1].columns}))
    return found[0], found[1]
