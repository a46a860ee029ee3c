"""What shedding by groups promises, over random groups, budgets and salts, against slow and simple oracles."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.core.groups import (
    JOIN_RULES,
    METADATA,
    RULES,
    Fired,
    Frequencies,
    OasrsConfig,
    OperatorConfig,
    ReservoirConfig,
    Session,
    SpreadConfig,
    allocate,
    allocate_join,
    distance,
    draws,
    estimate,
    overlap,
    run,
    session,
    shed,
    shed_join,
    uniform,
)
from spillway.core.groups.random_order import mixed_one
from spillway.core.random import mix
from spillway.core.windows import sliding, tumbling
from tests.sizes import size

sizes = st.lists(st.integers(1, 400), min_size=1, max_size=30).map(np.array)
Bounds = tuple[float, float]

ratios = st.floats(0.0, 1.0)
salts = st.integers(-(2**62), 2**62)


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Any, int, dict[str, Any]]:
    N = draw(sizes)
    c = draw(st.lists(st.floats(0.0, 1e6), min_size=len(N), max_size=len(N)))
    rule = draw(st.sampled_from(RULES))
    options = {"rule": rule, "at_least": draw(st.integers(1, 5)), "exceed": draw(st.booleans())}
    if rule == "variance" and draw(st.booleans()):
        options["variation"] = np.array(c)
    return N, draw(st.integers(0, int(N.sum()) + 5)), options


@given(divisions())
def test_rows_are_divided_exactly_and_no_group_is_lost(case: tuple[Any, int, dict[str, Any]]) -> None:
    N, budget, options = case
    found = allocate(N, budget, **options)
    floor = np.minimum(N, options["at_least"])
    assert ((found.rows >= 0) & (found.rows <= N)).all()
    if options["exceed"] or floor.sum() <= budget:
        assert (found.rows >= floor).all()
        assert found.rows.sum() == max(min(budget, N.sum()), floor.sum())
    else:
        assert found.rows.sum() == min(budget, N.sum())
        if budget >= len(N):
            assert found.missing == 0


@given(divisions(), st.randoms(use_true_random=False))
def test_a_division_does_not_depend_on_the_order_of_groups(case: Any, random: Any) -> None:
    N, budget, options = case
    order = np.arange(len(N))
    places = np.array(random.sample(range(len(N)), len(N)))
    moved = {**options, "variation": options["variation"][places]} if "variation" in options else options
    found = allocate(N, budget, **options, order=order).rows[places]
    assert np.abs(found - allocate(N[places], budget, **moved, order=order[places]).rows).max() <= 1


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    groups = draw(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=60))
    values = draw(st.lists(st.floats(-50, 50) | st.none(), min_size=len(groups), max_size=len(groups)))
    return pa.table({"g": pa.array(groups, pa.string()), "v": pa.array(values, pa.float64())})


@given(tables(), ratios, st.sampled_from(RULES), salts, st.sampled_from([None, "v", "n"]))
def test_kept_rows_are_rows_whose_weights_add_up_to_their_groups(
    table: Any, ratio: float, rule: Any, salt: int, along: str | None
) -> None:
    numbered = table.append_column("n", pa.array(range(table.num_rows)))
    options: dict[str, Any] = {"by": "g", "keep_ratio": ratio, "rule": rule, "value": "v", "salt": salt}
    kept = shed(numbered, **options, along=along)
    arrived = Counter(table["g"].to_pylist())
    found: Counter[Any] = Counter()
    for row in kept.to_pylist():
        found[row["g"]] += row["weight"]
        assert numbered.slice(row["n"], 1).to_pylist()[0] == {k: v for k, v in row.items() if k != "weight"}
    assert found == pytest.approx(arrived)
    assert len(set(kept["n"].to_pylist())) == kept.num_rows
    assert kept.num_rows == json.loads(kept.schema.metadata[METADATA])["kept_rows"]
    backwards = shed(numbered.take(pa.array(range(table.num_rows)[::-1])), **options, along=along)
    if rule != "variance":  # sums of floats depend on their order, and shares on them
        assert set(backwards["n"].to_pylist()) == set(kept["n"].to_pylist())
    assert kept.equals(shed(numbered, **options, along=along))


def skewed(rows: int = 120) -> pa.Table:
    chosen = np.random.default_rng(8)
    groups = np.minimum(chosen.zipf(1.4, rows), 9)
    values = np.where(groups == 2, 4.0, np.round(chosen.lognormal(1.0, 1.0, rows)))
    return pa.table({"g": groups, "v": values})  # with rows that are equal


def totals(kept: pa.Table) -> Any:
    weighed = kept["weight"].to_numpy() * kept["v"].to_numpy()
    return np.bincount(kept["g"].to_numpy(), weighed, minlength=10)


SHEDDERS: dict[str, Any] = {
    **{
        rule: lambda t, s, r=rule: shed(t, by="g", keep_ratio=0.2, rule=r, value="v", salt=s)
        for rule in RULES
    },
    "even": lambda t, s: shed(
        t.append_column("t", pa.array(range(t.num_rows))),
        by="g",
        keep_ratio=0.2,
        value="v",
        salt=s,
        along="t",
    ),
    "too many groups": lambda t, s: shed(t, by="g", keep_ratio=0.04, exceed=False, salt=s),
    "oasrs": lambda t, s: OasrsConfig(keep_ratio=0.2).build().shed(t, by="g", salt=s),
    "uniform": lambda t, s: uniform(t, keep_ratio=0.2, salt=s),
    "bernoulli": lambda t, s: uniform(t, keep_ratio=0.2, method="bernoulli", salt=s),
}


@pytest.mark.parametrize("name", SHEDDERS)
def test_the_mean_over_many_salts_is_the_truth(name: str) -> None:
    """Each group's total, and within four standard errors of the mean."""
    table = skewed()
    truth = totals(table.append_column("weight", pa.array(np.ones(table.num_rows))))
    found = np.array([totals(SHEDDERS[name](table, salt)) for salt in range(size(150, full=400))])
    errors = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - truth) <= 4.0 * errors + 1e-9 * np.abs(truth)).all()


