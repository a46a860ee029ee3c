"""What partial matches are worth, once for all shards and for good: a file in the checkpoint, written once.

It is learned from a history when ``match`` is called, or by a shard on the way. Either way it is written down **for
batches after b**, and shards that know nothing by then begin with it. What a shard has begun with is part of its
state.

- **History.** b is the last batch that was planned, -1 before the first start. Once something is written a history
  is not read again: a later start, whose history may have grown, goes on with the classes that live partial matches
  have.
- **A shard.** One that sees few rows would wait long until it has a stretch to learn from, or without end. Keys are
  spread by a hash, so what one shard has learned in batch b holds for the others as well.

**Replay.** Batches come one after the other, so the file is there when batch b + 1 begins, and a batch up to b that
is done again does not use it. If several shards learn in one batch, the first to write is the one that is read, for
good.

Never fatal in a task: where the folder cannot be read or written, a shard goes on as if nobody had learned anything.
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
    """Where what a stage has learned is left. Picklable: it travels to the task."""

    folder: str
    stage: int

    def batch(self) -> int | None:
        """Return the number of the batch whose task this is."""
        from pyspark import TaskContext  # noqa: PLC0415  only a task has one

        context = TaskContext.get()
        told = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        return None if told is None else int(told)

    def written(self) -> bool:
        """Return whether something has been learned, for whatever batches."""
        try:
            return self._files.read(self._name) is not None
        except (OSError, ValueError):
            return False

    def write(self, learned: Learned, after_batch: int) -> None:
        """Leave what was learned for the batches after one, unless something was left before."""
        blob = zlib.compress(_FORMAT.write({"after_batch": after_batch}, to_arrays(learned)))
        self._files.write_once(self._name, base64.b64encode(blob).decode())

    def offer(self, learned: Learned) -> None:
        """Leave what a shard has learned in this batch for those after it."""
        batch = self.batch()
        if batch is not None:
            with contextlib.suppress(OSError):
                self.write(learned, batch)

    def known(self) -> Learned | None:
        """Return what was learned before this batch, None if nothing was."""
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
    """Return the last batch that Spark has planned, -1 if there is none: up to it batches may be done again."""
    names = [] if checkpoint is None else Folder(Path(checkpoint)).names("offsets")
    return max((int(name) for name in names if name.isdecimal()), default=-1)
