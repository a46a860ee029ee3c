"""Reads the files of a batch, and their sizes, from the log of Spark's file source.

The file source writes ``checkpoint/sources/<source>/n`` before the offset log says ``{"logOffset": n}``, so both are
on disk when a task of the batch runs::

    v1
    {"path":"file:///data/in/a%20b.json","timestamp":1794996137454,"batchId":7}

Every tenth entry is called ``n.compact`` and repeats all files since the first batch, the newest last; only its
end is read. Sizes come from the file system. Files whose size a task cannot read (in an object store, on a disk of
another machine) are counted instead. No function here raises: a size that cannot be read is unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_BLOCK = 1 << 16  # bytes that are read at once from the end of a compacted log
_MOST_LOOKED_AT = 500  # files of a batch: each takes some µs on a local disk, a millisecond on a network


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a batch reads: their number, their bytes (None where unknown) and some of their paths."""

    count: int
    size_bytes: float | None
    sample: tuple[str, ...] = ()


def files_between(source: Path, after: int, until: int) -> Files | None:
    """Return the files in a source's log after one entry up to another; None if an entry cannot be read."""
    paths: list[str] = []
    for number in range(after + 1, until + 1):
        entry = _paths(source, number)
        if entry is None:
            return None
        paths += entry
    looked_at = spaced(paths, _MOST_LOOKED_AT)
    sizes = [(path, size) for path in looked_at if (size := _size(path)) is not None]
    if not sizes:
        return Files(len(paths), 0.0 if not paths else None)
    mean = sum(size for _, size in sizes) / len(sizes)
    return Files(len(paths), mean * len(paths), tuple(path for path, _ in sizes))


def spaced(paths: Sequence[str], most: int) -> list[str]:
    """Return at most so many of the paths, evenly spaced.

    >>> spaced("abcdef", 3), spaced("ab", 3)
    (['a', 'c', 'e'], ['a', 'b'])
    """
    count = min(most, len(paths))
    return [paths[index * len(paths) // count] for index in range(count)]


def local_file(path: str) -> str | None:
    """Return the path by which a file of the log can be opened here, None if it is not on a file system.

    >>> local_file("file:///in%20put/100%25;a.txt"), local_file("s3a://bucket/a.txt")
    ('/in put/100%;a.txt', None)
    """
    try:
        address = urlsplit(path)
    except ValueError:
        return None
    return unquote(address.path) if address.scheme in ("", "file") else None


def _size(path: str) -> int | None:
    name = local_file(path)
    try:
        return None if name is None else os.stat(name).st_size
    except (OSError, ValueError):
        return None


def _paths(source: Path, number: int) -> list[str] | None:
    """Return the files of one entry of the log, None where there is no entry. An entry has at least one file."""
    for name in (str(number), f"{number}.compact"):
        try:
            paths = list(_of_entry(source / name, number))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return paths or None
    return None


def _of_entry(log: Path, number: int) -> Iterator[str]:
    for line in _lines_from_the_end(log):
        if not line.strip():
            continue
        if not line.startswith(b"{"):  # the version, above the first file
            return
        file = json.loads(line)
        if file["batchId"] != number:
            return
        yield str(file["path"])


def _lines_from_the_end(log: Path) -> Iterator[bytes]:
    with log.open("rb") as stream:
        left = stream.seek(0, os.SEEK_END)
        begun = b""
        while left > 0:
            step = min(_BLOCK, left)
            left -= step
            stream.seek(left)
            begun, *lines = (stream.read(step) + begun).split(b"\n")
            yield from reversed(lines)
        yield begun