@pytest.mark.parametrize("options", [{}, {"pilot": True}, {"draw": "random"}], ids=repr)
def test_the_mean_over_many_salts_is_the_truth_in_windows_that_learn(options: dict[str, Any]) -> None:
    """Overlapping windows and sizes of samples that follow from earlier ones, and still nothing leans."""
    table = skewed(240).append_column("ts", pa.array(range(240)))
    options = {"by": "g", "time": "ts", "window": sliding(80, 40), "value": "v", **options}
    truth = run(table, **options, keep_ratio=1.0)["value"].to_numpy()
    salted = range(size(50, full=120))
    found = np.array([run(table, **options, keep_ratio=0.25, salt=s)["value"].to_numpy() for s in salted])
    errors = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - truth) <= 4.0 * errors + 1e-9 * np.abs(truth)).all()


@pytest.mark.parametrize("rule", JOIN_RULES)
@pytest.mark.parametrize("exceed", [True, False])
def test_the_mean_of_a_joins_sum_over_many_salts_is_the_truth(rule: Any, exceed: bool) -> None:
    left, right = skewed(80), skewed(120).rename_columns(["g", "u"])

    def total(a: pa.Table, b: pa.Table) -> float:
        sides = [np.zeros(10), np.zeros(10)]
        for side, (table, name) in zip(sides, ((a, "v"), (b, "u")), strict=True):
            np.add.at(side, table["g"].to_numpy(), table["weight"].to_numpy() * table[name].to_numpy())
        return float((sides[0] * sides[1]).sum())

    ones = [t.append_column("weight", pa.array(np.ones(t.num_rows))) for t in (left, right)]
    options: dict[str, Any] = {
        "on": "g",
        "keep_ratio": 0.15 if exceed else 0.05,
        "rule": rule,
        "exceed": exceed,
    }
    found = [total(*shed_join(left, right, **options, salt=salt)) for salt in range(size(120, full=300))]
    assert abs(np.mean(found) - total(*ones)) <= 4.0 * np.std(found) / np.sqrt(len(found))


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=20),
    st.integers(0, 400),
    st.sampled_from(JOIN_RULES),
    st.booleans(),
)
def test_a_joins_rows_are_divided_exactly(keys: Any, budget: int, rule: Any, exceed: bool) -> None:
    L, R = np.array(keys).T
    found = allocate_join(L, R, budget, rule=rule, exceed=exceed)
    matching = (L > 0) & (R > 0)
    assert ((found.left <= L) & (found.right <= R) & ((found.left > 0) == (found.right > 0))).all()
    assert not (found.left + found.right)[~matching].any()
    kept, most, least = found.left.sum() + found.right.sum(), (L + R)[matching].sum(), 2 * matching.sum()
    if least <= budget:
        assert kept == min(budget, most)
        assert (found.left[matching] > 0).all()
    else:
        assert kept == (least if exceed else 2 * (budget // 2))


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=80), st.integers(1, 20), salts, st.data()
)
def test_reservoirs_are_bounded_repeat_merge_and_restart_exactly(
    keys: Any, k: int, salt: int, data: Any
) -> None:
    config = ReservoirConfig(rows=k, salt=salt)

    def filled(part: list[int]) -> Any:
        found = config.build()
        for key in part:
            found.add(key, key)
        return found

    whole, at = filled(keys), data.draw(st.integers(0, len(keys)))
    assert len(whole) == min(k, len(keys))
    assert whole.items() == sorted(keys, key=lambda key: mix(salt, key))[:k]
    assert filled(keys[::-1]).items() == whole.items()
    assert filled(keys[:at]).merged(filled(keys[at:])).snapshot() == whole.snapshot()
    resumed = config.build(json.loads(json.dumps(filled(keys[:at]).snapshot())))
    for key in keys[at:]:
        resumed.add(key, key)
    assert resumed.snapshot() == whole.snapshot()


