"""Patterns of other shapes than the paper's first query: shedding by class beats chance, and goes on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep import PatternConfig, Shed, run
from spillway.core.cep.estimation import learn
from spillway.core.cep.shedding import TriggerConfig, WatchConfig, simulate, strategy_of
from spillway.core.cep.shedding.draws import draws

KLEENE = (
    "PATTERN SEQ(A a, B{1,3} b[], C c) WHERE [id] AND a.v <= c.v AND b[i].v < c.w + 4 AND b[last].w < c.v "
    "WITHIN 120 us"
)

SINGLE = "PATTERN SEQ(A a, B b, C c) WHERE [id] AND a.v <= c.v AND b.v < c.w + 4 AND b.w < c.v WITHIN 200 us"


def stream(rows: int, salt: int) -> pa.Table:
    """Three of five events are a B; values decide how many of a run's future rows fit."""
    kind, key, v, w = (draws(np.arange(rows), 10 * salt + n) for n in range(4))
    return pa.table(
        {
            "ts": pa.array(np.arange(rows)).cast(pa.timestamp("us")),
            "type": np.array(list("ABBBC"))[(kind * 5).astype(int)],
            "id": (key * 10).astype(int),
            "v": (v * 20).astype(int),
            "w": (w * 20).astype(int),
        }
    )


def test_where_an_element_repeats_the_hybrid_finds_more_than_chance() -> None:
    """Most of the work is that of B, so discarding C would not help; and gains differ by value, costs by length."""
    table = stream(9_000, salt=3)
    config = PatternConfig(KLEENE, table.schema, time="ts", type="type", index="attributes")
    learned = learn(config, stream(4_000, salt=70))
    assert learned.trees[1].classes > 3, "not by length alone"
    truth = simulate(config, table, learned, None)
    unshed_s = truth.latency_s(1_000)
    watch = WatchConfig(trigger=TriggerConfig(bound_s=unshed_s / 2))
    recall = {}
    for name in ("hybrid", "random_state", "random_input"):
        strategy = strategy_of(name, watch, learned, unshed_s=unshed_s)
        found = simulate(config, table, learned, strategy)
        recall[name] = found.recall(truth, 1_000)
        assert found.latency_s(1_000) < unshed_s / 2
    assert recall["hybrid"] > 1.1 * max(recall["random_state"], recall["random_input"]), recall


@pytest.mark.few
@pytest.mark.parametrize("strategy", ["hybrid", "random_state", "random_input"])
@pytest.mark.parametrize("policy", ["skip_till_any_match", "skip_till_next_match", "strict_contiguity"])
def test_a_percentile_may_be_bounded_where_runs_come_and_go_between_checks(
    strategy: str, policy: str
) -> None:
    table, history = stream(300, salt=5), stream(300, salt=6)
    shed = Shed(
        strategy=strategy,  # type: ignore[arg-type]
        bound_ratio=0.5,
        history=history,
        percentile=95.0,
        smooth_events=10,
        check_events=5,
    )
    query = f"PATTERN SEQ(A a, B b) WITHIN 9 us UNDER {policy}"
    found = run(query, table, time="ts", type="type", shedding=shed)
    assert (
        found.num_rows <= run(query, table, time="ts", type="type").num_rows
        or policy != "skip_till_any_match"
    )


def test_a_history_without_a_match_tells_types_apart_by_nothing() -> None:
    table, history = stream(600, salt=5), stream(600, salt=6)
    none = history.set_column(1, "type", pa.array(["A", "B"] * 300))
    shed = Shed(strategy="selective_input", bound_s=2e-6, history=none)
    found = run(KLEENE, table, time="ts", type="type", shedding=shed)
    assert found.num_rows < run(KLEENE, table, time="ts", type="type").num_rows


@pytest.mark.parametrize("query", [KLEENE, SINGLE])
def test_a_history_without_a_match_does_not_make_everything_worthless(query: str) -> None:
    """No C of the history is large enough for a match; what is found then is a fair part of what chance finds."""
    table, history = stream(6_000, salt=5), stream(3_000, salt=6)
    low = np.where(np.array(history["type"].to_pylist()) == "C", -100, history["v"].to_numpy())
    none = history.set_column(3, "v", pa.array(low))
    assert run(query, none, time="ts", type="type").num_rows == 0
    found = {
        name: run(
            query,
            table,
            time="ts",
            type="type",
            shedding=Shed(strategy=name, bound_ratio=0.5, history=none, index="attributes"),  # type: ignore[arg-type]
        ).num_rows
        for name in ("hybrid", "random_state")
    }
    assert found["hybrid"] > 0.4 * found["random_state"] > 0


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39, 1e300])
def test_values_beyond_32_bits_are_learned_from(value: float) -> None:
    table = stream(1_500, salt=5)
    v = table["v"].to_numpy().astype(np.float64)
    v[::50] = value
    table = table.set_column(3, "v", pa.array(v))
    shed = Shed(bound_ratio=0.5, history=table)
    truth = run(KLEENE, table, time="ts", type="type")
    found = run(KLEENE, table, time="ts", type="type", shedding=shed)
    assert 0 < found.num_rows < truth.num_rows


def test_a_history_of_less_than_a_window_is_refused() -> None:
    table = stream(600, salt=5)
    with pytest.raises(ValueError, match=r"a table over 0.82 windows.* 1.5 windows or more"):
        run(
            KLEENE, table, time="ts", type="type", shedding=Shed(bound_ratio=0.5, history=table.slice(0, 100))
        )
