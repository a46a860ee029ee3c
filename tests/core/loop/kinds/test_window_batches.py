"""Decisions about windows over whole runs: what Spark would tell, batch by batch, with reports that come late.

batch b    rows up to the time ``latest`` come, none of them later than the watermark of batch b - 1 allows
watermark  the latest time of all batches before b, less the delay; of several sources that of the slowest
report     of the batch before b, or of an earlier one
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.loop.kinds.windows import WindowDecision, WindowSpec, decide_windows

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND


@dataclass(frozen=True, kw_only=True)
class Batch:
    """How far event time gets, the reports that are missing, how long rows were gathered, and what fits."""

    step_us: int
    missing: int = 0
    waited_s: float | None = 1.0
    keep: float = 0.3
    slowest_us: int = 0  # the other source, relative to ours
    max_gap: int | None = None  # since a restart


@dataclass(frozen=True)
class Told:
    """A decision, whether what had come was known, and the windows that rows of this batch may have a part in."""

    windows: WindowDecision
    known: bool
    touched: range

    def kept(self, number: int) -> bool:
        """Return whether a window is kept; one that nothing is said of is."""
        at = number - self.windows.first
        return not 0 <= at < len(self.windows.kept) or self.windows.kept[at] == "1"


def play(spec: WindowSpec, batches: list[Batch], several: bool = False) -> list[Told]:
    """Decide on batch after batch, as the tasks of a query would."""
    told: list[Told] = []
    windows, waited_s = WindowDecision(), None
    latest, watermark, not_late = BEGIN, 0, BEGIN // 1000 - 60_000
    ends: list[int] = []
    for number, batch in enumerate(batches):
        not_late = watermark or not_late
        if ends:
            behind = min(batch.slowest_us, 0) if several else 0
            watermark = max(watermark, (ends[-1] + behind) // 1000 - spec.delay_ms)
        reported = ends[: max(number - batch.missing, 0)]
        gap = batch.max_gap or spec.max_gap
        windows = decide_windows(
            replace(spec, max_gap=gap, together=min(spec.together, gap)),
            windows,
            watermark_ms=watermark or None,
            seen_us=max(reported, default=None),
            all_seen=batch.missing == 0 if several else None,
            waited_s=(waited_s, batch.waited_s),
            keep_share=batch.keep,
            seed=7,
        )
        waited_s = batch.waited_s
        latest += batch.step_us
        ends.append(latest)
        first = (not_late * 1000 - spec.span_us) // spec.slide_us + 1
        touched = range(first, (latest + spec.inner_us) // spec.slide_us + 1)
        told.append(Told(windows, bool(reported) and not (several and batch.missing), touched))
    return told


def settled(told: list[Told]) -> dict[int, bool]:
    """Return what became of each window, which has to be told the same by all batches with rows of it."""
    final: dict[int, bool] = {}
    for batch in told:
        for number in batch.touched:
            kept = batch.kept(number)
            assert final.setdefault(number, kept) == kept, f"window {number} was told both"
    return final


def longest_gap(final: dict[int, bool]) -> int:
    return max(map(len, "".join("1" if final[number] else "0" for number in sorted(final)).split("1")))


def seconds(max_gap: int, together: int = 1) -> WindowSpec:
    """Windows of a second, and a watermark without delay."""
    return WindowSpec(
        granule_us=SECOND,
        slide_us=SECOND,
        inner_us=0,
        span_us=SECOND,
        delay_ms=0,
        max_gap=max_gap,
        together=together,
        shares_left=(1.0, 1 / (max_gap + 1)),
    )


@st.composite
def specs(draw: st.DrawFn) -> WindowSpec:
    slide, inner, gap = draw(st.integers(1, 2)), draw(st.sampled_from([0, 0, 5])), draw(st.integers(1, 6))
    return replace(
        seconds(gap, together=draw(st.integers(1, gap))),
        slide_us=slide * SECOND,
        inner_us=inner * SECOND,
        span_us=(slide * draw(st.integers(1, 2)) + inner) * SECOND,
        delay_ms=draw(st.sampled_from([0, 1, 2_500])),
    )


@st.composite
def runs(draw: st.DrawFn) -> list[Batch]:
    """A few batches again and again: shorter or longer than a window, with pauses, leaps and late reports."""
    pace = draw(st.sampled_from([SECOND // 3, SECOND, 4 * SECOND]))
    late = draw(st.sampled_from([[0], [0, 0, 1, 3]]))
    shares = draw(st.sampled_from([[0.0], [0.2], [0.0, 0.3, 0.7, 1.0]]))
    leaps = draw(st.sampled_from([[0], [0, 30 * pace]]))
    step = st.sampled_from([pace, pace + 1, pace // 3, *leaps])
    batch = st.builds(
        Batch,
        step_us=step,
        missing=st.sampled_from(late),
        waited_s=st.sampled_from([None, 0.0, 0.2, 1.0, 4.0]),
        keep=st.sampled_from(shares),
        slowest_us=st.integers(-20 * SECOND, 0),
    )
    some = draw(st.lists(batch, min_size=1, max_size=8))
    return (some * 50)[:50]


@settings(max_examples=2 * settings().max_examples)
@given(spec=specs(), batches=runs(), several=st.booleans())
def test_windows_are_told_one_thing_and_gaps_are_bounded(
    spec: WindowSpec, batches: list[Batch], several: bool
) -> None:
    told = play(spec, batches, several)
    assert longest_gap(settled(told)) <= spec.max_gap
    for before, batch in zip([Told(WindowDecision(), False, range(0)), *told], told, strict=False):
        ahead = range(batch.windows.first, batch.windows.first + len(batch.windows.kept))
        fresh = [number for number in ahead if before.kept(number) and not batch.kept(number)]
        assert batch.known or not fresh, "nothing more is dropped while reports are missing"


@given(spec=specs(), batches=runs())
def test_what_is_counted_as_dropped_is_what_is_missing(spec: WindowSpec, batches: list[Batch]) -> None:
    told = play(spec, batches)
    final, last = settled(told), told[-1].windows.state
    if last is not None:
        kept = [final.get(number, told[-1].kept(number)) for number in range(min(final), last["next"])]
        assert sum(batch.windows.dropped for batch in told) == kept.count(False)


@pytest.mark.parametrize("max_gap", [1, 3, 8])
@pytest.mark.parametrize("step_us", [SECOND // 10, SECOND, 7 * SECOND])
def test_the_share_is_reached_whatever_the_length_of_a_batch(max_gap: int, step_us: int) -> None:
    spec = seconds(max_gap)
    for p in (0.3, 0.9 * max_gap / (max_gap + 1)):
        batches = [Batch(step_us=step_us, keep=1.0 - p, waited_s=step_us / SECOND)] * (
            400 * SECOND // step_us
        )
        final = settled(play(spec, batches))
        assert list(final.values()).count(False) / 400 == pytest.approx(p, abs=0.03)
        assert longest_gap(final) <= max_gap


def test_a_debt_is_not_called_in_long_after_the_overload() -> None:
    for batch in play(seconds(3, together=3), [Batch(step_us=SECOND // 4, keep=0.0)] * 800):
        state = batch.windows.state
        assert state is None or state["owed"] <= 3


@pytest.mark.parametrize("gaps", [(8, 2), (2, 8), (5, 1)])
@pytest.mark.parametrize("step_us", [SECOND // 3, 2 * SECOND])
def test_a_bound_that_changes_holds_for_what_is_decided_since(gaps: tuple[int, int], step_us: int) -> None:
    before, since = ([Batch(step_us=step_us, keep=0.0, max_gap=gap)] * 120 for gap in gaps)
    told = play(seconds(8, together=8), before + since)
    final, state = settled(told), told[len(before)].windows.state
    assert state is not None
    parts = [{n: kept for n, kept in final.items() if (n >= state["next"]) is late} for late in (False, True)]
    assert [longest_gap(part) for part in parts] == list(gaps)
    assert longest_gap(final) <= max(gaps)