samples = st.lists(
    st.dictionaries(st.integers(0, 40), st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6)), max_size=6
)


@given(samples, st.integers(1, 15), st.integers(0, 6))
def test_what_is_known_of_groups_is_bounded_and_restarts_exactly(windows: Any, most: int, at: int) -> None:
    config = SpreadConfig(most_groups=most)
    steady, resumed = config.build(), config.build()
    for place, groups in enumerate(windows):
        keys = np.array(list(groups), dtype=np.int64)
        codes = np.repeat(np.arange(len(keys)), [len(each) for each in groups.values()])
        values = np.array([value for each in groups.values() for value in each])
        if place == at:
            resumed = config.build(json.loads(json.dumps(resumed.snapshot())))
        for each in (steady, resumed):
            each.learn(keys, codes=codes, values=values)
        assert len(steady) <= most
    assert resumed.snapshot() == steady.snapshot()
    found = steady.variation(np.arange(50))
    assert (np.isfinite(found) & (found >= 0.0)).all()


@dataclass
class Stream:
    """Rows in the order of their arrival, with watermarks (None) that trail behind by a lag."""

    rows: list[tuple[int, str, float]]
    lag: int
    every: int


streams = st.builds(
    Stream,
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc"), st.floats(0, 10)), max_size=50),
    st.integers(0, 30),
    st.integers(1, 8),
)
windows = (
    st.tuples(st.integers(1, 12), st.integers(0, 12)).map(lambda p: sliding(p[0] + p[1], p[0]))
    | st.integers(1, 20).map(tumbling)
    | st.integers(1, 8).map(session)
)


def played(stream: Stream, **options: Any) -> tuple[list[Fired], Any]:
    operator = OperatorConfig(**options).build()
    fired: list[Fired] = []
    for key, (time, group, value) in enumerate(stream.rows):
        fired += operator.arrive(time, group=group, value=value, key=key)
        if key % stream.every == 0:
            fired += operator.watermark(max(t for t, _, _ in stream.rows[: key + 1]) - stream.lag)
    return fired + operator.finish(), operator.work


