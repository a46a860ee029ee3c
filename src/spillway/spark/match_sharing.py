"""What one shard has learned, for all others: a file in the checkpoint, written once.

A shard that sees few rows would wait long until it has a stretch to learn from, or without end. Keys are spread by a
hash, so what one shard has learned holds for the others as well. The first that has learned in batch b writes it down
**for batches after b**, and those that have not learned by then begin with it.

**Replay.** Batches come one after the other, so the file is there when batch b + 1 begins, and a batch up to b that
is done again does not use it. If several shards learn in one batch, the first to write is the one that is read, for
good.

Never fatal: where the folder cannot be read or written, a shard goes on as if nobody had learned anything.
"""

from __future__ import annotations

import base64
import contextlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from spillway.core.blob import BlobFormat
from spillway.core.cep.shedding.learned import Learned
from spillway.spark.match_learning import from_arrays, to_arrays
from spillway.spark.storage import Folder

_FORMAT = BlobFormat(b"SPLRND", version=1, owner="what a pattern has learned")


@dataclass(frozen=True)
class Sharing:
    """Where the shards of a stage leave what they have learned. Picklable: it travels to the task."""

    folder: str
    stage: int

    def batch(self) -> int | None:
        """Return the number of the batch whose task this is."""
        from pyspark import TaskContext  # noqa: PLC0415  only a task has one

        context = TaskContext.get()
        told = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        return None if told is None else int(told)

    def offer(self, learned: Learned) -> None:
        """Leave what was learned in this batch for those after it, unless another shard already has."""
        batch = self.batch()
        if batch is None:
            return
        blob = zlib.compress(_FORMAT.write({"after_batch": batch}, to_arrays(learned)))
        with contextlib.suppress(OSError):
            self._files.write_once(self._name, base64.b64encode(blob).decode())

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
