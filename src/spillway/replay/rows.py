"""Where the rows of a replay come from: Parquet files, played in order and in a loop, or a generator.

A :class:`RowSource` answers one question, :meth:`~RowSource.read`: what are rows ``first`` to ``last`` of an
endless stream? The answer depends on the row numbers alone, so a range can be cut anywhere and read again at
any time.

* :class:`ParquetRows`: row i is row ``i mod n`` of the n rows in the files. Row groups are decoded on demand
  and the ones used last are kept, up to a bound, so the files may be larger than memory. What is handed out
  are slices of the decoded columns: nothing is copied.
* :class:`GeneratedRows`: row i is whatever a function ``(first, rows) -> pyarrow.Table`` says it is. The
  function must be pure; that is tried out on the first two rows when the source is opened.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import SpillwayError, invalid, unknown
from spillway.replay.columns import cast, fitting
from spillway.replay.files import ParquetFile, filesystem_of, metadata_of, parquet_files
from spillway.replay.web import web_requests

Generator = Callable[[int, int], pa.Table]

GENERATORS: Final[dict[str, Generator]] = {"web_requests": web_requests}
"""The built-in generators by name."""

BATCH_ROWS: Final = 1 << 14
"""Rows in one Arrow batch at most: enough that the cost of a batch vanishes, but a few megabytes only."""

SEGMENT_ROWS: Final = 1 << 16
"""Small row groups are decoded together until they have this many rows."""

CACHE_BYTES: Final = 256 << 20
"""Decoded rows that one process keeps for one source."""


class RowSource(Protocol):
    """An endless, numbered sequence of rows."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, in types that Spark reads from Arrow."""

    @property
    def identity(self) -> str:
        """A text that changes when the rows do, as far as that can be seen from outside."""

    def read(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield rows ``first`` to ``last`` (not included) in batches of at most :data:`BATCH_ROWS` rows."""


def open_rows(path: str | None, generator: str | None) -> RowSource:
    """Return the source for a Parquet path or a generator's name; opened once in each process.

    A Parquet source is opened anew when a file's name, size or time of change is another than before.
    """
    if path is not None:
        return _parquet(path, parquet_files(path, "rows"))
    return _generated("web_requests" if generator is None else generator)


# Parquet -------------------------------------------------------------------------------------------


class ParquetRows:
    """The rows of Parquet files in the order of their names, again and again.

    :param path: a file, or a directory of ``*.parquet`` files; a local path or a URI that pyarrow knows
    """

    def __init__(self, path: str, files: tuple[ParquetFile, ...] | None = None) -> None:
        self._filesystem, _ = filesystem_of(path, "rows")
        self._files = parquet_files(path, "rows") if files is None else files
        found: pa.Schema | None = None
        segments: list[list[tuple[int, int]]] = [[]]
        sizes: list[int] = [0]
        for number, file in enumerate(self._files):
            metadata = metadata_of(file, self._filesystem, path, "rows")
            schema = metadata.schema.to_arrow_schema().remove_metadata()
            if found is None:
                found = schema
            elif not schema.equals(found):
                raise invalid(
                    "rows",
                    path,
                    f"files with the same columns, but {file.name} and {self._files[0].name} differ",
                )
            for group in range(metadata.num_row_groups):
                if sizes[-1] >= SEGMENT_ROWS:
                    segments.append([])
                    sizes.append(0)
                segments[-1].append((number, group))
                sizes[-1] += metadata.row_group(group).num_rows
        total = sum(sizes)
        if found is None or total == 0:
            raise invalid("rows", path, "at least one row", hint="a stream of rows cannot be made from none")
        self.schema: Final[pa.Schema] = fitting(found, field="rows")
        self.distinct_rows: Final = total
        # A file of three rows is laid out many times in one segment, else every batch would have three rows.
        self._copies = -(-BATCH_ROWS // total) if len(segments) == 1 else 1
        self._segments = segments
        self._ends = np.cumsum(sizes) * self._copies
        self._cache: OrderedDict[int, pa.Table] = OrderedDict()

    @property
    def identity(self) -> str:
        """Names and sizes of the files and their number of rows; not where they are, nor since when."""
        return repr([(file.name, file.size) for file in self._files] + [self.distinct_rows])

    def read(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield rows ``first`` to ``last`` as slices of the decoded row groups."""
        position = first
        while position < last:
            turn = position % int(self._ends[-1])
            number = int(np.searchsorted(self._ends, turn, side="right"))
            count = min(last - position, int(self._ends[number]) - turn, BATCH_ROWS)
            table = self._segment(number)
            yield from table.slice(turn - int(self._ends[number]) + table.num_rows, count).to_batches()
            position += count

    def _segment(self, number: int) -> pa.Table:
        table = self._cache.get(number)
        if table is None:
            table = self._decode(number)
            self._cache[number] = table
            while len(self._cache) > 1 and sum(kept.nbytes for kept in self._cache.values()) > CACHE_BYTES:
                self._cache.popitem(last=False)
        self._cache.move_to_end(number)
        return table

    def _decode(self, number: int) -> pa.Table:
        groups: dict[int, list[int]] = {}
        for file, group in self._segments[number]:
            groups.setdefault(file, []).append(group)
        tables = []
        for file, numbers in groups.items():
            with pq.ParquetFile(self._files[file].path, filesystem=self._filesystem) as parquet:
                tables.append(cast(parquet.read_row_groups(numbers), self.schema))
        return pa.concat_tables(tables * self._copies).combine_chunks()


@lru_cache(maxsize=4)
def _parquet(path: str, files: tuple[ParquetFile, ...]) -> ParquetRows:
    return ParquetRows(path, files)


# Generators ----------------------------------------------------------------------------------------


class GeneratedRows:
    """Rows made by a function ``(first, rows) -> pyarrow.Table``.

    :param name: a built-in generator, or ``package.module:function``, importable wherever Spark runs Python
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._generate = _generator(name)
        try:
            two = self._generate(0, 2)
            twice, second = self._generate(0, 2), self._generate(1, 1)
        except Exception as error:
            raise SpillwayError(f"generator {name!r} failed on its first rows: {error!r}.") from error
        if not isinstance(two, pa.Table) or two.num_rows != 2:
            found = f"{two.num_rows} rows" if isinstance(two, pa.Table) else f"a {type(two).__name__}"
            raise invalid(
                "generator", name, f"a pyarrow.Table of two rows from function(0, 2), found {found}"
            )
        if not two.equals(twice) or not two.slice(1).equals(second):
            raise invalid(
                "generator",
                name,
                "a pure function of the row numbers",
                hint="function(0, 2) changed from call to call, or its second row is not function(1, 1)",
            )
        self.schema: Final[pa.Schema] = fitting(two.schema.remove_metadata(), field="generator")

    @property
    def identity(self) -> str:
        """The generator's name and columns."""
        return f"{self._name} {self.schema}"

    def read(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield rows ``first`` to ``last``, made in blocks that begin at multiples of :data:`BATCH_ROWS`."""
        position = first
        while position < last:
            count = min(last, (position // BATCH_ROWS + 1) * BATCH_ROWS) - position
            table = self._generate(position, count)
            if table.num_rows != count:
                raise SpillwayError(
                    f"generator {self._name!r} made {table.num_rows} rows instead of {count}."
                )
            yield from cast(table, self.schema).to_batches()
            position += count


@lru_cache(maxsize=4)
def _generated(name: str) -> GeneratedRows:
    return GeneratedRows(name)


def _generator(name: str) -> Generator:
    module, colon, attribute = name.partition(":")
    if not colon:
        if name in GENERATORS:
            return GENERATORS[name]
        raise unknown("generator", name, [*GENERATORS, "package.module:function"])
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise invalid(
            "generator",
            name,
            "package.module:function",
            hint=f"{error}; the module must be importable where Spark runs Python",
        ) from error
    if not callable(found):
        raise invalid("generator", name, "a function")
    return found  # type: ignore[no-any-return]
