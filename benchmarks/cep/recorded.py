"""Recorded streams: hot paths of rented bikes (Listing 1, Section VI-I), a cluster's tasks (Listing 3, Section VI-J).

==============  =================================================  ===================================================
                bikes                                              cluster
==============  =================================================  ===================================================
events          trips, when they end                               what happens to tasks, without those at time 0
counted         October 2018                                       the last quarter of the span on record
history         the month before                                   the quarter before; the first half of the span has
                                                                   8 matches
query           paths of at least 3 trips that end at one of       as printed
                three stations: with 5, as in the paper, a month
                of the smaller city on record has one match
indexes         none: every trip is held against every run. The    equalities of attributes
                paper does not say which it has; with one on the
                bike a trip takes 3 units of work, and nothing
                has to be shed
slices          3                                                  3
clusters        15                                                 30
latency         99th percentile of 200 trips                       99th percentile of 1,000 events
checks          every 5 trips: a bound of a tenth is 38 runs,      every 200 events
                and a trip makes one
==============  =================================================  ===================================================

On bikes selectivity-based input shedding goes by the user type, as in the paper: the query takes trips of either
type, and counted is how often a trip of a type is in a match of the history. State-based goes by state, of which
paths have one with runs: there it is chance, as in the other state-based baseline.
A file belongs here if it has the columns, whatever its name and folder.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.cep.case import Prepared
from spillway.core.cep import PatternConfig
from spillway.core.cep.engine.operator import Patterns
from spillway.core.cep.estimation import EstimationConfig, learn
from spillway.core.cep.language.listings import CLUSTER, HOT_PATHS
from spillway.core.cep.plan.plan import IndexBy
from spillway.core.cep.shedding import Learned
from spillway.core.cep.shedding.enforcer import type_numbers
from spillway.errors import SpillwayError
from spillway.replay.loaders import data_dir

Name = Literal["bikes", "cluster"]
PERCENTILE = 99.0
TARGETS = "{3186,3183,3203}"
LEAST_TRIPS = 2
BIKES = (
    HOT_PATHS.replace("BikeTrip+", f"(Subscriber|Customer){{{LEAST_TRIPS},}}")
    .replace("BikeTrip b", "(Subscriber|Customer) b")
    .replace("{7,8,9}", TARGETS)
)
COLUMNS = {
    "bikes": ("stoptime", "start_station_id", "end_station_id", "bikeid", "usertype"),
    "cluster": ("time_us", "job_id", "task_index", "machine_id", "event_type"),
}
TYPES = ("Su", "Sc", "Ev", "Fa", "Fi", "Ki", "Lo", "Up", "Uq")
_PATHS = {"bikes": BIKES, "cluster": CLUSTER}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recorded stream and its query; ``events`` are how many to take of the end of it and of its history."""

    name: Name
    events: int | None = None

    @property
    def weight(self) -> int:
        """How long a run takes, roughly."""
        return 4 if self.name == "bikes" else 12

    def prepare(self, seed: int) -> Prepared:  # noqa: ARG002
        """Return the case; seeds differ in what chance decides, not in events."""
        return _prepared(self)


def missing(name: Name) -> str | None:
    """Return why there is no such data, or None."""
    try:
        _file(name)
    except SpillwayError as error:
        return f"absent: {error}"
    return None


@lru_cache(maxsize=2)
def _prepared(case: Recorded) -> Prepared:
    history, table = (_last(part, case.events) for part in (bikes() if case.name == "bikes" else cluster()))
    trips, config = case.name == "bikes", _config(case.name, table)
    return Prepared(
        config=config,
        table=table,
        learned=_learned(config, history, 15 if trips else 30),
        since=0,
        smooth=200 if trips else 1000,
        check_events=5 if trips else 200,
    )


def _config(name: Name, table: pa.Table) -> PatternConfig:
    index: IndexBy = "none" if name == "bikes" else "attributes"
    return PatternConfig(_PATHS[name], table.schema, time="ts", type="type", index=index, slices=3)


def _able_to_shed(config: PatternConfig) -> Patterns:
    """Return an engine whose program is compiled for the other runs too; without it nothing would be different."""
    return replace(config, tracked=True).build()


