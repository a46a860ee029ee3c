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

    On Spark Connect the client (4.3) stops handling listeners if the reply to adding one carries accumulator updates
    of Python tasks of the session. A query without Python, run before, takes these updates along.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.range(1).collect()
    spark.streams.addListener(listener)


class OneCallListener(JStreamingQueryListener):
    """Takes a progress event from the JVM as one text, as Spark Connect does.

    PySpark reads each value of the event in a separate call: a hundred calls, which cost 20 ms of the driver's Python
    and as much of the JVM for each batch, and the loop gets the report up to 100 ms later.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        """Pass the event on."""
        try:
            event = QueryProgressEvent.fromJson(json.loads(jevent.json()))
        except Exception:  # another version of Spark may write the event in another form
            event = QueryProgressEvent.fromJObject(jevent)
        self.pylistener.onQueryProgress(event)


class LoopListener(StreamingQueryListener):
    """Passes the reports of one Spillway's query to its loop and ignores other queries."""

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
        """Return the wrapper of this listener in the JVM; not used on Spark Connect."""
        from pyspark import SparkContext  # noqa: PLC0415  a client with Spark Connect only does not have it

        if self._in_jvm is None:
            assert SparkContext._jvm is not None
            self._in_jvm = SparkContext._jvm.PythonStreamingQueryListenerWrapper(OneCallListener(self))
        return self._in_jvm

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: the first batch shows which query is ours."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Read the event of a finished batch and pass it to the loop as a report."""
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
        """Tell the loop that the run has ended."""
        self._loop.ended(str(event.runId))
