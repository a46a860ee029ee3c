"""Makes the decision for one batch from the loop's latest decision and the size of the batch.

The loop publishes a :class:`Published` value after each finished batch. The task of the control row turns it into a
:class:`BatchDecision` for the batch it belongs to. This is a pure function of the published value and the
offset log. The result is stored before it is used, so a replay of the batch gets the same decision.

    n      rows that reach the shedder: units of this batch (offsets.py) x rows per unit (rows_per_unit.py). Where the
           units cannot be counted: rate x busy part of the wait (w - i, and at least one trigger interval). The idle
           part is left out, since its length does not tell how many rows come. Unknown where i is unknown, as after
           a restart
    w      how long the oldest row has waited already: the time from the cut of the batch before to the cut of this
           batch. Without an offset log: the time since the last reported cut, divided by the batches since then
    i      how much of w the query was idle, for example because of a trigger interval: the time since the end of the
           batch before. Unknown where that end was not recorded in this run
    u      the rows of the batch before and the rows it was to keep, where its report has not come yet: w shows how
           long that batch took. Unknown where a stage has a work budget, and for a batch cut in an earlier run
    L      Decision.limit_for(w, i, u): the controller's limit, lower after a long batch, higher after a short one
    keep   Decision.keep_ratio_for(n, w, i, u). In a chain of k stages each stage keeps the k-th root of it, so that
           this share remains after the last stage
    B      max(L / keep, n), where the units are unknown: some of the rows beyond B are dropped by their position in
           their task, so that at most 2 L rows get in (position_bound.py)
    W      Decision.work_budget_for(rows kept), and at most what still fits: (target delay - w - fixed) / seconds per
           unit of work, but never under W / 4. Stages that share W get parts in proportion to their latest demands
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from spillway.core.control.values import Decision
from spillway.core.groups.census import Census, Ration
from spillway.core.random import mix
from spillway.core.tuples.cut import Cut, Ranks, cut_for
from spillway.errors import SpillwayError
from spillway.loop.expected_rows import bound_of, expected_rows, gathered_s, idle_s_of
from spillway.loop.kinds.groups import GroupSpec, Sharing, decide_groups
from spillway.loop.kinds.windows import WindowDecision, WindowSpec, decide_windows
from spillway.loop.offsets import OFFSETS, BatchSize
from spillway.loop.rows_per_unit import RowsPerUnit

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the loop knows about one stage: a place in the plan where rows are shed.

    A ``chained`` stage gets the rows that the stage before it has let through. A stage that ``works`` has a budget
    of work and drops no rows; ``demanded`` is the work that all of its latest rows would have taken. While
    ``uniform_batches`` is above 0, the ranks of the last batch are not used for the next one, and rows are dropped
    regardless of their utility. ``rows_per_unit`` is the middle of the range that is believed possible,
    ``rows_per_unit_spread`` is the factor from the middle to either end, and ``measured_in`` says what a unit is.
    ``tasks`` is how many tasks have had rows of the stage lately, where that was measured.
    """

    rows_per_unit: float | None = None
    rows_per_unit_spread: float = 1.0
    measured_in: str = OFFSETS
    protected_share: float = 0.0
    floor: float = 0.0
    quantiles: tuple[float, ...] | None = None
    chained: bool = False
    window: WindowSpec | None = None
    latest_us: int | None = None
    groups: GroupSpec | None = None
    census: Census | None = None
    rows_per_event_s: float | None = None
    uniform_batches: int = 0
    distrust: int = 0
    works: bool = False
    demanded: float | None = None
    tasks: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether rows are dropped by their position in a batch of unknown size."""
        joined = self.groups is not None and self.groups.join is not None
        return not (self.works or self.window is not None or joined)

    @property
    def range_per_unit(self) -> RowsPerUnit | None:
        """The range of rows per unit that is believed possible, None before any batch."""
        if self.rows_per_unit is None:
            return None
        return RowsPerUnit.around(self.rows_per_unit, self.rows_per_unit_spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What the loop has learned and decided after a finished batch. The run began at ``began_s`` or later."""

    decision: Decision = field(default_factory=Decision)
    seed: int = 0
    cost_s: float | None = None
    fixed_s: float = 0.0
    unit_s: float | None = None
    rows_per_s: float | None = None
    cut_s: float | None = None
    ended_s: float | None = None
    began_s: float | None = None
    stages: tuple[Stage, ...] = (Stage(),)
    after_batch: int | None = None
    enforce: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form; quantiles are text because they may be infinite."""
        found = asdict(self)
        for stage in found["stages"]:
            if stage["quantiles"] is not None:
                stage["quantiles"] = [repr(value) for value in stage["quantiles"]]
        return found

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read back the form of :meth:`to_dict`. Unknown fields are left out, missing ones get their defaults."""
        try:
            stages = []
            for stage in found["stages"]:
                quantiles, window = stage.pop("quantiles", None), stage.pop("window", None)
                groups, census = stage.pop("groups", None), stage.pop("census", None)
                known = Stage(
                    **_fields_of(Stage, stage),
                    window=None if window is None else _window_spec(window),
                    groups=None if groups is None else GroupSpec.from_dict(groups),
                    census=None if census is None else Census.from_dict(census),
                )
                if quantiles is not None:
                    known = replace(known, quantiles=tuple(float(value) for value in quantiles))
                stages.append(known)
            decision = Decision(**_fields_of(Decision, found["decision"]))
            rest = {key: value for key, value in found.items() if key not in ("stages", "decision")}
            return cls(decision=decision, stages=tuple(stages), **_fields_of(cls, rest))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SpillwayError(f"the published decision cannot be read: {error!r}.") from error