def marks(stream: Stream) -> list[float]:
    """The watermark before each row comes."""
    found, mark = [], -np.inf
    for key in range(len(stream.rows)):
        found.append(mark)
        if key % stream.every == 0:
            mark = max(mark, max(t for t, _, _ in stream.rows[: key + 1]) - stream.lag)
    return found


def windows_by_definition(stream: Stream, window: Any) -> dict[Bounds, list[int]]:
    """Every window with the numbers of its rows: those that came while it was open."""
    found: dict[Bounds, list[int]] = {}
    for key, ((time, _, _), mark) in enumerate(zip(stream.rows, marks(stream), strict=True)):
        for k in range(-40, 80):
            start, end = k * window.slide, k * window.slide + window.size
            if start <= time < end and end > mark:
                found.setdefault((start, end), []).append(key)
    return found


def sessions_by_definition(stream: Stream, gap: int) -> dict[Bounds, list[int]]:
    """The same for sessions: rows are cut wherever a gap is between them, and closed ones take no more."""
    found: dict[Bounds, list[int]] = {}
    live: list[int] = []

    def cut() -> dict[Bounds, list[int]]:
        parts: list[list[int]] = []
        for key in sorted(live, key=lambda key: stream.rows[key][0]):
            if parts and stream.rows[key][0] - stream.rows[parts[-1][-1]][0] < gap:
                parts[-1].append(key)
            else:
                parts.append([key])
        return {(stream.rows[part[0]][0], stream.rows[part[-1]][0] + gap): part for part in parts}

    for key, ((time, _, _), mark) in enumerate(zip(stream.rows, marks(stream), strict=True)):
        found |= {bounds: part for bounds, part in cut().items() if bounds[1] <= mark}
        live = [each for bounds, part in cut().items() if bounds[1] > mark for each in part]
        touches = any(start - gap < time < end for start, end in cut())
        live += [key] if touches or time + gap > mark else []
    return found | cut()


def drawn_by_definition(keys: list[int], number: int, wanted: int, draw: str) -> set[int]:
    """The rows of a group that are kept: those with the smallest coins, or one from each part of a ring."""
    if draw == "random":
        return set(sorted(keys, key=lambda key: mixed_one(number, key))[:wanted])
    first = mixed_one(number, keys[0])
    turn = mixed_one(0, first) % 2**64 % len(keys)
    ring = keys[turn:] + keys[:turn]
    parts = [ring[k * len(ring) // wanted : (k + 1) * len(ring) // wanted] for k in range(wanted)]
    return {part[mixed_one(k, first) % 2**64 % len(part)] for k, part in enumerate(parts, 1)}


@given(
    streams,
    windows,
    ratios,
    st.sampled_from(["proportional", "equal"]),
    st.sampled_from(["even", "random"]),
    st.integers(0, 99),
)
def test_both_buffer_designs_keep_what_brute_force_keeps(
    stream: Stream, window: Any, ratio: float, rule: Any, draw: Any, salt: int
) -> None:
    options: dict[str, Any] = {
        "window": window,
        "keep_ratio": ratio,
        "rule": rule,
        "draw": draw,
        "salt": salt,
    }
    single, work = played(stream, **options, buffering="single")
    multiple, copies = played(stream, **options, buffering="multiple")
    printed, _ = played(stream, **options, incremental=False)
    assert single == multiple == printed
    assert (work.late, work.partly_late) == (copies.late, copies.partly_late)
    by_session = isinstance(window, Session)
    expected = (
        sessions_by_definition(stream, window.gap) if by_session else windows_by_definition(stream, window)
    )
    assert work.late == len(stream.rows) - len({key for inside in expected.values() for key in inside})
    assert {(f.start, f.end): f.arrived for f in single} == {
        bound: len(rows) for bound, rows in expected.items()
    }
    for fired in single:
        inside = expected[fired.start, fired.end]
        number = mix(salt, 0 if by_session else round(fired.start / window.slide))
        counts = Counter(stream.rows[key][1] for key in inside)
        assert fired.concept == Frequencies(dict(counts))
        for group in counts:
            keys = sorted(key for key in inside if stream.rows[key][1] == group)
            kept = {row.key for row in fired.kept if row.group == group}
            assert kept == drawn_by_definition(keys, number, len(kept), draw)
            assert len(kept) >= 1
        assert sum(row.weight for row in fired.kept) == pytest.approx(len(inside))


@pytest.mark.parametrize("shedder", ["concept", "uniform"])
@pytest.mark.parametrize("draw", ["even", "random"])
def test_an_operators_mean_over_many_salts_is_the_truth(shedder: Any, draw: Any) -> None:
    """The keys stay as they are: salts alone must draw other rows, window by window."""
    table = skewed(160)
    rows = list(enumerate(zip(table["g"].to_pylist(), table["v"].to_pylist(), strict=True)))
    truth = [totals(table.slice(at, 80).append_column("weight", pa.array(np.ones(80)))) for at in (0, 80)]
    found, drawn = [], set()
    for salt in range(300):
        options: Any = {"shedder": shedder, "draw": draw, "salt": salt}
        operator = OperatorConfig(window=tumbling(80), keep_ratio=0.25, **options).build()
        for at, (group, value) in rows:
            operator.arrive(at, group=group, value=value, key=7919 * at)
        fired = operator.finish()
        drawn.add(tuple(row.time for row in fired[0].kept))
        weighed = [[(row.group, row.weight * row.value) for row in window.kept] for window in fired]
        found.append([np.bincount(*map(np.array, zip(*each, strict=True)), minlength=10) for each in weighed])
    assert len(drawn) > 290
    errors = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - truth) <= 4.0 * errors + 1e-9 * np.abs(truth)).all()


