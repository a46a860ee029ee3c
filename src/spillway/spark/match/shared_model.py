"""Shares the learned values of partial matches among all shards, in a file of the checkpoint that is written once.

They are learned from training rows when ``match`` is called, or by a shard while the query runs. In both cases they
are stored **for batches after b**, and shards that have learned nothing by then start with them. The values with
which a shard has started are part of its state and cannot be changed later.

- **Training rows.** b is the last batch that Spark has planned, -1 before the first start. Once the file is written,
  training rows are not read again: a later start, which may have more of them, continues with the classes that live
  partial matches have.
- **A shard.** A shard with few rows would wait long, or without end, until it has a stretch to learn from. Keys are
  spread by a hash, so the values that one shard has learned in batch b hold for the other shards as well.

**Replay.** Batches run one after the other, so the file exists when batch b + 1 begins, and a batch up to b that is
run again does not use it. If several shards learn in one batch, the first file that is written stays and is read by
all.

Errors do not stop a task: if the folder cannot be read or written, a shard continues as if no shard had learned.
"""

from __future__ import annotations

import base64
import contextlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from spillway.core.cep.shedding.learned_model import Learned
from spillway.core.state.blob import BlobFormat
from spillway.loop.checkpoint_store import Folder
from spillway.spark.match.training_stretch import from_arrays, to_arrays

_FORMAT = BlobFormat(b"SPLRND", version=1, owner="what a pattern has learned")


@dataclass(frozen=True)
class Sharing:
    """The file with the learned values of a stage. Picklable, because it is sent to the task."""

    folder: str
    stage: int

    def batch(self) -> int | None:
        """Return the number of the batch to which this task belongs."""
        from pyspark import TaskContext  # noqa: PLC0415  only a task has one

        context = TaskContext.get()
        told = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        return None if told is None else int(told)

    def written(self) -> bool:
        """Return whether learned values are stored, for any batches."""
        try:
            return self._files.read(self._name) is not None
        except (OSError, ValueError):
            return False

    def write(self, learned: Learned, after_batch: int) -> None:
        """Store learned values for the batches after ``after_batch``, unless the file exists already."""
        blob = zlib.compress(_FORMAT.write({"after_batch": after_batch}, to_arrays(learned)))
        self._files.write_once(self._name, base64.b64encode(blob).decode())

    def offer(self, learned: Learned) -> None:
        """Store the values that a shard has learned in this batch, for the batches after it."""
        batch = self.batch()
        if batch is not None:
            with contextlib.suppress(OSError):
                self.write(learned, batch)

    def known(self) -> Learned | None:
        """Return the values that were learned before this batch, None if there are none."""
        batch = self.batch()
        if batch is None:
            return None
        try:
            text = self._files.read(self._name)
            if text is None:
                return None
            meta, arrays = _FORMAT.read(zlib.decompress(base64.b64decode(text)))
        except (OSError, ValueError, zlib.error):
            return None
        return from_arrays(arrays) if meta["after_batch"] < batch else None

    @property
    def _files(self) -> Folder:
        return Folder(Path(self.folder))

    @property
    def _name(self) -> str:
        return f"learned/{self.stage}.txt"


def last_planned(checkpoint: str | None) -> int:
    """Return the last batch that Spark has planned, -1 if there is none: batches up to it may be run again."""
    names = [] if checkpoint is None else Folder(Path(checkpoint)).names("offsets")
    return max((int(name) for name in names if name.isdecimal()), default=-1)
