"""Binds a Spillway to its query: a folder in the checkpoint, the loop that uses it, and the listener of the loop.

::

    made -> locked (one query per checkpoint) -> listening, from the first stage on -> closed: the lock is released

The last events of a query come a little later than its end, so ``status`` and ``history`` wait for them. A Spillway
that was left open is closed when another one is made for its checkpoint and its query no longer runs.
"""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from spillway.core import control
from spillway.core.control import Controller
from spillway.durations import Duration, seconds
from spillway.errors import CheckpointInUseError, SpillwayError, invalid, unknown
from spillway.loop.checkpoint_store import Folder, Lease, local_path
from spillway.loop.loop import Loop
from spillway.loop.reports import Metrics
from spillway.loop.status import Status
from spillway.loop.step_controller import StepOnly, Steps
from spillway.spark.control_row import owner_of
from spillway.spark.groups.foreach_batch_groups import SecondPasses
from spillway.spark.listener import LoopListener, listen

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Mode = Literal["enforce", "observe"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")
_PATIENCE_S = 20.0  # for a busy machine; events usually come within milliseconds
_alive: dict[Path, Attached] = {}


class Attached:
    """The part of a Spillway that is the same for all kinds of shedding: checkpoint, loop, listener and status."""

    _passes: SecondPasses

    def __init__(
        self,
        name: str,
        target_delay: Duration,
        checkpoint: str | os.PathLike[str] | None,
        controller: str | Steps,
        mode: Mode,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise invalid("name", name, "1 to 100 letters, digits, spaces, dots, dashes or underscores")
        if mode not in get_args(Mode):
            raise unknown("mode", mode, get_args(Mode))
        self.name = name
        self.mode = mode
        self._target_delay_s = seconds("target_delay", target_delay)
        make = self._controller_maker(controller)
        make(None)  # a wrong controller is refused before anything is locked
        self._checkpoint = None if checkpoint is None else local_path("checkpoint", checkpoint)
        self._temporary = _own_folder() if checkpoint is None else None
        root = Path(self._temporary.name) if self._temporary else self._checkpoint / "spillway"  # type: ignore[operator]
        self._folder = Folder(root)
        self._lease = Lease(self._folder)
        problem = self._take_lease()
        self._closed = False
        self._observations: list[str] = []
        self._spark: SparkSession | None = None
        finished = root / "decisions" if self._checkpoint is None else self._checkpoint / "commits"
        self._loop = Loop(name, make, self._folder, mode=mode, finished=Folder(finished))
        if problem is not None:
            self._loop.note(problem)
        self._listener = LoopListener(self._loop, lambda: self._observations, self._counts_of)

    def wait_for_batch(self, batch: int, limit_s: float = 60.0) -> bool:
        """Wait until the loop has the report of a batch; return False if it does not come within the limit."""
        return self._loop.wait_for(batch, limit_s)

    def retarget(self, target_delay: Duration) -> None:
        """Change the target while the query runs."""
        self._target_delay_s = seconds("target_delay", target_delay)
        self._loop.retarget(self._target_delay_s)

    def status(self) -> Status:
        """Return the latest sample and decision, with the reason in words."""
        self._hear_out()
        return Status(
            name=self.name,
            mode=self.mode,
            running=self._is_active(),
            decision=self._loop.published.decision,
            last=self._loop.history.last(),
            last_with_rows=self._loop.history.last_with_rows(),
            problems=tuple(self._loop.problems),
        )

    def history(self) -> pa.Table:
        """Return the history with one row per finished batch, also of batches before a restart."""
        self._hear_out()
        return self._loop.history.table()

    def close(self) -> None:
        """Stop listening and release the checkpoint. A query that still runs continues with the last decision."""
        if self._spark is not None:
            self._hear_out()
            self._spark.streams.removeListener(self._listener)
            self._spark = None
        self._passes.release()
        self._closed = True
        self._lease.give_back()
        if _alive.get(self._folder.root) is self:
            del _alive[self._folder.root]
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Spillway({self.name!r}, target_delay={self._target_delay_s:g} s, mode={self.mode!r})"

    def _session_of_query(self) -> SparkSession:
        """Return the session of the query: ``foreachBatch`` passes a copy of it, which gets no events."""
        from pyspark.sql import SparkSession  # noqa: PLC0415  imported above for types only

        spark = SparkSession.builder.getOrCreate()
        mine = None if self._checkpoint is None else owner_of(self._checkpoint)
        if self._spark is None and mine not in {str(query.id) for query in spark.streams.active}:
            self._loop.note(
                "the query runs in another session than the first, so nothing is heard of its batches"
            )
        return spark

    def _counts_of(self, query: str, batch: int) -> Mapping[str, Metrics]:
        """Return the metrics that were counted within ``foreachBatch``, if the batch belongs to our query."""
        found = self._passes.counts_of(batch)
        if not found or self._checkpoint is None or owner_of(self._checkpoint) != query:
            return {}
        return found

    def _require_open(self) -> None:
        if self._closed:
            raise SpillwayError(f"this Spillway {self.name!r} is closed.", hint="make a new one")

    @property
    def _checkpoint_text(self) -> str | None:
        return None if self._checkpoint is None else str(self._checkpoint)

    def _observe(self, stage: int) -> str:
        """Return the name under which a stage's counts are reported."""
        name = f"spillway.{self.name}.{stage}.{uuid.uuid4().hex[:8]}"
        self._observations.append(name)
        return name

    def _controller_maker(self, chosen: str | Steps) -> Callable[[dict[str, Any] | None], Controller]:
        if isinstance(chosen, str):
            # A period of the paper is a batch here. Each sample has the real length of its batch, and what its fixed
            # time leaves for rows. No headroom is needed: the measured cost includes the load by other processes.
            options: dict[str, Any] = {"engine": "batched"} if chosen == "deadline" else {}

            def by_name(state: dict[str, Any] | None) -> Controller:
                return control.make(
                    chosen, target_delay_s=self._target_delay_s, headroom=1.0, state=state, **options
                )

            return by_name
        if not callable(getattr(chosen, "step", None)):
            raise SpillwayError(
                f"controller = {chosen!r} is not allowed: expected a name or an object with step(sample) and, if it"
                " can, retarget(target_delay_s) and snapshot()."
            )
        whole = chosen if isinstance(chosen, Controller) else StepOnly(chosen)
        return lambda _: whole

    def _take_lease(self) -> str | None:
        """Lock the folder; return the problem if that fails for another reason than a holder of the lock."""
        earlier = _alive.get(self._folder.root)
        if earlier is not None and not earlier._is_active():
            earlier.close()
        try:
            self._lease.take()
        except CheckpointInUseError:
            raise
        except OSError as error:
            return f"the checkpoint could not be locked against a second query: {error}"
        _alive[self._folder.root] = self
        return None

    def _hear_out(self) -> None:
        """Wait for the last events of a query that has ended: they come a little later than its end."""
        if self._spark is not None and not self._is_active():
            self._loop.wait_for_the_rest(_PATIENCE_S)

    def _is_active(self) -> bool:
        """Return whether the query that uses this Spillway is running now."""
        if self._spark is None:
            return False
        mine = self._loop.query or (None if self._checkpoint is None else owner_of(self._checkpoint))
        active = {str(query.id) for query in self._spark.streams.active}
        return bool(active) if mine is None else mine in active

    def _listen(self, spark: SparkSession) -> None:
        if self._spark is None:
            listen(spark, self._listener)
            self._spark = spark


def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for a query without a checkpoint; a file that a late event writes after cleanup stays there."""
    return tempfile.TemporaryDirectory(prefix="spillway-", ignore_cleanup_errors=True)