def _last(table: pa.Table, events: int | None) -> pa.Table:
    return table if events is None else table.slice(max(0, table.num_rows - events))


def _learned(config: PatternConfig, history: pa.Table, clusters: int) -> Learned:
    learned = learn(config, history, EstimationConfig(clusters=clusters, most_clusters=clusters))
    return replace(learned, selectivity=selectivity(config, history))


def selectivity(config: PatternConfig, history: pa.Table) -> tuple[float, ...]:
    """Return how often an event of each type is in a match; 0 for types that the query does not name."""
    patterns = _able_to_shed(config)
    found = patterns.process(history)
    kinds = type_numbers(history[config.type], patterns.plan.types)
    rows = [pc.list_flatten(each) if pa.types.is_list(each.type) else each for each in found.columns]
    there = np.concatenate([kinds[each.to_numpy()] for each in rows])
    types = len(patterns.plan.types)
    in_matches, all_events = (np.bincount(each, minlength=types + 1)[:types] for each in (there, kinds))
    return (*(in_matches / np.maximum(1, all_events)).tolist(), 0.0)


def bikes(folder: Path | None = None) -> tuple[pa.Table, pa.Table]:
    """Return the trips of September and of October 2018."""
    found = _read("bikes", folder).drop_null().sort_by("stoptime")
    table = pa.table(
        {
            "ts": found["stoptime"].cast(pa.timestamp("us")),
            "type": found["usertype"].cast(pa.string()),
            "bike": found["bikeid"],
            "start": found["start_station_id"],
            "end": found["end_station_id"],
        }
    )
    return _between(table, (2018, 9), (2018, 10)), _between(table, (2018, 10), (2018, 11))


@dataclass(frozen=True)
class ClusterMatches:
    """A task: how many matches there are in the whole span of the cluster's tasks, without shedding."""

    @property
    def group(self) -> Hashable:
        """It shares nothing."""
        return self

    def run(self) -> int:
        """Count them."""
        table = tasks()
        return int(_able_to_shed(_config("cluster", table)).process(table).num_rows)


def cluster(folder: Path | None = None) -> tuple[pa.Table, pa.Table]:
    """Return the third and the last quarter of the task events."""
    table = tasks(folder)
    third, last = table.num_rows // 2, 3 * table.num_rows // 4
    return table.slice(third, last - third), table.slice(last)


def tasks(folder: Path | None = None) -> pa.Table:
    """Return what happened to tasks, without those that were there at the beginning."""
    found = _read("cluster", folder)
    found = found.filter(pc.greater(found["time_us"].cast(pa.int64()), 0)).sort_by("time_us")
    task = pc.add(pc.multiply(found["job_id"], 1_000_000), found["task_index"].cast(pa.int64()))
    kinds = np.array(TYPES)[found["event_type"].to_numpy()]
    return pa.table(
        {
            "ts": found["time_us"].cast(pa.int64()).cast(pa.timestamp("us")),
            "type": kinds,
            "task_id": task,
            "machine": found["machine_id"],
        }
    )


def _between(table: pa.Table, low: tuple[int, int], high: tuple[int, int]) -> pa.Table:
    first, end = (pa.scalar(datetime(*month, 1), pa.timestamp("us")) for month in (low, high))
    return table.filter(pc.and_(pc.greater_equal(table["ts"], first), pc.less(table["ts"], end)))


def _read(name: Name, folder: Path | None) -> Any:
    path = _file(name, folder)
    try:
        return pq.read_table(path, columns=list(COLUMNS[name]))
    except (OSError, pa.ArrowException) as error:
        raise SpillwayError(f"{name} cannot be read from {path.name}: {error}.") from error


def _file(name: Name, folder: Path | None = None) -> Path:
    root = data_dir() if folder is None else folder
    files = [] if root is None else sorted(root.rglob("*.parquet"))
    for path in files:
        try:
            if set(COLUMNS[name]) <= set(pq.read_schema(path).names):
                return path
        except (OSError, pa.ArrowException):
            continue  # what is no Parquet file is nobody's data set
    where = "there is no data folder" if root is None else "no Parquet file in the data folder has them"
    raise SpillwayError(
        f"{name} is made from the columns {', '.join(COLUMNS[name])}: {where}.",
        hint="set SPILLWAY_DATA to the folder of recorded data",
    )
