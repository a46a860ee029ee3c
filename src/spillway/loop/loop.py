"""The feedback loop: takes in the report of each finished batch and publishes a decision for the next batches.

::

    progress event -> BatchReport -> Sample -> controller.step -> Decision -> latest.json
                        reports.py    batch_sample.py  core/control            read by control_row.py

The listener that delivers the reports is asynchronous, so a decision takes effect one to three batches later. The
size of a batch cannot wait that long, so it is taken into account when the batch runs (decision.py). Everything
here runs on the driver, once per batch. An error in it is noted in the status and never reaches the query.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spillway.core.control import (
    Controller,
    CostModel,
    CostModelConfig,
    Decision,
    Sample,
    UnitCost,
    UnitCostConfig,
)
from spillway.core.control.cost_model import cost_fields
from spillway.errors import SpillwayError
from spillway.loop.batch_sample import BatchClock, sample_of
from spillway.loop.checkpoint_store import KEPT_DECISIONS, RATIONS, Folder
from spillway.loop.decision import BatchDecision, Published, Stage
from spillway.loop.history import Entry, History
from spillway.loop.kinds.groups import GroupSpec
from spillway.loop.kinds.windows import WindowSpec
from spillway.loop.reports import BatchReport, WorkReport
from spillway.loop.stage_updates import learn, quick_to_rise

_CLOCK_S = 1.0  # a difference between the clocks of two machines that is no reason for a warning


@dataclass(frozen=True, slots=True)
class Known:
    """The saved states that survive a restart, beside the published decision."""

    controller: dict[str, Any] | None = None
    cost_model: dict[str, Any] | None = None
    unit_cost: dict[str, Any] | None = None


class Loop:
    """Turns reports into published decisions.

    ``make_controller`` builds the controller from a saved state, or a new one if there is none. A state that does
    not fit (another controller, another version) is ignored and noted in the status. ``finished`` has a file for
    each finished batch: it is Spark's commit log or, where the commit log is not known, the folder of decisions.
    """

    def __init__(
        self,
        name: str,
        make_controller: Callable[[dict[str, Any] | None], Controller],
        folder: Folder,
        *,
        mode: str,
        finished: Folder,
    ) -> None:
        self._lock = threading.RLock()
        self._taken = threading.Condition(self._lock)
        self._folder = folder
        self._mode = mode
        self._problems: deque[str] = deque(maxlen=20)
        self._make_controller = make_controller
        self._stages: list[Stage] = []
        self._run: str | None = None
        self._finished = finished
        self._last_batch = self._newest()
        self._ended = False
        self._query: str | None = None
        self._useless = True  # no row that joins and patterns have seen so far could be in a result
        self._clock = BatchClock()
        self.history = History(folder, self.note)
        self._seed = zlib.crc32(name.encode())
        published, known = self._restore()
        self._restored = published.stages  # what each stage knew at the end of the run before, by its number
        self._controller = self._build(known.controller)
        self._costs = self._build_costs(known.cost_model)
        self._unit = self._build_unit(known.unit_cost)
        self._published = replace(published, seed=self._seed, enforce=mode == "enforce")
        self._cold_start()
        self._prune()

    # Called by the facade

    def add_stage(
        self,
        floor: float = 0.0,
        *,
        chained: bool = False,
        window: WindowSpec | None = None,
        groups: GroupSpec | None = None,
        works: bool = False,
    ) -> int:
        """Add a stage, a place in the plan where rows are shed, and return its number.

        A ``chained`` stage follows directly after the last one. A stage that ``works`` sheds work instead of rows: it
        gets a budget of work.
        """
        with self._lock:
            number = len(self._stages)
            known = self._restored[number] if number < len(self._restored) else Stage()
            if groups is not None and (known.groups is None or known.groups.of != groups.of):
                known = replace(known, census=None)  # the saved census counted other groups
            chained = chained and number > 0
            known = replace(known, floor=floor, chained=chained, window=window, groups=groups, works=works)
            self._stages.append(known)
            self._published = replace(self._published, stages=tuple(self._stages))
            if works:
                self._begin_work()
            self._publish(self._published)
            return number

    @property
    def published(self) -> Published:
        """The published value from which the decision of the next batch is made."""
        with self._lock:
            return self._published

    @property
    def problems(self) -> list[str]:
        """The latest problems, oldest first."""
        with self._lock:
            return list(self._problems)

    @property
    def query(self) -> str | None:
        """The id of the query that sent the last report."""
        with self._lock:
            return self._query

    def note(self, problem: str) -> None:
        """Remember a problem for the status. A problem that repeats the last one is not added again."""
        with self._lock:
            if not self._problems or self._problems[-1] != problem:
                self._problems.append(problem)

    def retarget(self, target_delay_s: float) -> None:
        """Change the target while the query runs."""
        with self._lock:
            self._controller.retarget(target_delay_s)
            decision = self._controller.step(self._nothing())
            self._publish(replace(self._published, decision=decision))

    def _begin_work(self) -> None:
        """Ask the controller for a work budget before the first batch, so that the first batch has one, too."""
        self._published = replace(self._published, unit_s=self._unit.unit_s)
        decision = self._decision_after(self._nothing(), batch=0)
        self._published = replace(self._published, decision=decision)

    # Called by the listener

    def ended(self, run: str) -> None:
        """Take note that a run has ended."""
        with self._lock:
            if self._run == run:
                self._run = None
                self._ended = True
                self._begin_run()
                self._publish(
                    replace(self._published, decision=self._decision_after(self._nothing(), batch=0))
                )
                self._taken.notify_all()

    def take(self, report: BatchReport) -> None:
        """Take in a finished batch; never raises."""
        with self._lock:
            try:
                self._take(report)
            except Exception as error:  # the query must not suffer from its observer
                self.note(f"batch {report.batch} was not taken in: {error!r}")
            self._last_batch = report.batch
            self._ended = False
            self._taken.notify_all()

    def wait_for_the_rest(self, limit_s: float) -> None:
        """Wait until all finished batches have been taken in, after their query has ended."""
        newest = self._newest()
        with self._lock:
            self._taken.wait_for(lambda: self._ended or self._last_batch >= newest, limit_s)
            self._last_batch = max(
                self._last_batch, newest
            )  # a report that has not come by now is not waited for again

    def wait_for(self, batch: int, limit_s: float) -> bool:
        """Wait until a batch has been taken in; return whether it was, within the limit."""
        with self._lock:
            return self._taken.wait_for(lambda: self._last_batch >= batch, limit_s)

    def _newest(self) -> int:
        try:
            return max((int(name.split(".")[0]) for name in self._finished.names("")), default=-1)
        except (OSError, ValueError):
            return -1

    def _take(self, report: BatchReport) -> None:
        report = replace(
            report,
            chained=tuple(stage.chained for stage in self._stages),
            working=tuple(stage.works for stage in self._stages),
        )
        self._query = report.query
        self._run = report.run
        for stage in report.stages:
            if stage.note:
                self.note(f"batch {report.batch}: {stage.note}")
        kept = report.arrived if self._mode == "observe" else report.kept
        work = report.work or WorkReport()
        work_s = min(work.wall_s, report.busy_s)
        costs = self._costs.update(
            arrived_rows=report.arrived,
            kept_rows=kept,
            busy_s=report.busy_s - work_s,
            overhead_s=report.overhead_s,
        )
        unit_s = self._unit.update(units=work.spent, work_s=work_s) if any(report.working) else None
        wait = self._clock.next(report)
        rate = wait.rate(report.arrived)
        sample = replace(sample_of(report, kept, costs, wait), unit_s=unit_s, work_s=work_s)
        decision = self._decision_after(sample, report.batch)
        told = self._told(report)
        self._look_for_trouble(report, sample, told)
        self._stages = learn(self._stages, report, told, self.note)
        self._publish(
            Published(
                decision=decision,
                seed=self._seed,
                cost_s=sample.cost_s,
                fixed_s=sample.fixed_s,
                unit_s=unit_s,
                rows_per_s=quick_to_rise(self._published.rows_per_s, rate),
                cut_s=report.started_s,
                ended_s=report.ended_s,
                began_s=self._published.began_s,
                stages=tuple(self._stages),
                after_batch=report.batch,
                enforce=self._mode == "enforce",
            )
        )
        before = (
            self.history.before(report.batch) if any(report.working) and not report.all_shards_told else None
        )
        self.history.add(Entry.of(report, sample, told, decision, before))
        self._folder_housekeeping(report.batch)

    def _decision_after(self, sample: Sample, batch: int) -> Decision:
        """Ask the controller for a decision. If it fails, its last decision stays in force and the batch counts."""
        try:
            decision: Any = self._controller.step(sample)
            if isinstance(decision, Decision):
                return decision
            problem = f"step() gave {decision!r} instead of a Decision"
        except Exception as error:  # a controller may be the user's own code
            problem = repr(error)
        self.note(
            f"the controller failed, its last decision stays in force (first in batch {batch}): {problem}"
        )
        return self._published.decision

    def _look_for_trouble(self, report: BatchReport, sample: Sample, told: BatchDecision | None) -> None:
        """Note the problems that the user should know about."""
        if sample.worst_delay_s is not None and sample.worst_delay_s < -_CLOCK_S:
            self.note("rows arrive in the future: the clock behind the arrival column is ahead of this one")
        if report.arrived and report.arrived == sum(stage.arrival_missing for stage in report.stages):
            self.note("the arrival column is null in all rows, so delays are not measured")
        chosen = getattr(self._controller, "kind", None)
        if any(report.working) and self._published.decision.work_budget is None and chosen != "none":
            self.note("this controller sets no work budget, so everything is compared")
        if report.work is not None and report.arrived:
            self._useless = self._useless and report.work.unmatched == sum(
                stage.arrived for stage in report.stages if stage.work is not None
            )
            if self._useless:
                self.note(
                    "so far no row could be in a result: look at the columns with the time, the type and the key, "
                    "and at how the types are written"
                )
        limit = None if told is None else told.limit_rows
        if limit is not None and sample.protected_rows > limit:
            self.note("more rows may never be dropped than fit into the target, so it is missed")

    def _told(self, report: BatchReport) -> BatchDecision | None:
        try:
            text = self._folder.read(f"decisions/{report.batch}.json")
            return None if text is None else BatchDecision.from_json(text)
        except (OSError, SpillwayError, UnicodeDecodeError) as error:
            self.note(f"the decision of batch {report.batch} cannot be read: {error}")
            return None

    # The files in the checkpoint

    def _publish(self, published: Published) -> None:
        self._published = published
        state = {
            "published": published.to_dict(),
            "controller": self._controller.snapshot(),
            "cost_model": self._costs.snapshot(),
            "unit_cost": self._unit.snapshot(),
        }
        try:
            self._folder.write("latest.json", json.dumps(state, allow_nan=False, separators=(",", ":")))
        except (OSError, ValueError, TypeError) as error:
            self.note(f"the decision could not be published, an older one stays in force: {error}")

    def _restore(self) -> tuple[Published, Known]:
        try:
            text = self._folder.read("latest.json")
            if text is None:
                return Published(), Known()
            found = json.loads(text)
            known = Known(found.get("controller"), found.get("cost_model"), found.get("unit_cost"))
            return Published.from_dict(found["published"]), known
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.note(f"what was learned before this start cannot be read and is learned anew: {error}")
            return Published(), Known()

    def _build(self, state: dict[str, Any] | None) -> Controller:
        try:
            return self._make_controller(state)
        except SpillwayError as error:
            if state is None:
                raise
            self.note(f"the controller starts afresh: {error}")
            return self._make_controller(None)

    def _build_costs(self, state: dict[str, Any] | None) -> CostModel:
        try:
            return CostModelConfig().build(state)
        except SpillwayError as error:
            self.note(f"the cost of a row is learned anew: {error}")
            return CostModelConfig().build()

    def _build_unit(self, state: dict[str, Any] | None) -> UnitCost:
        try:
            return UnitCostConfig().build(state)
        except SpillwayError as error:
            self.note(f"the cost of a unit of work is learned anew: {error}")
            return UnitCostConfig().build()

    def _begin_run(self) -> None:
        """Begin a run with a cold JVM, which is slower in everything. The time before it is no wait for a trigger."""
        costs = self._costs.begin_run()
        self._unit.begin_run()
        self._published = replace(self._published, ended_s=None, began_s=time.time())
        if costs is not None:
            self._published = replace(self._published, cost_s=costs.cost_s, fixed_s=costs.fixed_s)

    def _nothing(self) -> Sample:
        """Return a sample of an empty period, to ask the controller for a decision between batches."""
        return Sample(
            at_s=self._clock.ended_s or 0.0,
            period_s=0.0,
            arrived_rows=0,
            kept_rows=0,
            **cost_fields(self._costs.costs),
            unit_s=self._published.unit_s,
        )

    def _cold_start(self) -> None:
        """Make a decision before the first batch, so that the first batch is controlled, too."""
        self._begin_run()
        try:
            decision: Any = self._controller.step(self._nothing())
        except SpillwayError:
            raise
        except Exception as error:
            raise SpillwayError(
                f"the controller failed before the first batch: {error!r}.",
                hint="step(sample) is called once before there are rows, with arrived_rows = 0 and cost_s = None",
            ) from error
        if not isinstance(decision, Decision):
            raise SpillwayError(
                f"the controller's step() gave {decision!r}.",
                hint="return a spillway.core.control.Decision, as Decision(keep_ratio=0.5)",
            )
        self._published = replace(self._published, decision=decision)

    def _prune(self) -> None:
        """Remove old decisions, also those whose batches were never reported."""
        try:
            for folder in ("decisions", RATIONS):
                names = {
                    name: int(name.split(".")[0]) for name in self._folder.names(folder) if name[0].isdigit()
                }
                for name, number in names.items():
                    if number <= max(names.values()) - KEPT_DECISIONS:
                        self._folder.remove(f"{folder}/{name}")
        except (OSError, ValueError) as error:
            self.note(f"old decisions could not be removed: {error}")

    def _folder_housekeeping(self, batch: int) -> None:
        old = batch - KEPT_DECISIONS
        if old < 0:
            return
        try:
            self._folder.remove(f"decisions/{old}.json")
            for stage in range(len(self._stages)):
                self._folder.remove(f"{RATIONS}/{old}.{stage}.json")
        except OSError as error:
            self.note(f"an old decision could not be removed: {error}")
