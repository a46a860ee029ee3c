"""Carries progress events from Spark to the loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spillway.loop.loop import Loop
from spillway.loop.reports import Metrics, read_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def listen(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener to a session.

    On Spark Connect the client (4.3) gives up on listeners if the reply to adding one carries what Python tasks
    have accumulated in the session so far. A query without Python takes that along before.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.range(1).collect()
    spark.streams.addListener(listener)


class OneCallListener(JStreamingQueryListener):
    """Takes a progress event over from the JVM as one text, as Spark Connect does.

    PySpark asks for each of its values in a call of its own: a hundred calls, 20 ms of the driver's Python and as
    much of the JVM for each batch, and the loop hears of a batch up to 100 ms later.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        """Hand the event on."""
        try:
            event = QueryProgressEvent.fromJson(json.loads(jevent.json()))
        except Exception:  # of a Spark that writes it in another way
            event = QueryProgressEvent.fromJObject(jevent)
        self.pylistener.onQueryProgress(event)


class LoopListener(StreamingQueryListener):
    """Hands the batches of one Spillway's query to its loop and ignores all others."""

    def __init__(
        self,
        loop: Loop,
        observations: Callable[[], list[str]],
        counted: Callable[[str, int], Mapping[str, Metrics]],
    ) -> None:
        self._loop = loop
        self._observations = observations
        self._counted = counted
        self._in_jvm: Any = None

    @property
    def _jlistener(self) -> Any:
        """Return what stands for this listener in the JVM; not used on Spark Connect."""
        from pyspark import SparkContext  # noqa: PLC0415  Connect alone does not have it

        if self._in_jvm is None:
            assert SparkContext._jvm is not None
            self._in_jvm = SparkContext._jvm.PythonStreamingQueryListenerWrapper(OneCallListener(self))
        return self._in_jvm

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: which query is ours shows with its first batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Read a finished batch."""
        try:
            counted = self._counted(str(event.progress.id), event.progress.batchId)
            report = read_progress(event.progress, self._observations(), counted)
        except Exception as error:  # an event in an unknown shape must not disturb the others
            self._loop.note(f"a progress event could not be read: {error!r}")
            return
        if report is not None:
            self._loop.take(report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: an idle query has nothing to shed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take note of the end."""
        self._loop.ended(str(event.runId))
