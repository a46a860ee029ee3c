"""How many rows a batch has, known before it runs.

Spark writes ``checkpoint/offsets/b`` before it runs batch b: a line with a version, a line of metadata with the time
the batch was cut, then one line per source with the offset it ends at. Version 1 has the sources in their order, and
``-`` for one that has given nothing yet; version 2 has ``name:offset``, with the number of the source where it has no
name, and leaves out those that have given nothing. The difference to batch b - 1 is the size of the batch:

=================== ============================================ ============================
source              offset                                       what a unit is
=================== ============================================ ============================
replay              ``{"rows": 1200, ...}``                      a row
Kafka               ``{"topic": {"0": 17, "1": 23}}``            a row, or a gap
rate-micro-batch    ``{"offset": 3000, "timestamp": ...}``       a row
rate, sockets, ...  ``12``                                       learned from finished batches
files               ``{"logOffset": 3}``                         a byte, or a file (file_log.py)
Delta and others    anything else                                not countable
=================== ============================================ ============================

A plan may filter, explode or join before it sheds, so the rows that reach the shedder per unit are learned, too
(rows_per_unit.py); for sources that count rows the first guess is one, for files a look into them (file_sample.py).
Where nothing can be counted, or nothing has been learned yet, the batch is bounded while it runs (position_bound.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillway.spark.file_log import files_between

OFFSETS, BYTES, FILES = "offsets", "bytes", "files"  # what the units of a batch are
_NOTHING_YET = "-"


@dataclass(frozen=True, slots=True)
class Position:
    """How far the sources of a query have been read, in units that can be subtracted."""

    units: float
    counts_rows: bool


@dataclass(frozen=True, slots=True)
class BatchSize:
    """What the offset log says of a batch before it runs; None where it cannot be known.

    ``cut_s`` is when the batch was cut, which tells it from another batch of the same number. Without a checkpoint
    to look into there is only ``seen_s``, when the batch was seen to run. ``measured_in`` is what the units are;
    ``files`` are some of the files to be read, and ``rows_per_unit`` is what a look into them has shown. ``note`` is
    for the status: why the log could not be read.
    """

    units: float | None = None
    counts_rows: bool = False
    waited_s: float | None = None
    cut_s: float | None = None
    seen_s: float | None = None
    watermark_ms: int | None = None
    sources: int = 1
    measured_in: str = OFFSETS
    files: tuple[str, ...] = ()
    rows_per_unit: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One batch in the offset log: when it was cut, the watermark if there is one yet, the offsets by source."""

    cut_s: float
    watermark_ms: int | None
    offsets: dict[str, Any]
    sources: int


@dataclass(frozen=True, slots=True)
class _Part:
    """The size of one source's part of a batch."""

    units: float
    counts_rows: bool = False
    measured_in: str = OFFSETS
    files: tuple[str, ...] = ()


def size_of(checkpoint: Path, batch: int) -> BatchSize:
    """Read a batch's size, and how long its oldest row may have waited, from the offset log."""
    lines = _lines(checkpoint / "offsets" / str(batch))
    ended = _entry(lines)
    if ended is None:
        return BatchSize(note=_unknown_version(lines))
    size = BatchSize(cut_s=ended.cut_s, watermark_ms=ended.watermark_ms, sources=ended.sources)
    before: dict[str, Any] = {}
    if batch > 0:
        started = _entry(_lines(checkpoint / "offsets" / str(batch - 1)))
        if started is None:
            return size
        size = replace(size, waited_s=max(0.0, ended.cut_s - started.cut_s))
        before = started.offsets
    return _added(
        size,
        [_part(checkpoint / "sources" / name, end, before.get(name)) for name, end in ended.offsets.items()],
    )


def position(offsets: list[Any]) -> Position | None:
    """Add up the offsets of all sources, or return None if one of them cannot be counted.

    >>> position([{"rows": 5}, {"clicks": {"0": 7, "1": 1}}])
    Position(units=13.0, counts_rows=True)
    >>> position([12])
    Position(units=12.0, counts_rows=False)
    >>> position([{"logOffset": 3}]) is None
    True
    """
    parts = [_units(offset) for offset in offsets]
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    return Position(sum(part.units for part in known), all(part.counts_rows for part in known))


