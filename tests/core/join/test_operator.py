"""The operator on streams: windows of different length, ties, idle sides, late rows, budgets, state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spillway.core.join import (
    JoinConfig,
    Shedding,
    Utility,
    equality,
    inner_product,
    overlap,
    run,
    subset,
    warm_up,
)
from spillway.core.join.operator import STATE_FORMAT
from spillway.errors import SpillwayError
from tests.core.join.streams import two_streams

ACCESSES = ("scan", "index", "sorted_index")


def ones(*times: float) -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.float64()), "v": pa.array([1] * len(times), pa.int64())})


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["left_row"].to_pylist(), table["right_row"].to_pylist(), strict=True))


@pytest.mark.parametrize("access", ACCESSES)
def test_the_windows_edges_are_inside_and_each_side_has_its_own(access: Any) -> None:
    #  left at 10; right rows from 6 to 13: a left row stays 2 s, a right row 3 s
    found = run(
        ones(10),
        ones(6.999999, 7, 10, 12, 12.000001),
        on=equality("v"),
        within_s=(2, 3),
        time="ts",
        access=access,
    )
    assert pairs(found) == [(0, 1), (0, 2), (0, 3)]


def test_windows_of_no_length_join_what_comes_at_the_same_time() -> None:
    assert pairs(run(ones(1, 2), ones(2, 2, 3), on=equality("v"), within_s=0, time="ts")) == [(1, 0), (1, 1)]


def test_ties_go_left_before_right_and_in_their_own_order() -> None:
    found = run(ones(5, 5), ones(5, 5), on=equality("v"), within_s=1, time="ts")
    assert pairs(found) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_rows_of_a_table_are_taken_in_the_order_of_time() -> None:
    left = pa.table({"ts": [3.0, None, 1.0], "v": [7, 7, None]})
    right = pa.table({"ts": [2.5, 0.5], "v": [7, 7]})
    assert pairs(run(left, right, on=equality("v"), within_s=10, time="ts")) == [(0, 1), (0, 0)]


def test_other_columns_on_each_side() -> None:
    left, right = pa.table({"at": [1], "id": ["x"]}), pa.table({"when": [1.5], "ref": ["x"]})
    found = run(left, right, on=equality("id", "ref"), within_s=1, time=("at", "when"))
    assert pairs(found) == [(0, 0)]


@pytest.mark.parametrize("access", ACCESSES)
def test_one_idle_side_does_not_keep_the_other_side_s_rows(access: Any) -> None:
    join = JoinConfig(on=overlap("v", at_least=1), within_s=2, time="ts", access=access).build()
    sizes = []
    for second in range(200):
        times = second + np.arange(50) / 50
        rows = pa.table({"ts": times, "v": pa.array([[second, n % 9] for n in range(50)])})
        assert join.process(rows, None).num_rows == 0
        sizes.append(len(join.snapshot()))
        assert len(join.stores[0]) <= 152
    assert max(sizes[5:]) < 1.2 * min(sizes[5:])
    assert (
        join.oldest_rows() == (200 * 50 - 150 + 49 - 0 - 0 - 0, 0) or join.oldest_rows()[0] >= 200 * 50 - 152
    )
    late = pa.table({"ts": [200.0], "v": [[199]]})
    assert join.process(None, late).num_rows == 50


@pytest.mark.parametrize("access", ["index", "sorted_index"])
def test_an_index_forgets_what_has_left_the_windows(access: Any) -> None:
    join = JoinConfig(on=overlap("v", at_least=1), within_s=2, time="ts", access=access).build()
    for second in range(100):
        times = second + np.arange(50) / 50
        rows = pa.table({"ts": times, "v": pa.array([[1000 * second + n, -n] for n in range(50)])})
        join.process(rows, rows if second % 20 < 10 else None)
    index: Any = join.finder
    assert index._used.max() <= 2 * 2 * 152
    assert max(len(table) for table in index._tables) <= 2048
    join.process(None, pa.table({"ts": [1000.0], "v": [[1]]}))
    join.process(pa.table({"ts": [1010.0], "v": [[1]]}), None)
    assert index._used.tolist()[1] == 0
    assert all((table[:, 3].sum() == used) for table, used in zip(index._tables, index._used, strict=True))


def test_late_rows_are_refused_or_left_out() -> None:
    config = JoinConfig(on=equality("v"), within_s=5, time="ts")
    join = config.build()
    join.process(ones(1, 4), None)
    with pytest.raises(SpillwayError, match=r"right: 1 rows are older than 4\.0 s.*late='drop'"):
        join.process(None, ones(3, 5))
    dropping = JoinConfig(on=equality("v"), within_s=5, time="ts", late="drop").build()
    dropping.process(ones(1, 4), None)
    assert pairs(dropping.process(None, ones(3, 5, 4))) == [(0, 2), (1, 2), (0, 1), (1, 1)]
    assert dropping.work.late_rows == 1


def test_a_call_that_is_refused_changes_nothing() -> None:
    config = JoinConfig(on=equality("v"), within_s=5, time="ts")
    join, other = config.build(), config.build()
    for each in (join, other):
        each.process(ones(1, 4), None, until_us=2_000_000)
        each.process(ones(5), ones(3), until_us=3_000_000)
    before = join.snapshot()
    for left, right, message in (
        (ones(6, 7), ones(2), "right: 1 rows are older"),
        (ones(6, 7), ones(2).select(["ts"]), "on, right column"),
        (ones(6, 7), pa.table({"ts": [6.0], "v": [[1]]}), "has changed"),
    ):
        with pytest.raises(SpillwayError, match=message):
            join.process(left, right)
        assert join.snapshot() == before
    assert join.process(ones(6, 7), ones(4)).equals(other.process(ones(6, 7), ones(4)))
    assert join.oldest_rows() == other.oldest_rows()
    new = config.build()
    with pytest.raises(SpillwayError, match="the other side has integer"):
        new.process(ones(1), pa.table({"ts": [1.0], "v": ["x"]}))
    words = pa.table({"ts": [1.0], "v": ["x"]})
    assert pairs(new.process(words, words)) == [(0, 0)], "of the left side's type nothing is known yet"


@pytest.mark.parametrize("name", ["newest", "timecorr", "selective"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 1.0, 3.0])
def test_a_scan_never_exceeds_its_budget_and_uses_it(name: str, share: float) -> None:
    left, right = two_streams(rate=50, seconds=20, lag_s=3, seed=1)
    config = JoinConfig(on=overlap("v", at_least=3), within_s=8, time="ts", shedding=name)
    whole = config.build()
    whole.process(left, right)
    budget = int(share * whole.work.demand)
    join = config.build()
    join.process(left, right, budget)
    assert join.work.demand == whole.work.demand
    assert join.work.spent == join.work.comparisons <= budget
    assert join.work.comparisons >= min(budget, whole.work.demand) * 0.99 - 60


def test_random_drop_spends_about_its_budget() -> None:
    left, right = two_streams(rate=200, seconds=30, lag_s=3, seed=1)
    config = JoinConfig(on=overlap("v", at_least=3), within_s=8, time="ts", shedding="random")
    whole = config.build()
    exact = whole.process(left, right).num_rows
    join = config.build()
    found = join.process(left, right, int(0.1 * whole.work.demand)).num_rows
    assert join.work.comparisons == pytest.approx(0.1 * whole.work.demand, rel=0.1)
    assert found == pytest.approx(0.1 * exact, rel=0.3)
    assert join.work.dropped_rows == pytest.approx((1 - np.sqrt(0.1)) * join.work.rows, rel=0.05)


@pytest.mark.parametrize("access", ["index", "sorted_index"])
def test_an_index_keeps_its_budget_on_average(access: Any) -> None:
    left, right = two_streams(rate=50, seconds=60, lag_s=3, seed=1)
    config = JoinConfig(
        on=overlap("v", at_least=3), within_s=8, time="ts", access=access, shedding=Shedding(period_s=2)
    )
    join, spent = config.build(), []
    for second in range(60):
        batch = [
            table.filter((pc.field("ts") >= second) & (pc.field("ts") < second + 1))
            for table in (left, right)
        ]
        join.process(batch[0], batch[1], 4000)
        spent.append(join.work.spent)
    assert np.mean(spent[10:]) == pytest.approx(4000, rel=0.05)


@pytest.mark.parametrize("budget", [2_000_000, 400_000])
def test_a_hash_index_sheds_rows_and_knows_what_all_would_take(budget: int) -> None:
    rng = np.random.default_rng(3)
    found: dict[str, pa.Table] = {}
    left, right = (
        pa.table({"ts": np.arange(20_000) / 200, "v": rng.integers(0, 300, 20_000)}) for _ in range(2)
    )
    for name in ("random", "selective"):
        join = JoinConfig(on=equality("v"), within_s=20, time="ts", access="index", shedding=name).build()
        found[name] = join.process(left, right, budget)
        assert join.work.spent == pytest.approx(budget, rel=0.1)
        whole = join.config.build()
        whole.process(left, right)
        assert join.work.needed_by_all == pytest.approx(whole.work.spent, rel=0.15)
        assert join.work.needed == pytest.approx(join.work.spent, rel=0.01)
    assert found["selective"].equals(found["random"])


@pytest.mark.parametrize("access", ["index", "sorted_index"])
def test_units_are_the_weighed_steps_and_all_that_is_needed_is_foreseen(access: Any) -> None:
    left, right = two_streams(rate=50, seconds=60, lag_s=3, seed=1)
    config = JoinConfig(
        on=overlap("v", at_least=3), within_s=8, time="ts", access=access, shedding=Shedding(sample=1.0)
    )
    full, some = config.build(), config.build()
    spent, needed = [], []
    for second in range(60):
        batch = [
            table.filter((pc.field("ts") >= second) & (pc.field("ts") < second + 1))
            for table in (left, right)
        ]
        full.process(*batch)
        some.process(*batch, 10_000)
        work, items = full.work, sum(len(set(v)) for table in batch for v in table["v"].to_pylist())
        assert work.spent == 10 * work.rows + 2 * items + 5 * work.lookups + work.postings + 6 * work.pairs
        spent.append(work.spent)
        needed.append(some.work.needed)
    assert np.mean(needed[20:]) == pytest.approx(np.mean(spent[20:]), rel=0.2)


def test_periods_give_each_part_of_the_input_its_own_budget() -> None:
    left, right = two_streams(rate=50, seconds=20, lag_s=3, seed=1)
    shuffled = left.take(np.random.default_rng(0).permutation(left.num_rows))
    on = overlap("v", at_least=3)
    whole = run(shuffled, right, on=on, within_s=8, time="ts")
    assert whole.equals(run(shuffled, right, on=on, within_s=8, time="ts", period_s=3))
    some = run(shuffled, right, on=on, within_s=8, time="ts", period_s=1, budget=3000)
    assert 0 < some.num_rows < whole.num_rows
    assert set(pairs(some)) < set(pairs(whole))
    assert run(left.slice(0, 0), right.slice(0, 0), on=on, within_s=8, time="ts", period_s=1).num_rows == 0


def test_salts_make_other_choices() -> None:
    left, right = two_streams(rate=50, seconds=20, lag_s=3, seed=1)
    given: dict[str, Any] = {"on": overlap("v", at_least=3), "within_s": 8, "time": "ts", "budget": 20_000}
    one, again, other = (run(left, right, shedding="random", salt=salt, **given) for salt in (1, 1, 2))
    assert one.equals(again)
    assert not one.equals(other)


def test_types_of_rows() -> None:
    left, right = two_streams(rate=30, seconds=10, lag_s=3, seed=1, kinds="ab")
    shedding = Shedding(utility=Utility("kind", {"a": 2.0}))
    config = JoinConfig(on=overlap("v", at_least=3), within_s=8, time="ts", shedding=shedding)
    assert (
        config.build().process(left, right).num_rows
        == JoinConfig(on=overlap("v", at_least=3), within_s=8, time="ts")
        .build()
        .process(left, right)
        .num_rows
    )
    with pytest.raises(SpillwayError, match="utility type"):
        config.build().process(left.drop_columns("kind"), right)
    numbers = Shedding(utility=Utility("kind", {1: 2.0}))
    with pytest.raises(SpillwayError, match="has type string, its values are int64"):
        JoinConfig(on=overlap("v", at_least=3), within_s=8, time="ts", shedding=numbers).build().process(
            left, right
        )


def test_a_column_must_not_change() -> None:
    join = JoinConfig(on=equality("v"), within_s=1, time="ts").build()
    join.process(ones(1), None)
    with pytest.raises(SpillwayError, match="has changed"):
        join.process(pa.table({"ts": [2], "v": [[1]]}), None)


def test_a_budget_and_a_fraction_are_one_too_many() -> None:
    with pytest.raises(SpillwayError, match="None beside a budget"):
        JoinConfig(on=equality("v"), within_s=1, time="ts").build().process(ones(1), None, 5, fraction=0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample": 2}, "sample"),
        ({"memory": 1.0}, "memory"),
        ({"period_s": 0}, "period_s"),
        ({"basic_window_s": 0}, "basic_window_s"),
        ({"slide": "jump"}, "slide"),
        ({"direct_by": "windows"}, "did you mean 'window'"),
        ({"learn_from": "al"}, "did you mean 'all'"),
        ({"utility": "kind"}, "utility"),
    ],
)
def test_shedding_is_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpillwayError, match=message):
        Shedding(**change)


def test_too_many_basic_windows_are_refused() -> None:
    with pytest.raises(SpillwayError, match="basic_window_s"):
        JoinConfig(on=equality("v"), within_s=1e6, time="ts", shedding=Shedding(basic_window_s=1))
    with pytest.raises(SpillwayError, match="late"):
        JoinConfig(on=equality("v"), within_s=1, time="ts", late="keep")  # type: ignore[arg-type]


def test_a_state_of_something_else_is_refused() -> None:
    config = JoinConfig(on=equality("v"), within_s=1, time="ts")
    join = config.build()
    join.process(ones(1, 2), ones(1))
    state = join.snapshot()
    for wrong, message in [
        (b"", "expected the bytes"),
        (b"x" * 100, "not the state of a join"),
        (state[:-9], "torn"),
        (state[:60] + b"?" + state[61:], "torn"),
        (STATE_FORMAT.magic + b"\x09\x00" + state[8:], "version 9"),
    ]:
        with pytest.raises(SpillwayError, match=message):
            config.build(wrong)
    with pytest.raises(SpillwayError, match="made by a join with equality"):
        JoinConfig(on=subset("v"), within_s=1, time="ts").build(state)
    with pytest.raises(SpillwayError, match="windows"):
        JoinConfig(on=equality("v"), within_s=2, time="ts").build(state)
    with pytest.raises(SpillwayError, match=r"by scan.*by index"):
        JoinConfig(on=equality("v"), within_s=1, time="ts", access="index").build(state)


def test_bytes_keep_arrays_of_all_kinds() -> None:
    given = {
        "small": np.array([-128, 127]),
        "wide": np.array([2**40]),
        "real": np.array([[0.1, np.inf]]),
        "none": np.empty((0, 3), np.int64),
        "text": np.array([1, 255], np.uint8),
    }
    meta, arrays = STATE_FORMAT.read(STATE_FORMAT.write({"a": None}, given))
    assert meta == {"a": None}
    for name, array in given.items():
        assert arrays[name].shape == array.shape
        assert arrays[name].tolist() == array.tolist()


def test_inner_products_below_one_item_s_weight_and_negative_weights() -> None:
    kind = pa.map_(pa.string(), pa.float64())
    left = pa.table({"ts": [0], "v": pa.array([[("a", 0.5), ("b", -1.0)]], kind)})
    right = pa.table({"ts": [0, 0], "v": pa.array([[("a", 0.5)], [("a", 2.0), ("b", 1.0)]], kind)})
    found = run(left, right, on=inner_product("v", at_least=0.25), within_s=1, time="ts")
    assert found.to_pydict() == {"left_row": [0], "right_row": [0], "score": [0.25]}


@pytest.mark.parametrize("items", [100, 200, 400, 2000])
@pytest.mark.parametrize("kind", ["overlap", "subset"])
def test_scans_agree_however_many_items_there_are(items: int, kind: str) -> None:
    """From bit sets with a bit for each item to signatures that only bound what is common."""
    rng = np.random.default_rng(items)
    sets = [
        rng.choice(items, size=n % 7 * (20 if items == 2000 else 1), replace=False).tolist()
        for n in range(300)
    ]
    table = pa.table({"ts": np.arange(300) / 10, "v": pa.array(sets, pa.list_(pa.int64()))})
    on = overlap("v", at_least=2) if kind == "overlap" else subset("v")
    found = [run(table, table, on=on, within_s=9, time="ts", access=access) for access in ACCESSES]
    assert found[0].num_rows > 200
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_items_that_come_and_go_are_given_bits_anew() -> None:
    join = JoinConfig(on=overlap("v", at_least=2), within_s=1, time="ts").build()
    for second in range(40):
        rows = pa.table(
            {"ts": [float(second)] * 3, "v": [[20 * second, 20 * second + 1, n] for n in range(3)]}
        )
        assert join.process(rows, rows).num_rows == 9
    scanning: Any = join.finder
    assert scanning._signatures.exact


def test_warming_up_leaves_one_signature_for_each_kernel() -> None:
    from spillway.core.join import item_sets, meetings
    from spillway.core.join.access import index, matches, scan
    from spillway.core.join.selection import range_selection, row_draws, time_correlation, utility
    from spillway.core.join.selection import sample as sampling

    warm_up(("scan", "index", "sorted_index"))
    left, right = two_streams(rate=20, seconds=5, lag_s=1, seed=1, kinds="ab")
    shedding = Shedding(utility=Utility("kind", {"a": 2.0, "b": 1.0}))
    for access in ACCESSES:
        given: dict[str, Any] = {"within_s": 2, "time": "ts", "budget": 5000, "access": access}
        run(left, right, on=overlap("v", at_least=2), shedding=shedding, **given)
        run(left, right, on=overlap("v", at_least=2), shedding="random", **given)
    kernels: list[Any] = [
        *(
            range_selection._choose,
            time_correlation._tally,
            time_correlation._estimate,
            row_draws._draw,
            index._search,
        ),
        *(index._insert_all, index._expire_all, matches._numbered, sampling._sample, scan._scan),
        *(scan._scan_single, meetings._meetings, utility._tally, item_sets._tidy),
    ]
    assert {kernel.__name__: len(kernel.signatures) for kernel in kernels} == {
        kernel.__name__: 1 for kernel in kernels
    }