@given(streams, windows, st.sampled_from(RULES), st.sampled_from(["single", "multiple"]), st.integers(0, 50))
def test_an_operator_restarts_exactly(
    stream: Stream, window: Any, rule: Any, buffering: Any, at: int
) -> None:
    config = OperatorConfig(
        window=window, keep_ratio=0.3, rule=rule, buffering=buffering, pilot=True, sample_rows=5
    )

    def fired(restart: int | None) -> list[Fired]:
        operator, found = config.build(), []
        for key, ((time, group, value), mark) in enumerate(zip(stream.rows, marks(stream), strict=True)):
            if key == restart:
                operator = config.build(json.loads(json.dumps(operator.snapshot())))
            found += operator.watermark(mark)
            found += operator.arrive(time, group=group, value=value, key=key)
        return found + operator.finish()

    assert fired(at) == fired(None)


frequencies = st.dictionaries(st.integers(0, 9), st.integers(1, 50), max_size=8).map(Frequencies)


@given(frequencies, frequencies)
def test_overlap_and_distance_are_shares_and_go_both_ways(a: Frequencies, b: Frequencies) -> None:
    for measure in (overlap, distance):
        assert 0.0 <= measure(a, b) <= 1.0
        assert measure(a, b) == pytest.approx(measure(b, a))
    assert (overlap(a, a), distance(a, a)) == (1.0, 0.0)
    if not a.counts.keys() & b.counts.keys() and (a.counts or b.counts):
        assert (overlap(a, b), distance(a, b)) == (0.0, pytest.approx(1.0))


@settings(max_examples=15)
@given(tables(), st.sampled_from(["mean", "sum", "count", "median"]), salts)
def test_an_interval_holds_its_value_and_has_no_width_where_nothing_was_shed(
    table: Any, aggregate: Any, salt: int
) -> None:
    kept = shed(table, by="g", keep_ratio=0.5, value="v", salt=salt)
    for row in estimate(kept, by="g", value="v", aggregate=aggregate).to_pylist():
        if row["value"] is not None:
            assert row["low"] <= row["value"] <= row["high"]
            if row["sampled"] == row["rows"]:
                assert row["low"] == row["high"]


@given(st.lists(st.integers(-5, 5), max_size=40), salts)
def test_rows_draw_different_numbers_even_if_they_are_equal(keys: list[int], salt: int) -> None:
    found = draws(pa.table({"k": pa.array(keys, pa.int64())}), "k", salt=salt)
    assert len(set(found.tolist())) == len(keys)
