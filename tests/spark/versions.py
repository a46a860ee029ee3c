"""A source like a table of versions: its offsets are names, so nobody can count what lies between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

_FIRST = 0x7F  # the name of the state before the first version is "7f"


@dataclass
class Part(InputPartition):
    """The rows of a version that one task reads."""

    first: int
    rows: int


def parts_of(versions: list[list[int]], version: int) -> list[Part]:
    """Return the tasks of a version; rows are numbered through all versions."""
    first = sum(map(sum, versions[:version]))
    parts = []
    for rows in versions[version]:
        parts.append(Part(first, rows))
        first += rows
    return parts


class VersionReader(DataSourceStreamReader):
    """Gives one version a batch."""

    def __init__(self, versions: list[list[int]]) -> None:
        self.versions = versions

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"version": f"{_FIRST:x}"}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        return {"version": f"{min(int(start['version'], 16) + 1, _FIRST + len(self.versions)):x}"}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        since, until = (int(offset["version"], 16) - _FIRST for offset in (start, end))
        return [part for version in range(since, until) for part in parts_of(self.versions, version)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        for at in range(partition.first, partition.first + partition.rows, 7_000):
            ids = range(at, min(at + 7_000, partition.first + partition.rows))
            yield pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


class Versions(DataSource):
    """The data source to register under the name ``versions``."""

    @classmethod
    def name(cls) -> str:
        return "versions"

    def schema(self) -> str:
        return "id bigint"

    def streamReader(self, schema: Any) -> VersionReader:  # noqa: ARG002, N802
        return VersionReader(json.loads(self.options["rows"]))


def read(spark: SparkSession, *versions: list[int]) -> DataFrame:
    """Return a stream of versions, each of them told by the rows of its tasks."""
    spark.dataSource.register(Versions)
    return spark.readStream.format("versions").option("rows", json.dumps(versions)).load()
