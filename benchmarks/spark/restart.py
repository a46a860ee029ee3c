"""A restart in a burst on real Spark: kill -9, a cold JVM, and a backlog of 20 s.

A query with a checkpoint runs in a process group of its own, JVM included. In the burst, in the middle of a batch,
the whole group is killed. Arrivals go on. When 20 s of them wait, the query starts again on the same checkpoint. The
killed batch is done once more, by the decision that was written for it; the batches after it are judged by
:mod:`~benchmarks.spark.restart_reference`.

=============================== =========================================================================
metric                          meaning
=============================== =========================================================================
``restart.kept_over_reference`` rows kept in the ten batches that were decided after the restart, over those
                                of a reference that knows what rows cost
``restart.within_target``       of the rows that these batches kept, without the one that takes in the backlog, the
                                share within the target: who keeps too much fails by this
``restart.decisions_changed``   decisions written before the kill that were others afterwards: must be 0
=============================== =========================================================================
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.spark.restart_query import QueryOrder
from benchmarks.spark.restart_reference import LEAST_BATCHES, Costs, Timed, fit, kept_over_reference
from spillway.demo.capacity import Capacity, Tell
from spillway.demo.playback import POLL_S
from spillway.errors import SpillwayError
from spillway.replay.traces import Rates

Result = TypeVar("Result")

STEPS = 2
"""Lives of the query, which is what takes the time."""

_LIMIT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class RestartPlan:
    """What is played; loads are multiples of the capacity.

    ================ ========================================================================================
    ``target_s``     the delay that rows should not exceed
    ``lead``         load and seconds before the burst; loads differ, so that the time of a batch and that of a
                     row can be told apart
    ``warm_s``       second of the trace from which on batches count for the reference's costs
    ``warm_batches`` such batches before which the query of a slow machine is not killed
    ``load``         of the burst
    ``kill_s``       seconds of the burst before the kill
    ``backlog_s``    seconds of arrivals that wait when the query starts again
    ``batches``      that are judged after the restart
    ``fast_start``   leave out the JVM's optimising compiler
    ================ ========================================================================================
    """

    target_s: float = 3.0
    lead: tuple[tuple[float, float], ...] = ((0.5, 15.0), (0.8, 10.0), (0.2, 5.0), (0.6, 5.0))
    warm_s: float = 20.0
    warm_batches: int = 2 * LEAST_BATCHES
    load: float = 5.0
    kill_s: float = 20.0
    backlog_s: float = 20.0
    batches: int = 10
    fast_start: bool = False

    @property
    def killed_at_s(self) -> float:
        """The second of the trace at which the query is killed, at the next batch."""
        return sum(span_s for _, span_s in self.lead) + self.kill_s

    def trace(self, rows_per_s: float) -> Rates:
        """Return the arrivals for a machine of this capacity; the burst outlasts the run."""
        loads, spans_s = zip(*self.lead, (self.load, self.kill_s + _LIMIT_S), strict=True)
        return Rates(tuple(load * rows_per_s for load in loads), spans_s)


FULL = RestartPlan()
QUICK = RestartPlan(
    target_s=2.0,
    lead=((0.5, 4.0), (0.2, 2.0), (0.8, 3.0)),
    warm_s=2.0,
    kill_s=6.0,
    backlog_s=8.0,
    batches=4,
    fast_start=True,
)


@dataclass(frozen=True, kw_only=True)
class RestartRecord:
    """What was seen: the finished batches before and after the kill, as noted, and what Spillway kept.

    ===================== ==============================================================================
    ``before``, ``after`` numbers, rows and times of the batches of each life
    ``history``           Spillway's own, of both lives
    ``killed``            the batch that was being worked on
    ``decisions_changed`` decisions written before the kill that were others afterwards
    ===================== ==============================================================================
    """

    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    history: list[dict[str, Any]]
    killed: int
    decisions_changed: int


@dataclass(frozen=True, kw_only=True)
class Restart:
    """What follows: costs before the kill, the batches after it, and whether decisions held."""

    plan: RestartPlan
    costs: Costs
    after: tuple[Timed, ...]
    within_target: float
    decisions_changed: int

    @property
    def metrics(self) -> dict[str, float]:
        """The suite's metrics by name."""
        return {
            "restart.kept_over_reference": kept_over_reference(self.after, self.costs, self.plan.target_s),
            "restart.within_target": self.within_target,
            "restart.decisions_changed": float(self.decisions_changed),
        }


def run(plan: RestartPlan, capacity: Capacity, *, tell: Tell) -> Restart:
    """Play the burst, kill the query in it, start it again, and judge what it then does."""
    saturated = [Timed(capacity.batch_rows, capacity.batch_rows, took_s) for took_s in capacity.spillway_s]
    return judge(plan, record(plan, capacity.rows_per_s, tell=tell), saturated)


