"""Methods side by side on one stream: the errors of every window and salt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from benchmarks.groups.errors import relative_errors
from benchmarks.groups.methods import Answer, Cod, capacities, keep_oasrs, keep_uniform, with_lone_rows
from benchmarks.groups.windows import Stream, Window
from spillway.core.arrays import Floats
from spillway.core.groups import Rule


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one method made of a stream: one error, and one number of missing groups, per window and salt."""

    errors: list[float] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)
    kept_rows: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, window: Window, kept: pa.Table) -> None:
        """Take in the answer from the rows that were kept of a window."""
        self.weigh(window, [(1.0, kept)])

    def weigh(self, window: Window, answers: Sequence[tuple[float, pa.Table]]) -> None:
        """Take in several answers for one window, each with its share."""
        estimates = [(share, kept, estimated(window, kept)) for share, kept in answers]
        self.errors.append(sum(share * _error(window, found) for share, _, found in estimates))
        self.missing.append(sum(share * int(np.isnan(found).sum()) for share, _, found in estimates))
        self.kept_rows.append(sum(share * kept.num_rows for share, kept, _ in estimates))
        self.rows.append(window.rows)

    @property
    def error(self) -> float:
        """The mean error over windows and salts."""
        return float(np.mean(self.errors))

    @property
    def error_p95(self) -> float:
        """The error that 95 % of the windows do not exceed."""
        return float(np.quantile(self.errors, 0.95))

    @property
    def missing_groups(self) -> float:
        """The mean number of groups of a window that have no row."""
        return float(np.mean(self.missing))

    @property
    def kept_share(self) -> float:
        """The share of all rows that was processed."""
        return float(sum(self.kept_rows) / sum(self.rows))

    def numbers(self) -> dict[str, float]:
        """Return what is reported of it."""
        return {
            "error": self.error,
            "error_p95": self.error_p95,
            "missing_groups": self.missing_groups,
            "processed": self.kept_share,
        }


def estimated(window: Window, kept: pa.Table) -> Floats:
    """Return the mean of each group from a weighted sample, NaN where the group is missing."""
    return window.means(kept, np.asarray(kept["weight"].to_numpy()))


@dataclass(frozen=True, eq=False)
class Coverage:
    """How many intervals of groups contain the truth: all of them, and those of groups that lost rows."""

    inside: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def add(self, window: Window, answer: Answer) -> None:
        """Take in the intervals of a window."""
        inside, lost = answer.covered(window)
        self.inside.extend(inside)
        self.lost.extend(lost)

    @property
    def share(self) -> float:
        """The share over all groups; one that was kept whole has an interval without width."""
        return float(np.mean(self.inside))

    @property
    def share_sampled(self) -> float | None:
        """The share over groups that lost rows, None where none did."""
        lost = np.array(self.lost) > 0.0
        return float(np.mean(np.array(self.inside)[lost])) if lost.any() else None

    def numbers(self) -> dict[str, float | None]:
        """Return what is reported of it."""
        return {
            "all_groups": self.share,
            "groups_that_lost_rows": self.share_sampled,
            "share_of_groups_that_lost_rows": float(np.mean(self.lost)),
        }


@dataclass(frozen=True, eq=False)
class SideBySide:
    """The methods at the same number of processed rows, and the intervals of cod."""

    uniform: Outcome = field(default_factory=Outcome)
    oasrs: Outcome = field(default_factory=Outcome)
    cod: Outcome = field(default_factory=Outcome)
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcomes by method."""
        return {"uniform": self.uniform, "oasrs": self.oasrs, "cod": self.cod}


def shedders(
    stream: Stream, *, keep_ratio: float, salts: Sequence[int], rule: Rule = "variance"
) -> Iterator[tuple[Window, Cod]]:
    """Give every window of a stream, with every salt, and the shedder that has seen those before it in its span."""
    for salt in salts:
        for span in stream.spans:
            cod = Cod(keep_ratio=keep_ratio, rule=rule, salt=salt)
            for window in span:
                yield window, cod


def by_rule(stream: Stream, *, keep_ratio: float, salts: Sequence[int], rule: Rule) -> Outcome:
    """Return what concept-driven shedding by one rule makes of a stream."""
    found = Outcome()
    for window, cod in shedders(stream, keep_ratio=keep_ratio, salts=salts, rule=rule):
        found.add(window, cod.keep(window))
    return found


def uniform_at(stream: Stream, *, share: float, salts: Sequence[int]) -> Outcome:
    """Return what uniform shedding makes of a stream."""
    found = Outcome()
    for salt in salts:
        for window in stream.windows:
            found.add(window, keep_uniform(window, round(share * window.rows), salt))
    return found


def side_by_side(stream: Stream, *, keep_ratio: float, salts: Sequence[int]) -> SideBySide:
    """Return all methods at the same number of processed rows, cod with its default rule."""
    found = SideBySide()
    for window, cod in shedders(stream, keep_ratio=keep_ratio, salts=salts):
        answer, salt = cod.answer(window), cod.salt
        rows = answer.kept.num_rows
        found.cod.add(window, answer.kept)
        found.coverage.add(window, answer)
        found.uniform.add(window, keep_uniform(window, rows, salt))
        held = [(share, keep_oasrs(window, k, salt)) for k, share in capacities(window.sizes, rows).items()]
        found.oasrs.weigh(
            window, [(share, with_lone_rows(table, answer.kept, window)) for share, table in held]
        )
    return found


def _error(window: Window, estimate: Floats) -> float:
    return float(relative_errors(window.truth, estimate).mean())
