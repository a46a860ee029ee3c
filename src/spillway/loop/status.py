"""The current status of a Spillway, as a value that can be printed."""

from __future__ import annotations

from dataclasses import dataclass

from spillway.core.control.values import Decision
from spillway.loop.history import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The latest sample and decision, with the reason in words.

    ``last`` is the newest finished batch of this process, None before the first. ``last_with_rows`` is the newest
    batch that had rows; it is printed as well. ``problems`` are the latest problems.
    """

    name: str
    mode: str
    running: bool
    decision: Decision
    last: Entry | None
    problems: tuple[str, ...]
    last_with_rows: Entry | None = None

    @property
    def reason(self) -> str:
        """The reason for the decision."""
        return self.decision.reason

    @property
    def keep_ratio(self) -> float:
        """The share of the last batch's rows that was let through."""
        if self.last is None or self.last.arrived_rows == 0:
            return 1.0
        return self.last.kept_rows / self.last.arrived_rows

    @property
    def work_ratio(self) -> float:
        """The share of the last batch's work (comparisons, steps of a pattern) that was done."""
        return 1.0 if self.last is None else _work_ratio(self.last)

    def __str__(self) -> str:
        lines = [f"Spillway {self.name!r} ({self.mode}), {'running' if self.running else 'no query running'}"]
        if self.last_with_rows is not None and self.last_with_rows is not self.last:
            lines += self._batch(self.last_with_rows)
        if self.last is not None:
            lines += self._batch(self.last)
        lines.append(f"  next: {self.reason}")
        lines += [f"  problem: {problem}" for problem in self.problems]
        return "\n".join(lines)

    def _batch(self, last: Entry) -> list[str]:
        delay = "" if last.worst_delay_s is None else f", worst delay {last.worst_delay_s:.2f} s"
        lines = [f"  batch {last.batch}: {self._rows(last)} in {last.busy_s:.2f} s{delay}"]
        if self.mode == "observe" and not (last.work_demanded and not last.would_drop_rows):
            lines.append(f"  enforcing would have dropped {last.would_drop_rows:,} of them")
        if last.bounded_rows:
            lines.append(
                f"  its size was not known before it ran, so it was bounded: {last.bounded_rows:,} rows "
                f"{'would have been' if self.mode == 'observe' else 'were'} dropped by their place in their tasks"
            )
        if last.work_demanded:
            lines.append(self._work(last))
        return lines

    def _rows(self, last: Entry) -> str:
        """Return how many rows were kept, in words; joins and patterns take in all rows."""
        if last.work_demanded and last.kept_rows == last.arrived_rows:
            return f"took in {last.arrived_rows:,} rows"
        return f"kept {last.kept_rows:,} of {last.arrived_rows:,} rows"

    def _work(self, last: Entry) -> str:
        """Return in words what joins and patterns did. Units are comparisons and probes, or steps of a pattern."""
        patterns = bool(last.matches or last.shed_runs or last.runs)
        about = "about " if patterns else ""
        done = f"{last.work_spent:,.0f} of {about}{last.work_demanded:,.0f}"
        spent = f"  did {done} units of work" if patterns else f"  compared {done}"
        counts = [(last.matches, "matches")] * patterns + [(last.pairs, "pairs")] * (
            bool(last.pairs) or not patterns
        )
        found = " and ".join(f"{n:,} {what}" for n, what in counts)
        left_out = [
            f"{n:,} {what}"
            for n, what in (
                (last.late_rows, "late"),
                (last.unmatched_rows, "that could be in no result"),
                (last.sampled_out_rows, "dropped for lack of time"),
                (last.shed_runs, "partial matches"),
            )
            if n
        ]
        rest = f"; left out: {', '.join(left_out)}" if left_out else ""
        would = ""
        if self.mode == "observe" and last.work_budget is not None and last.work_budget < last.work_demanded:
            would = f"; enforcing would have done {last.work_budget:,.0f}"
        return f"{spent} ({_work_ratio(last):.0%}), {found}{would}{rest}"


def _work_ratio(batch: Entry) -> float:
    return 1.0 if batch.work_demanded == 0 else batch.work_spent / batch.work_demanded