def parse(text: str | None) -> Any:
    """Read an offset as Spark prints it; None where there is none or it is not JSON."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _units(offset: Any) -> Position | None:
    if isinstance(offset, int | float) and not isinstance(offset, bool):
        return Position(float(offset), counts_rows=False)
    if not isinstance(offset, dict) or not offset:
        return None
    if isinstance(offset.get("rows"), int):
        return Position(float(offset["rows"]), counts_rows=True)
    if set(offset) == {"offset", "timestamp"} and isinstance(offset["offset"], int):
        return Position(float(offset["offset"]), counts_rows=True)
    topics = list(offset.values())
    if all(isinstance(topic, dict) for topic in topics):
        ends = [end for topic in topics for end in topic.values()]
        if ends and all(isinstance(end, int) for end in ends):
            return Position(float(sum(ends)), counts_rows=True)
    return None


def _unknown_version(lines: list[str] | None) -> str:
    version = lines[0].strip() if lines else ""
    if not version or version in _VERSIONS:
        return ""
    return (
        f"the offset log has version {version[:20]!r}, and this Spillway reads {' and '.join(_VERSIONS)}, so "
        "batches are estimated instead of known"
    )


def _added(size: BatchSize, parts: list[_Part | None]) -> BatchSize:
    """Add up the sources; unknown if one of them is, or if they are not measured alike."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts) or len({part.measured_in for part in known}) > 1:
        return size
    return replace(
        size,
        units=sum(part.units for part in known),
        counts_rows=all(part.counts_rows for part in known),
        measured_in=known[0].measured_in,
        files=tuple(path for part in known for path in part.files),
    )


def _part(source: Path, end: Any, start: Any) -> _Part | None:
    """Return what a source gives between two offsets; ``source`` is the folder in which it keeps its own log."""
    if isinstance(end, dict) and set(end) == {"logOffset"}:
        before = start if isinstance(start, dict) else {"logOffset": -1}
        return _files(source, end["logOffset"], before.get("logOffset"))
    ended = _units(end)
    started = _units(_origin(source) if start is None else start)
    if ended is None or started is None:
        return None
    return _Part(max(0.0, ended.units - started.units), ended.counts_rows)


def _files(source: Path, end: Any, start: Any) -> _Part | None:
    if not isinstance(end, int) or not isinstance(start, int):
        return None
    files = files_between(source, start, end)
    if files is None:
        return None
    if files.size_bytes is None:
        return _Part(float(files.count), measured_in=FILES)
    return _Part(files.size_bytes, measured_in=BYTES, files=files.sample)


def _origin(source: Path) -> Any:
    """Return where a source began: Kafka notes it beside the offset log, the others begin at 0."""
    lines = _lines(source / "0")
    return parse(lines[-1]) if lines else 0


def _entry(lines: list[str] | None) -> _Entry | None:
    if lines is None or len(lines) < 3 or lines[0].strip() not in _VERSIONS:
        return None
    metadata = parse(lines[1])
    if not isinstance(metadata, dict):
        return None
    return _Entry(
        cut_s=float(metadata.get("batchTimestampMs") or 0) / 1000.0,
        watermark_ms=int(metadata.get("batchWatermarkMs") or 0) or None,
        offsets=_VERSIONS[lines[0].strip()](lines[2:]),
        sources=len(lines) - 2,
    )


def _in_order(lines: list[str]) -> dict[str, Any]:
    return {str(number): parse(line) for number, line in enumerate(lines) if line != _NOTHING_YET}


def _by_name(lines: list[str]) -> dict[str, Any]:
    pairs = [line.partition(":") for line in lines]
    return {name: parse(offset) for name, _, offset in pairs if offset != _NOTHING_YET}


_VERSIONS = {"v1": _in_order, "v2": _by_name}


def _lines(path: Path) -> list[str] | None:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