def record(plan: RestartPlan, rows_per_s: float, *, tell: Tell) -> RestartRecord:
    """Play the burst, kill the query in it, and start it again."""
    with tempfile.TemporaryDirectory(prefix="spillway-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        log = folder / "query.log"
        first = QueryOrder(
            trace=plan.trace(rows_per_s),
            target_s=plan.target_s,
            checkpoint=str(folder / "checkpoint"),
            notes=str(folder / "before.jsonl"),
            history=str(folder / "history.json"),
            fast_start=plan.fast_start,
        )
        tell("playing the burst: to be killed")
        with _process(first, log) as process:
            killed = _wait(process, lambda: _batch_to_kill(first, plan), log)
        killed_s = time.time()
        decisions = _decisions(first)
        tell("starting again with a backlog")
        second = replace(
            first,
            notes=str(folder / "after.jsonl"),
            not_before_s=killed_s + plan.backlog_s,
            batches=plan.batches + 1,
        )
        with _process(second, log) as process:
            _wait(process, lambda: True if process.poll() == 0 else None, log)
        return RestartRecord(
            before=_notes(first),
            after=_notes(second),
            history=json.loads(Path(first.history).read_text(encoding="utf-8")),
            killed=killed,
            decisions_changed=decisions_changed(decisions, _decisions(second)),
        )


def judge(plan: RestartPlan, seen: RestartRecord, saturated: Sequence[Timed] = ()) -> Restart:
    """Return what follows from the batches' times before and after the kill and the rows that each kept.

    ``saturated`` are batches in which everything was kept, from when capacity was measured. They count for the costs,
    too: a shedder that keeps next to nothing before the kill leaves no sign of what a kept row costs, and must not
    make its own reference cheap by that.
    """
    runs = list(dict.fromkeys(entry["run"] for entry in seen.history))
    if len(runs) != 2:
        raise SpillwayError(
            f"the history is of {len(runs)} runs of the query: expected two, before and after."
        )
    warm = [note for note in seen.before if note["began_s"] >= plan.warm_s]
    fresh = [note for note in seen.after if note["number"] > seen.killed][: plan.batches]
    return Restart(
        plan=plan,
        costs=fit([*_timed(warm, seen.history, runs[0]), *saturated]),
        after=tuple(_timed(fresh, seen.history, runs[1])),
        within_target=within_target(fresh, seen.history, runs[1], plan.target_s),
        decisions_changed=seen.decisions_changed,
    )


def _timed(notes: list[dict[str, Any]], history: list[dict[str, Any]], run: str) -> list[Timed]:
    """Return rows, kept rows and time of batches; without those whose entry the kill has prevented."""
    kept = _kept(history, run)
    return [
        Timed(note["last_row"] - note["first_row"], kept[note["number"]], note["ended_s"] - note["began_s"])
        for note in notes
        if note["number"] in kept
    ]


def within_target(
    notes: list[dict[str, Any]], history: list[dict[str, Any]], run: str, target_s: float
) -> float:
    """Return the share in time of the kept rows of all batches but the first, which came between two cuts each.

    >>> first = {"number": 7, "began_s": 60.0, "ended_s": 63.0}
    >>> second = {"number": 8, "began_s": 63.0, "ended_s": 64.0}
    >>> history = [{"run": "b", "batch": number, "kept_rows": 290} for number in (7, 8)]
    >>> [round(within_target([first, second], history, "b", target_s), 2) for target_s in (3.0, 4.0)]
    [0.67, 1.0]
    """
    kept_rows = _kept(history, run)
    in_time = counted = 0.0
    for before, note in pairwise(notes):
        span_s = note["began_s"] - before["began_s"]
        if span_s > 0.0 and note["number"] in kept_rows:
            late_s = min(max(note["ended_s"] - target_s - before["began_s"], 0.0), span_s)
            in_time += kept_rows[note["number"]] * (1.0 - late_s / span_s)
            counted += kept_rows[note["number"]]
    return in_time / counted if counted else 1.0


def _kept(history: list[dict[str, Any]], run: str) -> dict[int, int]:
    return {entry["batch"]: entry["kept_rows"] for entry in history if entry["run"] == run}


def decisions_changed(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    """Return how many decisions are not what they were.

    >>> decisions_changed({"1.json": "a", "2.json": "b"}, {"1.json": "a", "2.json": "c", "3.json": "d"})
    1
    """
    return sum(after.get(name) != text for name, text in before.items())


def _batch_to_kill(order: QueryOrder, plan: RestartPlan) -> int | None:
    """Return the batch that is being worked on, once the time has come and its decision is written."""
    notes = _notes(order)
    warm = sum(note["began_s"] >= plan.warm_s for note in notes)
    if warm < plan.warm_batches or time.time() - notes[-1]["epoch_s"] < plan.killed_at_s:
        return None
    checkpoint = Path(order.checkpoint)
    newest = max((int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")), default=-1)
    begun = f"{newest}.json" in _decisions(order)
    return newest if begun and not (checkpoint / "commits" / str(newest)).exists() else None


def _decisions(order: QueryOrder) -> dict[str, str]:
    folder = Path(order.checkpoint) / "spillway" / "decisions"
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("[0-9]*.json")}


def _notes(order: QueryOrder) -> list[dict[str, Any]]:
    """Return the finished batches; a line that is still being written is left for later."""
    path = Path(order.notes)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def _process(order: QueryOrder, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a life of the query; at the end it is killed with everything that it started, if it still lives."""
    path = log.with_name("order.json")
    path.write_text(order.to_json(), encoding="utf-8")
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark.restart_query", str(path)],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "TMPDIR": str(log.parent),
            },  # what a killed process leaves goes with the folder
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # all of the group has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], look: Callable[[], Result | None], log: Path) -> Result:
    """Look again and again until there is something; raise where the process ends before or takes too long."""
    give_up = time.monotonic() + _LIMIT_S
    while True:
        ended = process.poll() is not None  # asked first: what it did last is then seen
        result = look()
        if result is not None:
            return result
        if ended:
            end = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise SpillwayError(f"the query has ended before its time, with {process.returncode}:\n{end}")
        if time.monotonic() > give_up:
            raise SpillwayError(f"the query has not come as far as it should in {_LIMIT_S:g} s.")
        time.sleep(POLL_S)
