"""A pattern in the query that dies: what it finds, and what its shards find without Spark by what they were told."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spillway import Spillway
from spillway.core.cep import PatternConfig
from spillway.core.row_hash import row_hashes
from spillway.spark.match.shard import MatchLogic
from spillway.spark.match.shared_model import Sharing
from spillway.spark.match.shedding_choice import SheddingSpec
from spillway.spark.match.training_stretch import CLASSES
from spillway.spark.shards.grid import Grid
from spillway.spark.shards.packets import ORDER, PART
from tests.core.spark.shards.match_shards import MatchShards, Numbered
from tests.spark.match.match_rows import interpreted
from tests.spark.orders import orders, play, told

QUERY = "PATTERN SEQ('0' a, '1' b, '2' c) WHERE [shop] WITHIN 500 ms"
DEMAND = 3_000  # units of a batch, and less than all of it
MOST_RUNS = 500_000


def shops(
    session: SparkSession, shed: Spillway, rows: int, batches: int, moment: Callable[[Any], Any]
) -> DataFrame:
    """Return orders of three tiers in the same shop, as (order, order, order)."""
    at = F.timestamp_micros(moment(F.col("id"))).alias("ts")
    source = play(session, rows=rows, per_batch=rows // batches)
    frame = source.select("id", at, "tier", (F.col("id") % 7).alias("shop")).withWatermark("ts", "2 seconds")
    with interpreted():
        found = shed.match(frame, QUERY, time="ts", type="tier", columns=["id"])
    return found.select("a.id", F.col("b.id").alias("second"), F.col("c.id").alias("third"))


def check(
    folder: Path,
    attempts: dict[int, list[list[tuple[float, ...]]]],
    batches: int,
    moment: Callable[[Any], Any],
) -> float:
    """The matches of each batch are those that the shards find with the budgets that were told.

    Returns how many rows and partial matches were shed.
    """
    sharing = Numbered(str(folder / "checkpoint" / "spillway"), 0)
    shards = rebuilt(folder, sharing)
    dropped, whole = 0.0, 0
    for batch in range(batches):
        sharing.batches.append(batch)
        rows = placed(orders(1_000 * batch, 1_000), moment, len(shards.grid.keys))
        found = shards.feed(rows, budget=told(folder / "checkpoint", batch).work_budgets[0])
        dropped += shards.counts["dropped"] + shards.counts["shed_runs"]
        matches = sorted(
            (m["a"]["id"], m["b"]["id"], m["c"]["id"]) for part in found for m in part.to_pylist()
        )
        assert len(set(matches)) == len(matches)
        whole += len(matches)
        for delivery in attempts[batch]:
            assert delivery == matches, f"batch {batch}"
    assert whole > 100
    assert not any(delivery for delivery in attempts.get(batches, [])), "nothing was left to come"
    return dropped


def rebuilt(folder: Path, sharing: Sharing) -> MatchShards:
    """Return the shards of the query, with the keys that Spark gave them, and what they told each other."""
    kinds = [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tier", pa.int32()),
        ("shop", pa.int64()),
    ]
    config = PatternConfig(
        QUERY,
        pa.schema(kinds),
        time="ts",
        type="tier",
        compile=False,
        tracked=True,
        classes=CLASSES,
        most_runs=MOST_RUNS,
        late="drop",
    )
    logic = MatchLogic(
        config,
        ("id",),
        ("first_time", "last_time"),
        2_000_000,
        SheddingSpec("hybrid"),
        salt=zlib.crc32(b"crash"),
        sharing=sharing,
    )
    found = json.loads((folder / "checkpoint" / "spillway" / "joins" / "0.json").read_text())
    shards = MatchShards(logic, shards=len(found["keys"]), forgetful=True)
    shards.grid = Grid(**{**found, "keys": tuple(found["keys"])})
    return shards


def placed(table: pa.Table, moment: Callable[[Any], Any], shards: int) -> pa.Table:
    """Return the rows with Spark's hash of the row and its choice of a shard."""
    ids = table["id"].to_pylist()
    times = pa.array([moment(n) for n in ids], pa.timestamp("us", "UTC"))
    rows = pa.table(
        {"id": table["id"], "ts": times, "tier": table["tier"], "shop": pa.array([n % 7 for n in ids])}
    )
    hashes = row_hashes(rows.columns, 0, len(ids))
    keys = row_hashes([rows["shop"]], 0, len(ids))
    parts = [
        int(k) % shards if tier < 3 else None for k, tier in zip(keys, table["tier"].to_pylist(), strict=True)
    ]
    return rows.append_column(ORDER, pa.array(hashes)).append_column(PART, pa.array(parts, pa.int32()))