def _fields_of(kind: type[Stage | Published | Decision], record: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in record.items() if name in names}


def _window_spec(found: dict[str, Any]) -> WindowSpec:
    return WindowSpec(**{**found, "shares_left": tuple(found["shares_left"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDecision:
    """The decision that batch ``batch`` runs with. It cannot be changed later.

    Where the size of the batch was not known, rows are dropped by their position in their task once ``bound_rows``
    have come, under the assumption that ``tasks`` tasks get equal parts of them.
    """

    batch: int
    keep_ratio: float
    salt: int
    cuts: tuple[Cut, ...]
    expected_rows: float | None = None
    rows_known: bool = False
    units: float | None = None
    measured_in: str = OFFSETS
    waited_s: float | None = None
    cut_s: float | None = None
    limit_rows: float | None = None
    bound_rows: float | None = None
    tasks: float = 1.0
    after_batch: int | None = None
    windows: tuple[WindowDecision | None, ...] = ()
    rations: tuple[Ration | None, ...] = ()
    work_budgets: tuple[float | None, ...] = ()

    def work_budget_of(self, stage: int) -> float | None:
        """Return how many units of work a stage may spend, None where there is no budget."""
        return self.work_budgets[stage] if stage < len(self.work_budgets) else None

    @property
    def work_budget(self) -> float | None:
        """The units of work that all stages together may spend, None where there is no budget."""
        found = [budget for budget in self.work_budgets if budget is not None]
        return sum(found) if found else None

    def ration_of(self, stage: int) -> Ration | None:
        """Return the keep probabilities of a stage's groups, None where it sheds no groups."""
        return self.rations[stage] if stage < len(self.rations) else None

    def windows_of(self, stage: int) -> WindowDecision | None:
        """Return the decision about a stage's windows, None where it sheds no windows."""
        return self.windows[stage] if stage < len(self.windows) else None

    def salt_of(self, stage: int) -> int:
        """Return the salt of a stage. Stages with the same salt would pick the same rows and weigh them twice."""
        return self.salt if stage == 0 else mix(self.salt, stage)

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        record = {name: getattr(self, name) for name in self.__slots__}
        record["cuts"] = [cut.to_dict() for cut in self.cuts]
        record["windows"] = [None if windows is None else windows.to_dict() for windows in self.windows]
        record["rations"] = [None if each is None else asdict(each) for each in self.rations]
        return json.dumps({"version": VERSION, **record}, allow_nan=False)

    def is_for(self, size: BatchSize) -> bool:
        """Return whether this decision belongs to the batch of that cut, not to one whose offset log was lost."""
        return self.cut_s is None or size.cut_s is None or self.cut_s == size.cut_s

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read back the output of :meth:`to_json`; raise :class:`SpillwayError` for anything else."""
        try:
            record = json.loads(text)
            if record.pop("version") != VERSION:
                raise SpillwayError("the decision was written by another version of Spillway.")
            cuts = tuple(Cut.from_dict(cut) for cut in record.pop("cuts"))
            windows = tuple(
                None if windows is None else WindowDecision.from_dict(windows)
                for windows in record.pop("windows", ())
            )
            rations = tuple(
                None if each is None else Ration.from_dict(each) for each in record.pop("rations", ())
            )
            budgets = tuple(record.pop("work_budgets", ()))
            return cls(cuts=cuts, windows=windows, rations=rations, work_budgets=budgets, **record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SpillwayError(f"the decision cannot be read: {error!r}.") from error


def decide(
    published: Published, batch: int, size: BatchSize, before: BatchDecision | None = None
) -> BatchDecision:
    """Turn the published value into the decision for a batch; ``before`` is the decision of the batch before it."""
    wanted = published.decision
    waited_s = size.waited_s if size.waited_s is not None else _waited_s(published, batch, size.seen_s)
    reported_idle_s = idle_s_of(published, batch, size)
    idle_s = reported_idle_s or 0.0
    unreported = _unreported(published, batch, before)
    limit = wanted.limit_for(waited_s, idle_s, unreported)
    rows, known = expected_rows(published, size, gathered_s(wanted, waited_s, reported_idle_s), limit)
    keep = wanted.keep_ratio
    if rows is not None:
        keep = wanted.keep_ratio_for(rows, waited_s=waited_s, idle_s=idle_s, unreported=unreported)
    cuts = tuple(
        cut_for(
            keep ** (1.0 / length),
            ranks=None if stage.quantiles is None or stage.uniform_batches else Ranks(stage.quantiles),
            protected_share=stage.protected_share,
            floor=stage.floor,
        )
        for stage, length in zip(published.stages, chain_lengths(published.stages), strict=True)
    )
    return BatchDecision(
        batch=batch,
        keep_ratio=keep,
        salt=mix(published.seed, wanted.salt, batch),
        cuts=cuts,
        expected_rows=rows,
        rows_known=known,
        units=size.units,
        measured_in=size.measured_in,
        waited_s=waited_s,
        cut_s=size.cut_s,
        limit_rows=limit,
        **({} if known else bound_of(published, rows, keep, limit)),
        after_batch=published.after_batch,
        work_budgets=_work_budgets(published, None if rows is None else rows * keep, waited_s),
        rations=decide_groups(
            [
                Sharing(
                    stage.groups, stage.census or Census(), keep ** (1.0 / length), stage.rows_per_event_s
                )
                for stage, length in zip(published.stages, chain_lengths(published.stages), strict=True)
            ],
            rows=rows,
            rows_per_s=published.rows_per_s,
        ),
        windows=tuple(
            None
            if stage.window is None
            else decide_windows(
                stage.window,
                (None if before is None else before.windows_of(number)) or WindowDecision(),
                watermark_ms=size.watermark_ms,
                seen_us=stage.latest_us,
                all_seen=None if size.sources == 1 else published.after_batch == batch - 1,
                waited_s=(None if before is None else before.waited_s, waited_s),
                keep_share=keep if published.enforce else 1.0,
                seed=mix(published.seed, number),
            )
            for number, stage in enumerate(published.stages)
        ),
    )


def chain_lengths(stages: Sequence[Stage]) -> list[int]:
    """Return for each stage the length of the chain that it is part of.

    >>> chain_lengths([Stage(), Stage(chained=True), Stage()])
    [2, 2, 1]
    """
    heads = [number for number, stage in enumerate(stages) if number == 0 or not stage.chained]
    ends = [*heads[1:], len(stages)]
    return [end - head for head, end in zip(heads, ends, strict=True) for _ in range(head, end)]


def _waited_s(published: Published, batch: int, seen_s: float | None) -> float | None:
    if seen_s is None or published.cut_s is None or published.after_batch is None:
        return None
    return max(0.0, seen_s - published.cut_s) / max(batch - published.after_batch, 1)


def _unreported(published: Published, batch: int, before: BatchDecision | None) -> tuple[float, float] | None:
    """Return the rows of the batch before and the rows it was to keep; None where its report has come.

    Also None where nothing is known about that batch, or where it was cut in an earlier run: the time since then is
    not the duration of a batch.
    """
    if before is None or before.batch != batch - 1 or published.after_batch == batch - 1:
        return None
    earlier_run = published.began_s is not None and (before.cut_s or 0.0) < published.began_s
    works = any(stage.works for stage in published.stages)  # how long their work took is not known
    rows = before.expected_rows
    if rows is None or earlier_run or works:
        return None
    least = max(max(stage.protected_share, stage.floor) for stage in published.stages)
    return rows, rows * (max(before.keep_ratio, least) if published.enforce else 1.0)


def _work_budgets(
    published: Published, rows: float | None, waited_s: float | None
) -> tuple[float | None, ...]:
    """Return the units of work that each stage may spend. If the rows are unknown, half is reserved for them."""
    wanted, stages = published.decision, published.stages
    if wanted.work_budget is None or not any(stage.works for stage in stages):
        return ()
    priced = wanted.row_work > 0.0  # the budget follows from measured costs; it was not set by hand
    unknown_rows = wanted.work_budget * (0.5 if priced else 1.0)
    budget = unknown_rows if rows is None else wanted.work_budget_for(rows) or 0.0
    if priced and wanted.target_delay_s is not None and waited_s is not None and published.unit_s:
        left_s = wanted.target_delay_s - waited_s - published.fixed_s
        if left_s > 0.0:
            budget = min(budget, max(left_s / published.unit_s, budget / 4))
    demands = [stage.demanded or 0.0 for stage in stages if stage.works]
    total, count = sum(demands), len(demands)
    # Each stage gets at least a tenth of an even part, because its demand may change.
    return tuple(
        None
        if not stage.works
        else budget * (0.1 / count + 0.9 * ((stage.demanded or 0.0) / total if total else 1.0 / count))
        for stage in stages
    )
