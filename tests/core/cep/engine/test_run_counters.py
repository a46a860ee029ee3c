"""What shedding uses: classes, counters, dropping, refusing, the record, and what timed out."""

from __future__ import annotations

import numpy as np
import pytest

from spillway.core.cep import PatternConfig
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.errors import SpillwayError
from tests.core.cep.engine.streams import Q1, ds1, patterns, typed

TABLE = ds1(3_000)
SUM = Tree.of([(4, 10.5), 0, 1])  # of a.V+b.V, the fifth feature of the second state


def tracked(**options: object) -> PatternConfig:
    given = {"tracked": True, "classes": 2, "slices": 4} | options
    return PatternConfig(Q1.format(1), TABLE.schema, time="ts", type="type", **given)  # type: ignore[arg-type]


def test_features_and_classes() -> None:
    finder = tracked().build()
    assert finder.feature_names(0) == ("a.ID", "a.V")
    assert finder.feature_names(1) == ("a.ID", "a.V", "b.ID", "b.V", "a.V+b.V")
    assert list(finder.attributes(TABLE.slice(0, 2))) == ["ID", "V"]
    finder.classify([None, SUM, None])
    finder.record()
    found = finder.process(TABLE)
    record, features = finder.recorded()
    second = (record["state"] == 1) & (record["first_us"] > 2_000)
    expected = np.bincount((features[second, 4] > 10.5).astype(int), minlength=2)
    assert finder.alive()[1].sum(axis=1).tolist() == expected.tolist()
    assert (features[second, 4] == features[second, 1] + features[second, 3]).all()
    completed, own, tested = finder.counted()
    assert completed[0].sum() == completed[1, 0].sum() == found.num_rows
    assert completed[1, 1].sum() == 0, "no c is larger than 10"
    assert tested[0].sum() == own.sum() > own[0].sum()
    assert finder.counted().completed.sum() == 0, "counted once"
    weighted = tracked().build()
    weighted.process(TABLE)
    assert weighted.counted(omega=[1, 3, 1]).own[1].sum() == 3 * own[1].sum()


