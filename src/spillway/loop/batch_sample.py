"""Turns the report of a finished batch into a sample for the controller: one control period.

The sample includes how long the rows of the batch waited before it was cut.
"""

from __future__ import annotations

from dataclasses import dataclass

from spillway.core.control import Costs, Sample
from spillway.core.control.cost_model import cost_fields
from spillway.loop.reports import BatchReport

_CAPPED = 0.05  # of a batch's offsets: if more is left at the source, rows wait because of a limit there


@dataclass
class BatchClock:
    """When the last batch of a run was cut and when it ended; None before the first one."""

    run: str | None = None
    cut_s: float | None = None
    ended_s: float | None = None

    def next(self, report: BatchReport) -> Wait:
        """Return how long the rows of a batch waited, and remember its times. The time between runs is no wait."""
        if report.run != self.run:
            self.run, self.cut_s, self.ended_s = report.run, None, None
        cut_s, ended_s = self.cut_s, self.ended_s
        self.cut_s, self.ended_s = report.started_s, report.ended_s
        if cut_s is None or ended_s is None or report.started_s <= cut_s:
            return Wait()
        return Wait(report.started_s - cut_s, max(report.started_s - ended_s, 0.0))


@dataclass(frozen=True, slots=True)
class Wait:
    """The time from the cut of the batch before to the cut of a batch, and how much of it the query was idle."""

    waited_s: float | None = None
    idle_s: float = 0.0

    def rate(self, rows: int) -> float | None:
        """Return the rows per second that arrived. The rows of a batch arrive between the last cut and its own cut.

        >>> Wait(waited_s=2.0).rate(100), Wait().rate(100)
        (50.0, None)
        """
        return None if self.waited_s is None else rows / self.waited_s


def sample_of(report: BatchReport, kept: int, costs: Costs | None, wait: Wait) -> Sample:
    """Return the sample of a batch for the controller.

    The period is the time from cut to cut, so that rows divided by its length is the arrival rate. The backlog at its
    end consists of the rows that the source still had when the batch was cut, and of the rows that have arrived
    since then. Of these later rows only the share counts that will be let in if nothing changes.
    """
    end = report.ended_s
    share = kept / report.arrived if report.arrived else 1.0
    since = (wait.rate(report.arrived) or 0.0) * report.busy_s * share
    firsts = [s.first_arrival_s for s in report.stages if s.first_arrival_s is not None]
    means = [(s.mean_arrival_s, s.kept) for s in report.stages if s.mean_arrival_s is not None]
    weight = sum(rows for _, rows in means)
    per_unit = report.arrived / report.units if report.units else 1.0
    capped = (report.backlog_units or 0.0) > _CAPPED * (report.units or 0.0)
    return Sample(
        at_s=end,
        period_s=report.busy_s if wait.waited_s is None else wait.waited_s,
        arrived_rows=report.arrived,
        kept_rows=kept,
        backlog_rows=(report.backlog_units or 0.0) * per_unit + since,
        **cost_fields(costs),
        busy_s=report.busy_s,
        finished_rows=kept,
        delay_s=end - sum(at * rows for at, rows in means) / weight if weight else None,
        worst_delay_s=end - min(firsts) if firsts else None,
        protected_rows=sum(stage.protected for stage in report.stages),
        waited_s=None if capped else wait.waited_s,
        idle_s=wait.idle_s,
    )
