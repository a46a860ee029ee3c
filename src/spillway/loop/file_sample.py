"""Estimates the rows per byte of files from a sample of the files, for use before any batch has been counted.

The footer of a Parquet file says how many rows it has. In text (CSV, JSON, plain lines), with or without gzip, a
line counts as a row. For other files there is no estimate. Rows that span several lines make the estimate too high,
until the first batches are finished and their rows are known.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence

from spillway.loop.file_log import local_file, spaced

_LOOKED_INTO = 5  # files: rows of one stream are alike
_HEAD = 1 << 16  # bytes that are read from a text file: some hundred lines


def rows_per_byte(paths: Sequence[str]) -> float | None:
    """Return the rows per byte of a sample of the files, None where none of them can be read."""
    counts = [count for path in spaced(paths, _LOOKED_INTO) if (count := _count(path)) is not None]
    rows, read = sum(rows for rows, _ in counts), sum(size for _, size in counts)
    return rows / read if rows and read else None


def _count(path: str) -> tuple[float, float] | None:
    """Return a number of rows, and the bytes of the file that hold them."""
    name = local_file(path)
    try:
        if name is None:
            return None
        with open(name, "rb") as stream:
            head = stream.read(_HEAD)
        if head.startswith(b"PAR1"):
            return _parquet_rows(name), float(os.stat(name).st_size)
        if head.startswith(b"\x1f\x8b"):
            return _lines_in_gzip(head)
    except (OSError, ValueError, zlib.error):
        return None
    return _lines(head, float(len(head)))


def _parquet_rows(name: str) -> float:
    import pyarrow.parquet as pq  # noqa: PLC0415  not needed for other files

    return float(pq.read_metadata(name).num_rows)


def _lines_in_gzip(head: bytes) -> tuple[float, float] | None:
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    text = unpacking.decompress(head)
    return _lines(text, float(len(head) - len(unpacking.unused_data)))


def _lines(text: bytes, size: float) -> tuple[float, float] | None:
    if b"\0" in text or not text:
        return None
    return float(text.count(b"\n") + (not text.endswith(b"\n") and size < _HEAD)), size
