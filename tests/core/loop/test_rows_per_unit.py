"""Topics with gaps in their offsets, played through what is learned and decided: the damage is bounded both ways."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import Decision
from spillway.loop.decision import Published, Stage, decide
from spillway.loop.offsets import BYTES, BatchSize
from spillway.loop.reports import BatchReport, StageReport
from spillway.loop.rows_per_unit import RowsPerUnit
from spillway.loop.stage_updates import learn

LIMIT = 86_000.0


@dataclass(frozen=True)
class Stretch:
    """A batch of a topic: how many offsets, and how many of them hold a row."""

    offsets: int
    rows: int


@dataclass(frozen=True)
class Kept:
    """What became of a batch: too many rows by a factor, or too few of those that fitted."""

    share: float
    overload: float
    loss: float


def full(offsets: int) -> Stretch:
    return Stretch(offsets, offsets)


def play(topic: Sequence[Stretch], *, fan: float = 1.0, lag: int = 0, reported: bool = True) -> list[Kept]:
    """Read the topic batch by batch, ``fan`` rows reaching the shedder per row; reports come ``lag`` batches late."""
    stages: list[Stage] = [Stage()]
    published = Published(decision=Decision(queue_limit_rows=LIMIT))
    kept: list[Kept] = []
    waiting: list[BatchReport] = []
    for number, stretch in enumerate(topic):
        told = decide(published, number, BatchSize(float(stretch.offsets), counts_rows=True))
        rows = round(stretch.rows * fan)
        let_in = rows * told.keep_ratio
        fitting = min(rows, LIMIT)
        kept.append(Kept(told.keep_ratio, let_in / LIMIT, fitting / let_in if rows else 1.0))
        waiting.append(
            BatchReport(
                query="query",
                run="run",
                batch=number,
                started_s=0.0,
                busy_s=1.0,
                backlog_units=0.0,
                units=float(stretch.offsets),
                counts_rows=True,
                input_rows=stretch.rows if reported else 0,
                stages=(StageReport(arrived=rows, kept=round(let_in)),),
            )
        )
        if len(waiting) > lag:
            stages = learn(stages, waiting.pop(0), None, pytest.fail)
            published = Published(decision=published.decision, stages=tuple(stages))
    return kept


def test_a_topic_without_gaps_is_counted_exactly_from_the_first_batch_on() -> None:
    for batch in play([full(400_000), full(1_000), full(860_000), full(50_000)]):
        assert batch.overload <= 1.0
        assert batch.loss == pytest.approx(1.0)


def test_an_empty_stretch_and_then_a_full_one() -> None:
    """The case that was seen: 400 rows in 400,200 offsets, then 200,000 in as many."""
    kept = play([Stretch(400_200, 400), *[full(200_000)] * 8])
    assert kept[1].overload < 2.0, "2.3 if all of it were let in"
    assert kept[2].overload < 1.6
    assert kept[-1].overload == pytest.approx(1.0, rel=0.1), (
        "once the old segments are read, it is exact again"
    )
    assert all(batch.loss <= 1.0 for batch in kept[1:])


@pytest.mark.parametrize("per_offset", [0.5, 0.1, 0.01, 0.001])
def test_an_even_share_of_gaps_is_learned(per_offset: float) -> None:
    fits = play([Stretch(400_000, round(400_000 * per_offset))] * 8)[4:]
    if 400_000 * per_offset <= LIMIT:
        assert all(batch.loss == 1.0 for batch in fits), "a batch that fits is kept"
    large = round(10 * LIMIT / per_offset)
    late = play([Stretch(large, round(10 * LIMIT))] * 20)[-1]
    assert late.overload == pytest.approx(1.0, rel=0.15), "and one ten times too large is cut to what fits"


def test_gaps_that_come_and_go_hurt_either_way_by_a_bounded_factor() -> None:
    kept = play([Stretch(400_000, 400), full(400_000)] * 8)[1:]
    bound = (400_000 / LIMIT) ** 0.5
    assert max(batch.overload for batch in kept) < 1.25 * bound < 4.65, "4.65 if all of it were let in"
    assert max(batch.loss for batch in kept) < 1.25 * bound
    late = play([Stretch(400_000, 400), full(400_000)] * 8, lag=2)[3:]
    assert max(batch.overload for batch in late) < 1.25 * bound, "reports that come late change little"
    assert max(batch.loss for batch in late) < 1.25 * bound


def test_one_compaction_is_forgotten() -> None:
    kept = play([full(100_000)] * 5 + [Stretch(500_000, 500)] + [full(300_000)] * 10)
    after = kept[6:]
    assert after[0].overload < 2.4, "3.5 if all of it were let in"
    assert all(batch.overload < 2.0 for batch in after[1:])
    assert all(batch.loss <= 1.0 + 1e-9 for batch in after)
    assert after[-1].overload == pytest.approx(1.0, rel=0.1)


def test_gaps_at_random_stay_within_the_bound() -> None:
    draw = random.Random(3)
    topic = [
        Stretch(offsets, max(1, round(offsets * 10 ** draw.uniform(-3.0, 0.0))))
        for offsets in (draw.randrange(1_000, 1_000_000) for _ in range(200))
    ]
    for stretch, batch in zip(topic[5:], play(topic)[5:], strict=True):
        bound = 2.0 * max(1.0, (stretch.offsets / LIMIT) ** 0.5)
        assert batch.overload < bound
        assert batch.loss < bound


@pytest.mark.parametrize("fan", [0.05, 10.0])
def test_a_filter_or_an_explode_in_front_is_no_gap(fan: float) -> None:
    kept = play([full(400), full(round(5 * LIMIT / fan))], fan=fan)
    assert kept[1].overload == pytest.approx(1.0, rel=0.15), "known after one batch"
    gaps = play([Stretch(400_000, 4_000), full(round(5 * LIMIT / fan))], fan=fan)
    assert gaps[1].overload < 5.0, "the full stretch is not let in whole, whatever comes of its rows"


def test_where_spark_does_not_report_the_rows_of_the_sources_an_offset_may_be_one() -> None:
    assert play([Stretch(400_200, 400), full(200_000)], reported=False)[1].overload < 2.0


def test_no_batch_is_taken_for_more_rows_than_it_has_offsets() -> None:
    draw = random.Random(5)
    stages = [Stage()]
    for number in range(100):
        offsets = draw.randrange(1, 100_000)
        rows = draw.randrange(0, offsets + 1)
        report = BatchReport(
            query="query", run="run", batch=number, started_s=0.0, busy_s=1.0, backlog_units=0.0,
            units=float(offsets), counts_rows=True, input_rows=rows, stages=(StageReport(arrived=rows),),
        )  # fmt: skip
        stages = learn(stages, report, None, pytest.fail)
        published = Published(decision=Decision(queue_limit_rows=LIMIT), stages=tuple(stages))
        for limit in (None, 10.0, 10_000.0):
            decision = Decision(queue_limit_rows=limit)
            told = decide(Published(decision=decision, stages=published.stages), 1, BatchSize(1e6))
            assert told.expected_rows is not None
            assert told.expected_rows <= 1e6 * (1.0 + 1e-9)


def test_rows_per_byte_are_learned_apart_from_rows_per_offset() -> None:
    published = Published(stages=(Stage(rows_per_unit=0.5, measured_in=BYTES),))
    assert decide(published, 1, BatchSize(100.0, measured_in=BYTES)).expected_rows == 50.0
    assert decide(published, 1, BatchSize(100.0, counts_rows=True)).expected_rows == 100.0
    told = decide(published, 1, BatchSize(1_000.0, measured_in=BYTES))
    report = BatchReport(
        query="query", run="run", batch=1, started_s=0.0, busy_s=1.0, units=None, backlog_units=None,
        stages=(StageReport(arrived=2_000),),
    )  # fmt: skip
    learned = learn([Stage()], report, told, pytest.fail)[0]
    assert (learned.rows_per_unit, learned.measured_in) == (2.0, BYTES)


def test_a_guess_holds_until_rows_have_been_counted() -> None:
    size = BatchSize(1_000.0, measured_in=BYTES, rows_per_unit=0.1)
    assert decide(Published(), 0, size).expected_rows == 100.0
    learned = Published(stages=(Stage(rows_per_unit=0.2, measured_in=BYTES),))
    assert decide(learned, 0, size).expected_rows == 200.0


ratios = st.floats(1e-6, 1e6)


@given(ratios, ratios, st.floats(1.0, 1e9), st.floats(1.0, 1e9), st.floats(0.0, 1.0))
def test_the_estimate_is_least_wrong_at_either_end(
    one: float, other: float, units: float, limit: float, where: float
) -> None:
    seen = RowsPerUnit(min(one, other), max(one, other))
    rows = units * seen.low * (seen.high / seen.low) ** where
    taken_for = seen.estimate(units, limit)
    share = min(1.0, limit / taken_for)
    bound = 2.0**0.5 * max(1.0, (seen.high * units / max(seen.low * units, limit)) ** 0.5)
    assert rows * share / limit <= bound * (1.0 + 1e-9) or rows <= limit
    assert min(rows, limit) / (rows * share) <= bound * (1.0 + 1e-9)


@given(ratios, ratios, st.integers(0, 10**9), st.floats(1e-3, 1e12))
def test_what_was_seen_is_within_the_range_but_for_chance(
    one: float, other: float, rows: int, units: float
) -> None:
    after = RowsPerUnit(min(one, other), max(one, other)).after(rows, units)
    chance = 2.0 * rows**0.5 + 2.0
    assert 0.0 < after.low <= after.high * (1.0 + 1e-9)
    assert after.low * units <= (rows + chance) * (1.0 + 1e-9)
    assert after.high * units >= (rows - chance) * (1.0 - 1e-9)
