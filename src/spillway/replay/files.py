"""Parquet files at a path: which there are, and arrival times out of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from spillway.errors import invalid


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """One file as it was found: equal to another only if nothing suggests that it has changed."""

    path: str
    size: int
    changed_ns: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


def filesystem_of(path: str, option: str) -> tuple[pa.fs.FileSystem, str]:
    """Return where a path or URI leads to, and the path there."""
    if "://" not in path:
        return pa.fs.LocalFileSystem(), path
    try:
        filesystem, inner = pa.fs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError) as error:
        raise invalid(option, path, f"a path or a URI that pyarrow can open ({error})") from error
    return filesystem, inner


def parquet_files(path: str, option: str) -> tuple[ParquetFile, ...]:
    """Return the file at a path, or the ``*.parquet`` files in a directory by name, hidden ones left out."""
    filesystem, inner = filesystem_of(path, option)
    at = filesystem.get_file_info(inner)
    if at.type == pa.fs.FileType.NotFound:
        raise invalid(
            option, path, "a Parquet file or a directory of them", hint="there is nothing at this path"
        )
    found = [at]
    if at.type == pa.fs.FileType.Directory:
        inside = filesystem.get_file_info(pa.fs.FileSelector(inner))
        found = [info for info in inside if info.is_file and info.base_name.endswith(".parquet")]
        found = sorted(
            (info for info in found if info.base_name[0] not in "._"), key=lambda info: str(info.path)
        )
    if not found:
        raise invalid(option, path, "a directory with *.parquet files", hint="there are none in this one")
    return tuple(ParquetFile(info.path, info.size, info.mtime_ns or 0) for info in found)


def metadata_of(file: ParquetFile, filesystem: pa.fs.FileSystem, path: str, option: str) -> pq.FileMetaData:
    """Return the footer of a file."""
    try:
        return pq.read_metadata(file.path, filesystem=filesystem)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise invalid(option, path, f"Parquet files, but {file.name} cannot be read ({reason})") from error


def arrival_times(path: str, files: tuple[ParquetFile, ...], column: str | None) -> npt.NDArray[np.float64]:
    """Return the arrival times in a column of the files, in seconds; timestamps count from the first one."""
    filesystem, _ = filesystem_of(path, "times")
    names = metadata_of(files[0], filesystem, path, "times").schema.to_arrow_schema().names
    if column is None and len(names) > 1:
        raise invalid("times_column", None, "one of the columns " + ", ".join(map(repr, names)))
    column = names[0] if column is None else column
    if column not in names:
        raise invalid("times_column", column, "one of the columns " + ", ".join(map(repr, names)))
    parts = []
    for file in files:
        metadata_of(file, filesystem, path, "times")
        parts.append(pq.read_table(file.path, columns=[column], filesystem=filesystem).column(0))
    found = pa.chunked_array([chunk for part in parts for chunk in part.chunks], type=parts[0].type)
    if found.null_count:
        raise invalid("times_column", column, f"no nulls, found {found.null_count} of them")
    if pa.types.is_timestamp(found.type):
        ticks = np.asarray(found.cast(pa.timestamp("ns", found.type.tz)).cast(pa.int64()), dtype=np.int64)
        return (ticks - ticks[:1]) / 1e9
    if not (pa.types.is_integer(found.type) or pa.types.is_floating(found.type)):
        raise invalid(
            "times_column", column, f"seconds as numbers, or timestamps; it has the type {found.type}"
        )
    return np.asarray(found.cast(pa.float64()), dtype=np.float64)
