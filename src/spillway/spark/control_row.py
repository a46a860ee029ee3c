"""The control row: it carries a decision into a running query.

The control row is a static DataFrame of one row whose content is read by a task. Spark evaluates it anew in
every micro-batch and broadcasts it; the drop itself is a native filter. The task knows its batch and looks for
``decisions/b.json``. If there is none, it makes the decision and writes it there before using it. A later reader (a
retried task, a second shedding stage, a replay after a crash) finds the file and uses the same decision. A decision
for another batch of that number (the offset log was lost, or cleared by hand) is not used.

Errors do not stop the query: if the folder cannot be read or written, the row says "keep everything" with a note
that returns to the loop as a metric. No row is dropped by a decision that is not stored. One error does stop the
query: it runs on another checkpoint than the one whose decisions it would use.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.errors import PySparkException

from spillway.core.random import mix, threshold
from spillway.core.tuples.cut import KEEP_ALL, Cut
from spillway.errors import CheckpointInUseError, SpillwayError
from spillway.loop.checkpoint_store import Folder
from spillway.loop.decision import BatchDecision, Published, decide
from spillway.loop.file_sample import rows_per_byte
from spillway.loop.offsets import BatchSize, size_of
from spillway.spark.quick_acknowledgement import acknowledge_at_once
from spillway.spark.worker_heap import freeze_modules

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

PREFIX = "_spillway_"
REPORT_PATIENCE_S = 0.5
_BOUND_SALT = -1  # no stage has this number, so this choice of rows is independent of any ordinary cut
NOT_STREAMING = "not in a micro-batch of a streaming query"
BOUND = f"{PREFIX}bound double, {PREFIX}tasks double not null, {PREFIX}bound_salt bigint not null"
TUPLES = (
    f"{BOUND}, {PREFIX}salt bigint not null, {PREFIX}cut double not null, "
    f"{PREFIX}at_limit bigint not null, {PREFIX}at_weight double not null, {PREFIX}below_limit bigint not null, "
    f"{PREFIX}below_weight double not null, {PREFIX}note string"
)


@dataclass(frozen=True)
class ControlRow:
    """Reads the control row of the batch in which it runs. Picklable, because it is sent to the task."""

    folder: str
    checkpoint: str | None
    stage: int
    schema: ClassVar[str] = TUPLES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the row once, regardless of the input."""
        import pyarrow as pa  # noqa: PLC0415  only the task needs it

        acknowledge_at_once()
        freeze_modules()
        for _ in batches:
            pass
        decision, note = self.decision_here()
        yield pa.RecordBatch.from_pylist([self.row(decision, note)], schema=_arrow_schema(self.schema))

    def decision_here(self) -> tuple[BatchDecision | None, str]:
        """Return the decision of the batch to which this task belongs."""
        from pyspark import TaskContext  # noqa: PLC0415  only a task has one

        context = TaskContext.get()
        told = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        return self.decision_for(int(told) if told is not None else -1, query)

    def decision_for(self, batch: int, query: str | None) -> tuple[BatchDecision | None, str]:
        """Return the decision of a batch and a note; or None and the reason why nothing may be dropped."""
        if self.checkpoint is not None:
            _refuse_other_query(Path(self.checkpoint), query)
        if batch < 0:
            return None, NOT_STREAMING
        folder = Folder(Path(self.folder))
        name = f"decisions/{batch}.json"
        try:
            size = self._size(batch)
            doubt = "" if self.checkpoint is None or size.cut_s is not None else self._doubt(size)
            written = folder.read(name)
            if written is not None:
                found = BatchDecision.from_json(written)
                if found.is_for(size):
                    return found, doubt
                folder.remove(name)
            made = _decide(folder, batch, size)
            if folder.write_once(name, made.to_json()):
                return made, doubt
            return BatchDecision.from_json(folder.read(name) or ""), doubt
        except (OSError, SpillwayError, ValueError, TypeError, LookupError) as error:
            return None, f"nothing shed: {error}"

    def _size(self, batch: int) -> BatchSize:
        found = BatchSize() if self.checkpoint is None else size_of(Path(self.checkpoint), batch)
        return found if found.cut_s is not None else replace(found, seen_s=time.time())

    def _doubt(self, size: BatchSize) -> str:
        return size.note or (
            f"{self.checkpoint}/offsets has no entry of this batch, so batches are estimated instead of known: "
            "is this the checkpointLocation of the query?"
        )

    def row(self, decision: BatchDecision | None, note: str) -> dict[str, Any]:
        """Return the control row's values: hash limits and weights, ready for native comparisons."""
        cut: Cut = KEEP_ALL
        if decision is not None and self.stage < len(decision.cuts):
            cut = decision.cuts[self.stage]
        return {
            f"{PREFIX}salt": 0 if decision is None else decision.salt_of(self.stage),
            f"{PREFIX}cut": cut.value,
            f"{PREFIX}at_limit": threshold(cut.at),
            f"{PREFIX}at_weight": 1.0 / cut.at if cut.at > 0.0 else 0.0,
            f"{PREFIX}below_limit": threshold(cut.below),
            f"{PREFIX}below_weight": 1.0 / cut.below if cut.below > 0.0 else 0.0,
            f"{PREFIX}note": note or None,
            **self.bound(decision),
        }

    def bound(self, decision: BatchDecision | None) -> dict[str, Any]:
        """Return the values that bound a batch of unknown size (position_bound.py)."""
        return {
            f"{PREFIX}bound": None if decision is None else decision.bound_rows,
            f"{PREFIX}tasks": 1.0 if decision is None else decision.tasks,
            f"{PREFIX}bound_salt": 0 if decision is None else mix(decision.salt_of(self.stage), _BOUND_SALT),
        }


