"""What a Spillway is doing right now, as a value that prints well."""

from __future__ import annotations

from dataclasses import dataclass

from spillway.core.control.values import Decision
from spillway.spark.history import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The latest sample and decision, with the reason in words.

    ``last`` is the newest finished batch of this process, None before the first; ``problems`` says what went
    wrong lately.
    """

    name: str
    mode: str
    running: bool
    decision: Decision
    last: Entry | None
    problems: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why the decision is as it is."""
        return self.decision.reason

    @property
    def keep_ratio(self) -> float:
        """The share of the last batch's rows that was let through."""
        if self.last is None or self.last.arrived_rows == 0:
            return 1.0
        return self.last.kept_rows / self.last.arrived_rows

    @property
    def work_ratio(self) -> float:
        """The share of the last batch's comparisons that were made."""
        if self.last is None or self.last.work_demanded == 0:
            return 1.0
        return self.last.work_spent / self.last.work_demanded

    def __str__(self) -> str:
        lines = [f"Spillway {self.name!r} ({self.mode}), {'running' if self.running else 'no query running'}"]
        if self.last is not None:
            last = self.last
            delay = "" if last.worst_delay_s is None else f", worst delay {last.worst_delay_s:.2f} s"
            lines.append(
                f"  batch {last.batch}: kept {last.kept_rows:,} of {last.arrived_rows:,} rows"
                f" in {last.busy_s:.2f} s{delay}"
            )
            if self.mode == "observe":
                lines.append(f"  enforcing would have dropped {last.would_drop_rows:,} of them")
            if last.work_demanded:
                lines.append(self._work(last))
        lines.append(f"  next: {self.reason}")
        lines += [f"  problem: {problem}" for problem in self.problems]
        return "\n".join(lines)

    def _work(self, last: Entry) -> str:
        spent = f"  compared {last.work_spent:,.0f} of {last.work_demanded:,.0f} ({self.work_ratio:.0%})"
        left_out = [
            f"{rows:,} {what}"
            for rows, what in (
                (last.late_rows, "late"),
                (last.unmatched_rows, "without a value"),
                (last.sampled_out_rows, "dropped at random"),
            )
            if rows
        ]
        rest = f"; left out: {', '.join(left_out)}" if left_out else ""
        would = ""
        if self.mode == "observe" and last.work_budget is not None and last.work_budget < last.work_demanded:
            would = f"; enforcing would have compared {last.work_budget:,.0f}"
        return f"{spent}, {last.pairs:,} pairs{would}{rest}"
