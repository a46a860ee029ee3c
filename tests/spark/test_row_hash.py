"""Spark's own xxhash64 against the core's, for every type that can be a key."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spillway.core.row_hash import row_hashes

N, SALT = 300, -1234567890123


def table() -> pa.Table:
    r = np.random.default_rng(0)
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    odd = [-0.0, 0.0, float("nan"), 1.5, -2.5, float("inf")]
    return pa.table(
        {
            "long": pa.array(
                [None if k % 7 == 0 else int(k) for k in r.integers(-(2**62), 2**62, N)], pa.int64()
            ),
            "int": pa.array(r.integers(-(2**31), 2**31 - 1, N), pa.int32()),
            "short": pa.array(r.integers(-(2**15), 2**15 - 1, N), pa.int16()),
            "byte": pa.array(r.integers(-(2**7), 2**7 - 1, N), pa.int8()),
            "bool": pa.array([bool(x) for x in r.integers(0, 2, N)]),
            "double": pa.array([odd[k % 6] for k in range(N)], pa.float64()),
            "float": pa.array([odd[k % 6] for k in range(N)], pa.float32()),
            "string": pa.array(
                [None if k % 11 == 0 else "x€" * int(k % 40) + str(k) for k in r.integers(0, 10**6, N)]
            ),
            "binary": pa.array(
                [bytes(r.integers(0, 256, int(k), dtype=np.uint8)) for k in r.integers(0, 70, N)]
            ),
            "date": pa.array([start.date() + dt.timedelta(days=int(k)) for k in r.integers(-9000, 9000, N)]),
            "timestamp": pa.array(
                [start + dt.timedelta(microseconds=int(k)) for k in r.integers(0, 10**15, N)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


@pytest.fixture(scope="module")
def hashed(spark: SparkSession) -> dict[str, list[int]]:
    data = table()
    salt = F.lit(SALT).cast("long")
    columns = [F.xxhash64(name, salt).alias(name) for name in data.column_names]
    all_columns = F.xxhash64(*data.column_names, salt).alias("all")
    rows = spark.createDataFrame(data).select(*columns, all_columns).collect()
    return {name: [row[name] for row in rows] for name in (*data.column_names, "all")}


@pytest.mark.parametrize("name", [*table().column_names, "all"])
def test_each_type_hashes_alike(hashed: dict[str, list[int]], name: str) -> None:
    data = table()
    columns = data.columns if name == "all" else [data[name]]
    assert row_hashes(columns, SALT, N).tolist() == hashed[name]