@dataclass(frozen=True)
class ControlColumns:
    """Reads a control row and passes on some of its columns. Picklable, because it is sent to the task."""

    reader: ControlRow
    names: tuple[str, ...]

    @property
    def schema(self) -> str:
        """The columns in the order of the control row's own schema."""
        return ", ".join(part for part in self.reader.schema.split(", ") if part.split()[0] in self.names)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the row once, regardless of the input."""
        names = [part.split()[0] for part in self.schema.split(", ")]
        for row in self.reader(batches):
            yield row.select(names)


def control_frame(spark: SparkSession, reader: ControlRow, *names: str) -> DataFrame:
    """Return the one-row DataFrame that is read anew in every micro-batch, with all columns or the named ones.

    Two choices each save Spark a stage of generated code per batch. ``VALUES`` is read directly, while ``range``
    would need a generated loop. Unused columns are left out in the task; otherwise Spark would add a projection
    after it.
    """
    read = ControlColumns(reader, names) if names else reader
    return spark.sql("VALUES (0)").mapInArrow(read, read.schema)


def check_executors(control: DataFrame) -> list[Row]:
    """Read the control row once outside a stream, so that the call fails at once if tasks cannot read it."""
    try:
        return control.collect()
    except PySparkException as error:
        if "ModuleNotFoundError" not in str(error) and "ImportError" not in str(error):
            raise
        missing = next((line for line in str(error).splitlines() if "No module named" in line), "").strip()
        raise SpillwayError(
            f"the executors' Python cannot load Spillway ({missing}).",
            hint="start Spark with PYSPARK_PYTHON set to the Python of this environment "
            f"({sys.executable}), and install spillway-spark on every node of a cluster",
        ) from error


def read_published(folder: Folder) -> Published:
    """Return the value that the loop published last; raise :class:`SpillwayError` if it is missing or unreadable."""
    text = folder.read("latest.json")
    if text is None:
        raise SpillwayError("no decision has been published in the checkpoint.")
    try:
        found = json.loads(text)["published"]
    except (ValueError, KeyError, TypeError) as error:
        raise SpillwayError(f"latest.json cannot be read: {error!r}.") from error
    return Published.from_dict(found)


def _decide(folder: Folder, batch: int, size: BatchSize) -> BatchDecision:
    published = read_published(folder)
    if size.files and all(stage.measured_in != size.measured_in for stage in published.stages):
        size = replace(size, rows_per_unit=rows_per_byte(size.files))
    windows = any(stage.window is not None for stage in published.stages)
    only_one_missing = _reported(published) == batch - 2
    if (windows and size.sources > 1) or (size.units is None and only_one_missing):
        published = wait_for_report(folder, batch - 1)
    known = batch == 0 or published.after_batch == batch - 1
    return decide(published, batch, size, None if known and not windows else told_before(folder, batch))


def wait_for_report(folder: Folder, batch: int) -> Published:
    """Wait for the report of a batch, at most half a second, and return the newest value that the loop published.

    A report comes about 20 ms after the end of its batch. If the rows of the next batch cannot be counted, waiting is
    worthwhile, because they are estimated from the newest rate and from the end of the batch before. If more reports
    are missing, there is no wait, as the listener may be gone. Where there are several sources, windows are dropped
    only if the report has come (windows.py).
    """
    deadline = time.monotonic() + REPORT_PATIENCE_S
    while True:
        published = read_published(folder)
        if _reported(published) >= batch or time.monotonic() > deadline:
            return published
        time.sleep(0.005)


def _reported(published: Published) -> int:
    return -1 if published.after_batch is None else published.after_batch


def told_before(folder: Folder, batch: int) -> BatchDecision | None:
    """Return the newest readable decision of a batch before this one; None if there is none."""
    for number in _earlier(folder, batch):
        try:
            text = folder.read(f"decisions/{number}.json")
            if text is not None:
                return BatchDecision.from_json(text)
        except (OSError, SpillwayError, UnicodeDecodeError):
            continue
    return None


def _earlier(folder: Folder, batch: int) -> Iterator[int]:
    yield batch - 1
    try:
        numbers = [name.removesuffix(".json") for name in folder.names("decisions")]
    except OSError:
        return
    yield from sorted(
        (int(name) for name in numbers if name.isdigit() and int(name) < batch - 1), reverse=True
    )


def _arrow_schema(text: str) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415

    kinds = {
        "bigint": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "array<int>": pa.list_(pa.int32()),
        "array<bigint>": pa.list_(pa.int64()),
        "array<boolean>": pa.list_(pa.bool_()),
    }
    parts = [part.split() for part in text.split(", ")]
    return pa.schema([(name, kinds[kind]) for name, kind, *_ in parts])


def owner_of(checkpoint: Path) -> str | None:
    """Return the id of the query whose checkpoint this is, None where it cannot be read."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _refuse_other_query(checkpoint: Path, query: str | None) -> None:
    owner = owner_of(checkpoint)
    if query is not None and owner is not None and owner != query:
        raise CheckpointInUseError(
            f"checkpoint = {str(checkpoint)!r} belongs to query {owner}, but this is query {query}.",
            hint="give writeStream the checkpointLocation that Spillway was given; one Spillway serves one query",
        )
