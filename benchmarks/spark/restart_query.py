"""One life of a query that is killed and started again: ``python -m benchmarks.spark.restart_query ORDER``.

ORDER is a JSON file, the form of a :class:`QueryOrder`. The query plays the order's trace on the order's
checkpoint; a new checkpoint begins the trace now, an old one finds the rows that have arrived meanwhile. Every
finished batch is noted as a line of JSON at once, for a process that is killed can note nothing afterwards.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from spillway.demo.interrupts import raise_if_interrupted
from spillway.demo.local_session import session
from spillway.demo.playback import POLL_S, Recorder, source, workload
from spillway.replay import Rates
from spillway.spark import Spillway

_LIMIT_S = 180.0  # for one batch; the first of a cold JVM over a long backlog takes half a minute


@dataclass(frozen=True, kw_only=True)
class QueryOrder:
    """What one life of the query should do.

    ================ ====================================================================================
    ``trace``        what arrives
    ``target_s``     the delay that rows should not exceed
    ``checkpoint``   of the query; the same one in all its lives
    ``notes``        the file that gets a line for each finished batch
    ``history``      the file that gets Spillway's history at the end, of all lives so far
    ``not_before_s`` when the query may start, in seconds since 1970; Spark starts at once
    ``batches``      finished batches after which it ends; None: it goes on until it is killed
    ``fast_start``   leave out the JVM's optimising compiler
    ================ ====================================================================================
    """

    trace: Rates
    target_s: float
    checkpoint: str
    notes: str
    history: str
    not_before_s: float = 0.0
    batches: int | None = None
    fast_start: bool = False

    def to_json(self) -> str:
        """Return the order as JSON."""
        return json.dumps({**asdict(self), "trace": json.loads(self.trace.to_json())})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read back what :meth:`to_json` gave."""
        fields = json.loads(text)
        return cls(**{**fields, "trace": Rates.from_json(json.dumps(fields["trace"]))})


def live(order: QueryOrder, owner: int) -> None:
    """Run the query until it has finished its batches or the process that started this one is gone."""
    with session("spillway", fast_start=order.fast_start) as (spark, _):
        while time.time() < order.not_before_s:
            raise_if_interrupted()
            time.sleep(POLL_S)
        with Spillway("restart", order.target_s, order.checkpoint, arrival="timestamp") as shed:
            plan = workload(source(spark, order.trace), shed)
            with Recorder(spark, plan, Path(order.checkpoint)) as recorder:
                noted = 0
                while os.getppid() == owner and (order.batches is None or noted < order.batches):
                    noted = _note(recorder, noted, Path(order.notes))
            Path(order.history).write_text(json.dumps(shed.history().to_pylist()), encoding="utf-8")


def _note(recorder: Recorder, noted: int, notes: Path) -> int:
    """Wait for the next batch, write down what has finished, and return how many batches that makes."""
    batches = recorder.wait_for(noted + 1, _LIMIT_S)
    with notes.open("a", encoding="utf-8") as file:
        for batch in batches[noted:]:
            file.write(json.dumps({**asdict(batch), "epoch_s": recorder.epoch_s}) + "\n")
    return len(batches)


if __name__ == "__main__":
    live(QueryOrder.from_json(Path(sys.argv[1]).read_text(encoding="utf-8")), os.getppid())
