"""Reads the size of a batch from Spark's offset log before the batch runs.

Spark writes ``checkpoint/offsets/b`` before it runs batch b: a line with a version, a line of metadata with the time
the batch was cut, then one line per source with the offset it ends at. Version 1 has the sources in their order, and
``-`` for a source that has delivered nothing yet. Version 2 has ``name:offset``, with the number of the source if it
has no name, and leaves out sources that have delivered nothing. The difference to batch b - 1 is the batch's size:

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

Offsets that go back are not countable either: the topic was deleted and created again. The end of the batch before
is the time of its entry in ``checkpoint/commits``.

A plan may filter, explode or join before it sheds, so the rows per unit that reach the shedder are learned, too
(rows_per_unit.py). The first guess is one for sources that count rows; for files it comes from a sample of them
(file_sample.py). Where nothing can be counted, or nothing has been learned yet, the batch is bounded while it runs
(position_bound.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillway.loop.file_log import files_between

OFFSETS, BYTES, FILES = "offsets", "bytes", "files"  # the kinds of units in which a batch is measured
_NOTHING_YET = "-"


@dataclass(frozen=True, slots=True)
class Advance:
    """How far the sources of a query have advanced, and whether each unit of that is a row or a gap."""

    units: float
    counts_rows: bool


@dataclass(frozen=True, slots=True)
class BatchSize:
    """What the offset log says about a batch before it runs; None where it cannot be known.

    ``cut_s`` is when the batch was cut, which distinguishes it from another batch of the same number. Without a
    readable checkpoint there is only ``seen_s``, the time when the batch was seen to run. ``ended_s`` is when the
    batch before was committed. ``measured_in`` says what the units are; ``files`` are some of the files to be read,
    and ``rows_per_unit`` is the estimate from a sample of them. ``note`` is for the status: it says why the log
    could not be read.
    """

    units: float | None = None
    counts_rows: bool = False
    waited_s: float | None = None
    cut_s: float | None = None
    seen_s: float | None = None
    ended_s: float | None = None
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
    """Read the size of a batch, and how long its oldest row may have waited, from the offset log."""
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
        waited_s = max(0.0, ended.cut_s - started.cut_s)
        size = replace(size, waited_s=waited_s, ended_s=_committed_s(checkpoint, batch - 1))
        before = started.offsets
    return _added(
        size,
        [_part(checkpoint / "sources" / name, end, before.get(name)) for name, end in ended.offsets.items()],
    )


def advance(ends: list[Any], starts: list[Any]) -> Advance | None:
    """Add up how far all sources have advanced, or return None if one of them cannot be counted.

    >>> advance([{"rows": 5}, {"clicks": {"0": 7, "1": 1}}], [{"rows": 1}, {"clicks": {"0": 2}}])
    Advance(units=10.0, counts_rows=True)
    >>> advance([12], [2])
    Advance(units=10.0, counts_rows=False)
    >>> advance([{"clicks": {"0": 7, "1": 1}}], [{"clicks": {"0": 2, "1": 900}}]) is None
    True
    """
    parts = [_advance(end, start) for end, start in zip(ends, starts, strict=True)]
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    return Advance(sum(part.units for part in known), all(part.counts_rows for part in known))


def parse(text: str | None) -> Any:
    """Read an offset as Spark prints it; None where there is none or it is not JSON."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _advance(end: Any, start: Any) -> Advance | None:
    """Return how far one source has advanced. A new partition begins at 0; one that is gone adds nothing."""
    ended, started = _counters(end), _counters(start)
    if not ended or started is None:
        return None
    steps = [units - started.get(name, 0.0) for name, units in ended.items()]
    if min(steps) < 0.0:
        return None
    return Advance(sum(steps), counts_rows=None not in ended)


def _counters(offset: Any) -> dict[object, float] | None:
    """Return the counters of an offset by name: one, or one per partition. The name ``None``: it counts no rows."""
    if isinstance(offset, int | float) and not isinstance(offset, bool):
        return {None: float(offset)}
    if not isinstance(offset, dict) or not offset:
        return None
    if isinstance(offset.get("rows"), int):
        return {"rows": float(offset["rows"])}
    if set(offset) == {"offset", "timestamp"} and isinstance(offset["offset"], int):
        return {"offset": float(offset["offset"])}
    partitions: dict[object, float] = {}
    for topic, ends in offset.items():
        if not isinstance(ends, dict) or not all(isinstance(end, int) for end in ends.values()):
            return None
        partitions |= {(topic, partition): float(end) for partition, end in ends.items()}
    return partitions


def _unknown_version(lines: list[str] | None) -> str:
    version = lines[0].strip() if lines else ""
    if not version or version in _VERSIONS:
        return ""
    return (
        f"the offset log has version {version[:20]!r}, and this Spillway reads {' and '.join(_VERSIONS)}, so "
        "batches are estimated instead of known"
    )


def _added(size: BatchSize, parts: list[_Part | None]) -> BatchSize:
    """Add up the sources. The size is unknown if one of them is unknown, or if their units differ."""
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
    """Return the size of a source's part between two offsets; ``source`` is the folder of the source's own log."""
    if isinstance(end, dict) and set(end) == {"logOffset"}:
        before = start if isinstance(start, dict) else {"logOffset": -1}
        return _files(source, end["logOffset"], before.get("logOffset"))
    advanced = advance([end], [_origin(source) if start is None else start])
    return None if advanced is None else _Part(advanced.units, advanced.counts_rows)


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
    """Return the offset at which a source began: Kafka's is stored beside the offset log, the others begin at 0."""
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


def _committed_s(checkpoint: Path, batch: int) -> float | None:
    try:
        return (checkpoint / "commits" / str(batch)).stat().st_mtime
    except OSError:
        return None


def _lines(path: Path) -> list[str] | None:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
