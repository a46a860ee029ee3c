"""How many rows a batch has, known before it runs.

Spark writes ``checkpoint/offsets/b`` before it runs batch b: a line with a version, a line of metadata with the time
the batch was cut, then one line per source with the offset it ends at. The difference to batch b - 1 counts the
batch for sources whose offsets count rows:

=================== ============================================ ============================
source              offset                                       what a unit is
=================== ============================================ ============================
replay              ``{"rows": 1200, ...}``                      a row
Kafka               ``{"topic": {"0": 17, "1": 23}}``            a row
rate-micro-batch    ``{"offset": 3000, "timestamp": ...}``       a row
rate and others     ``12``                                       learned from finished batches
files, Delta, ...   anything else                                not countable
=================== ============================================ ============================

A plan may filter, explode or join before it sheds, so the rows that reach the shedder per unit are learned, too; for
sources that count rows the first guess is one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Position:
    """How far the sources of a query have been read, in units that can be subtracted."""

    units: float
    counts_rows: bool


@dataclass(frozen=True, slots=True)
class BatchSize:
    """What the offset log says of a batch before it runs; None where it cannot be known.

    ``cut_s`` is when the batch was cut, which tells it from another batch of the same number. Without a checkpoint
    to look into there is only ``seen_s``, when the batch was seen to run.
    """

    units: float | None = None
    counts_rows: bool = False
    waited_s: float | None = None
    cut_s: float | None = None
    seen_s: float | None = None
    watermark_ms: int | None = None
    sources: int = 1


def size_of(checkpoint: Path, batch: int) -> BatchSize:
    """Read a batch's size, and how long its oldest row may have waited, from the offset log."""
    ended = _log_entry(checkpoint / "offsets" / str(batch))
    if ended is None:
        return BatchSize()
    started = _log_entry(checkpoint / "offsets" / str(batch - 1)) if batch > 0 else None
    waited_s = max(0.0, ended[0] - started[0]) if started is not None else None
    end = position(ended[1])
    start = position(started[1]) if started is not None else _origin(checkpoint, len(ended[1]))
    if batch > 0 and started is None:
        start = None
    if end is None or start is None:
        return BatchSize(waited_s=waited_s, cut_s=ended[0], watermark_ms=ended[2], sources=len(ended[1]))
    return BatchSize(
        units=max(0.0, end.units - start.units),
        counts_rows=end.counts_rows,
        waited_s=waited_s,
        cut_s=ended[0],
        watermark_ms=ended[2],
        sources=len(ended[1]),
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


def _origin(checkpoint: Path, sources: int) -> Position | None:
    """Return where the sources began: Kafka notes it beside the offset log, the others begin at 0."""
    found = []
    for source in range(sources):
        entry = _lines(checkpoint / "sources" / str(source) / "0")
        found.append(parse(entry[-1]) if entry else 0)
    start = position(found)
    return None if start is None else Position(start.units, counts_rows=True)


def _log_entry(path: Path) -> tuple[float, list[Any], int | None] | None:
    """Return the time a batch was cut, the offsets of its sources, and the watermark if there is one yet."""
    lines = _lines(path)
    if lines is None or len(lines) < 3:
        return None
    metadata = parse(lines[1])
    if not isinstance(metadata, dict):
        return None
    cut_s = float(metadata.get("batchTimestampMs", 0)) / 1000.0
    return cut_s, [parse(line) for line in lines[2:]], int(metadata.get("batchWatermarkMs", 0)) or None


def _lines(path: Path) -> list[str] | None:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