def test_of_many_runs_some_are_counted_for_all() -> None:
    """Each B is shown to all A before it; of 1,200 of them it is one in sixteen that is counted."""
    kinds = "".join("A" if n % 7 else "B" for n in range(1_400))
    table = typed(kinds, V=[n % 10 for n in range(1_400)])
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.V + b.V < 0 AND c.V > 0 WITHIN 1500 s"
    finder = patterns(query, table, tracked=True, classes=2, slices=4)
    finder.classify([Tree.of([(0, 4.5), 0, 1]), None, None])
    finder.process(table)
    own = finder.counted().own[0]
    a, b = (np.array([n for n, kind in enumerate(kinds) if kind == wanted]) for wanted in "AB")
    first, now = np.nonzero(a[:, None] < b)
    shown = np.zeros((2, 4))
    np.add.at(shown, ((a[first] % 10 > 4.5).astype(int), (b[now] - a[first]) * 4 // 1_500), 1)
    assert own.sum() == pytest.approx(shown.sum(), rel=0.01)
    assert own[:, :3] == pytest.approx(shown[:, :3], rel=0.05)


def test_a_class_without_matches_can_be_dropped_and_refused() -> None:
    whole = tracked().build().process(TABLE)
    share = np.zeros((3, 2, 4))
    share[1, 1] = 1.0
    finder = tracked().build()
    finder.classify([None, SUM, None])
    parts, gone = [], 0
    for low in range(0, 3_000, 200):
        parts += finder.process(TABLE.slice(low, 200)).to_pylist()
        gone += finder.shed(share)[1]
        assert finder.alive()[1, 1].sum() == 0
        finder = tracked().build(finder.snapshot())
    assert parts == whole.to_pylist()
    refusing = tracked().build()
    refusing.classify([None, SUM, None])
    refusing.refuse(share)
    assert refusing.process(TABLE).equals(whole)
    assert refusing.refused[1] > gone > 0
    assert refusing.refused[0] == 0


def test_shares_are_kept_and_witnesses_spared() -> None:
    finder = tracked().build()
    finder.process(TABLE)
    before = finder.alive().sum(axis=(1, 2))
    gone = finder.shed(0.5, salt=1)
    assert (finder.alive().sum(axis=(1, 2)) == before - gone).all()
    assert abs(gone[1] / before[1] - 0.5) < 0.05
    left = finder.alive().sum(axis=(1, 2))
    finder.shed(1.0, spare=0.25)
    spared = finder.alive().sum(axis=(1, 2))
    assert abs(spared[1] / left[1] - 0.25) < 0.05
    assert finder.shed(1.0, salt=9, spare=0.25).sum() == 0, "always the same ones"
    assert finder.shed(1.0).sum() == spared.sum()
    assert finder.size.runs == 0


def test_a_run_in_two_indexes_is_one_run() -> None:
    table = typed("AABBC")
    finder = patterns("PATTERN SEQ(A+ a[], B b, C c) WITHIN 9 s", table, tracked=True)
    finder.process(table.slice(0, 2))
    assert finder.size.runs == 6
    assert finder.alive()[0].sum() == 3
    assert finder.shed(1.0).tolist() == [3, 0, 0]
    assert finder.size.runs == 0


def test_paths_beyond_the_room_are_not_counted() -> None:
    """A sequence has a path for each of its lengths; the engine goes on when there is no room for more."""
    count = 4_500
    table = typed("A" + "B" * count + "C")
    query = f"PATTERN SEQ(A a, B{{{count},}} b[], C c) WITHIN 9999 s UNDER skip_till_next_match"
    finder = patterns(query, table, tracked=True)
    assert finder.process(table).num_rows == 1
    assert 0 < finder.counted().own.sum() < count


def test_wrong_trees_and_shares_are_told() -> None:
    finder = tracked().build()
    with pytest.raises(SpillwayError, match="one for each of the 3 states"):
        finder.classify([SUM])
    with pytest.raises(SpillwayError, match="features below 2"):
        finder.classify([SUM, None, None])
    with pytest.raises(SpillwayError, match="numbers from 0 to 1"):
        finder.shed(1.5)


def test_what_came_to_nothing() -> None:
    table = typed("AABBD........")
    finder = patterns("PATTERN SEQ(A a, B+ b[], C c) WITHIN 4 s", table, timeouts=True)
    finder.process(table)
    expected = [{"a": a, "b": b, "c": None} for a in (0, 1) for b in ([2, 3], [3])]
    again = finder.config.build(finder.snapshot())
    for each in (finder, again):
        assert each.timed_out().to_pylist() == expected
        assert each.timed_out().num_rows == 0


def test_what_was_shed_has_not_timed_out_and_leaves_the_record() -> None:
    table = typed("A" * 60)
    query = "PATTERN SEQ(A{1,3} a[], B b) WITHIN 50 s"
    finder = patterns(query, table, tracked=True, timeouts=True, most_runs=100)
    finder.process(table.slice(0, 49))
    assert finder.work.crowded_out > 900
    assert finder.size.recorded_runs <= 200, "no more than are there, and those that they were made from"
    alive = finder.alive().sum()
    finder.process(table.slice(49, 0), until_us=10**12)
    assert finder.timed_out().num_rows <= alive
    assert finder.size.recorded_runs == 0


def test_a_match_that_waits_counts_for_the_row_that_completed_it_once_it_is_sure() -> None:
    types = "ABABXCXXABBXXXXXXX"
    table = typed(types, w=[1] * len(types))
    query = "PATTERN SEQ(A a, B b, NEG C c) WHERE a.w = b.w AND c.w = a.w WITHIN 5 s"
    finder = patterns(query, table, tracked=True, slices=5)
    finder.record()
    found = finder.process(table)
    assert found.to_pylist() == [{"a": 0, "b": 1}, {"a": 0, "b": 3}, {"a": 8, "b": 9}, {"a": 8, "b": 10}]
    assert finder.work.matches == 4
    by_row = dict(enumerate(finder.work.matches_per_row.tolist()))
    assert {row: n for row, n in by_row.items() if n} == {1: 1, 3: 2, 9: 1, 10: 1}, "one more was forbidden"
    completed = finder.counted().completed
    assert completed[0, 0].tolist() == [0, 2, 1, 1, 0], "by the age at which they were completed"
    assert finder.paired()[0].tolist() == [[4]]
    record, _ = finder.recorded()
    assert record["row"][record["complete"] > 0].tolist() == [1, 3, 9, 10]
    assert set(record["state"].tolist()) == {0, 1}


def test_a_full_state_sheds_what_is_too_much_and_no_more() -> None:
    table = typed("A" * 1_050)
    finder = patterns("PATTERN SEQ(A a, B b) WITHIN 9999 s", table, tracked=True, most_runs=1_000)
    finder.process(table)
    assert 40 <= finder.work.crowded_out <= 120, "down to 950 once or twice, by chance a few less"


def test_expired_runs_are_counted_until_they_are_swept() -> None:
    table = typed("A" * 200)
    finder = patterns("PATTERN SEQ(A a, B b) WITHIN 50 s", table, tracked=True)
    for low in range(0, 200, 20):
        finder.process(table.slice(low, 20))
        assert finder.size.runs >= finder.alive().sum()
        finder.sweep()
        assert finder.size.runs == finder.alive().sum() <= 50


def test_there_are_never_many_more_runs_than_allowed() -> None:
    """A hot key: without the limit there would be half a million runs."""
    table = typed("A" * 18)
    query = "PATTERN SEQ(A+ a[], B b) WITHIN 99 s"
    finder = patterns(query, table, tracked=True, most_runs=200)
    finder.process(table)
    assert 0 < finder.size.runs <= 200
    assert finder.work.crowded_out > 400
    assert finder.work.per_row.max() <= 800, "one row may double them, not more"
    again = patterns(query, table, tracked=True, most_runs=200)
    for low in range(0, 18, 3):
        again.process(table.slice(low, 3))
    assert again.alive().tolist() == finder.alive().tolist(), "however the stream is cut"
    asked = patterns(query, table, tracked=True, most_runs=200)
    asked.relieve = lambda finder: finder.shed(1.0)
    asked.process(table)
    assert asked.size.runs < 200
    with pytest.raises(SpillwayError, match="tracked = False"):
        patterns(query, table, most_runs=10)


@pytest.mark.parametrize("query", ["SEQ(A+ a[], NEG B b)", "SEQ(A a, NEG B b)", "SEQ(A a, A b, NEG B c)"])
def test_matches_that_wait_are_bounded_as_well(query: str) -> None:
    """With a negated element at the end they are held for a window, and there may be more of them than runs."""
    table = typed("A" * 120 + "BBB")
    finder = patterns(f"PATTERN {query} WITHIN 200 s", table, tracked=True, most_runs=50)
    finder.relieve = lambda finder: finder.shed(finder.alive() * 0.0 + 0.1)
    sizes = []
    for low in range(0, 123, 3):
        finder.process(table.slice(low, 3))
        sizes.append(finder.size)
    assert max(size.runs for size in sizes) <= 50
    assert sizes[-1].held_matches > 10
    assert sizes[-1].forbidding_rows == 3
    assert max(size.bytes for size in sizes) < 100_000
    assert finder.flush().num_rows == 0


def test_runs_that_have_expired_are_not_too_many() -> None:
    """They lie there until they are swept, each under a key of its own, but do not crowd out others."""
    count = 3_000
    table = typed("A" * count, k=list(range(count)))
    query = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 98 s"
    finder = patterns(query, table, tracked=True, most_runs=100)
    finder.process(table)
    assert finder.work.crowded_out == 0
    assert finder.alive().sum() == 98


@pytest.mark.parametrize("seed", [16, 19, 26, 35])
def test_a_match_comes_once_also_where_room_is_made_while_runs_are_too_many(seed: int) -> None:
    chance = np.random.default_rng(seed)
    table = typed("".join(chance.choice(list("ABC"), 600)))
    finder = patterns("PATTERN SEQ(A a, B+ b[], C c) WITHIN 100 s", table, tracked=True, most_runs=400)
    found = [
        repr(row) for low in range(0, 600, 100) for row in finder.process(table.slice(low, 100)).to_pylist()
    ]
    assert finder.work.crowded_out > 0
    assert len(found) == len(set(found)) > 100


def test_a_query_can_be_compiled_ahead() -> None:
    finder = tracked().build()
    finder.warm_up()
    assert len(finder._program.signatures) == 1  # type: ignore[attr-defined]
    finder.process(TABLE)
    assert len(finder._program.signatures) == 1  # type: ignore[attr-defined]
