"""Computes the keep probabilities of groups in a batch, given the share of the rows that may be kept.

A census counts the rows of its stage. Where several stages share the query's rows, each stage has the part of the
rows that its census has of all censuses. No group should be missing in a window, so the rows to divide among the
groups are those of one window:

    window length x rows per second of event time    where the time column is known, also if a batch spans several
    window length x arrival rate                     otherwise, and no less than the rows of the batch
    rows of the batch                                where the window length is not known
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from spillway.core.groups.accuracy import Accuracy
from spillway.core.groups.census import Census, Ration, ration
from spillway.core.groups.join_census import ration_join
from spillway.core.groups.rates import Rule

_MOST_BATCHES = 1_000  # the most batches that a window is assumed to span


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """How the kept rows are divided among groups, and the time in which no group should be missing (None: a batch).

    Two stages with the same ``join`` are the inputs of an equality join. With an ``accuracy`` no group gets more
    rows than its mean needs. ``of`` names the columns of the group: a census of other columns cannot be used.
    """

    rule: Rule
    at_least: int
    window_s: float | None = None
    join: str | None = None
    accuracy: Accuracy | None = None
    of: str = ""

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read back the output of ``asdict``."""
        accuracy = found.get("accuracy")
        return cls(**{**found, "accuracy": None if accuracy is None else Accuracy(**accuracy)})


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a stage was asked for, the census of its groups, and the share of its rows that it may keep."""

    spec: GroupSpec | None
    census: Census
    keep_ratio: float
    rows_per_event_s: float | None = None


def decide_groups(
    stages: Sequence[Sharing], *, rows: float | None, rows_per_s: float | None
) -> tuple[Ration | None, ...]:
    """Return the keep probabilities of each stage's groups, None for stages without groups."""
    counted = sum(stage.census.rows for stage in stages)
    found: list[Ration | None] = []
    for number, stage in enumerate(stages):
        spec = stage.spec
        if spec is None:
            found.append(None)
            continue

        def of(stage: Sharing, window_s: float | None = spec.window_s) -> float:
            part = stage.census.rows / counted if counted else 1.0
            expected = stage.census.rows if rows is None else rows * part
            if window_s is None:
                return expected
            if stage.rows_per_event_s is not None:
                return min(window_s * stage.rows_per_event_s, _MOST_BATCHES * expected)
            return max(expected, 0.0 if rows_per_s is None else window_s * rows_per_s * part)

        other = _joined_with(stages, number)
        if other is None:
            made = ration(
                stage.census,
                keep_ratio=stage.keep_ratio,
                rows=of(stage),
                rule=spec.rule,
                at_least=spec.at_least,
                accuracy=spec.accuracy,
            )
        else:
            partner = stages[other]
            made = ration_join(
                stage.census,
                partner.census,
                keep_ratio=stage.keep_ratio,
                rows=of(stage),
                other_rows=of(partner),
                first=number < other,
            )
        found.append(made)
    return tuple(found)


def _joined_with(stages: Sequence[Sharing], number: int) -> int | None:
    """Return the number of the stage at the other input of a stage's join."""
    joins = [None if stage.spec is None else stage.spec.join for stage in stages]
    if joins[number] is None:
        return None
    return next(
        (other for other, join in enumerate(joins) if other != number and join == joins[number]), None
    )
