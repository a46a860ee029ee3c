"""Fewer keys where all work is fruitful, and rows that forbid stay whatever goes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep.config import PatternConfig
from spillway.core.cep.estimation import EstimationConfig, learn
from spillway.core.cep.language import correlation, parse
from spillway.core.cep.shedding import TriggerConfig, WatchConfig, precision, simulate, strategy_of
from spillway.core.cep.shedding.decision_tree import Tree
from spillway.core.cep.shedding.draws import draws
from spillway.core.cep.shedding.input_filter import InputFilter
from spillway.core.cep.shedding.orders import Orders

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE [id] WITHIN 2 ms"
FORBIDDEN = "PATTERN SEQ(A a, NEG B n, C c, B b) WHERE [id] AND a.v + c.v > n.v WITHIN 400 us"


def stream(rows: int, salt: int, keys: int = 40) -> pa.Table:
    kind, value, key = (draws(np.arange(rows), salt + n) for n in range(3))
    return pa.table(
        {
            "ts": pa.array(np.arange(rows)).cast(pa.timestamp("us")),
            "type": np.array(list("ABCD"))[(kind * 4).astype(int)],
            "id": (key * keys).astype(int),
            "v": (value * 10).astype(int),
        }
    )


def test_where_no_work_is_in_vain_a_share_of_the_keys_has_its_share_of_the_matches() -> None:
    table, since, share = stream(16_000, salt=1), 4_000, 0.2
    config = PatternConfig(QUERY, table.schema, time="ts", type="type", index="all")
    learned = learn(config, stream(6_000, salt=7), EstimationConfig(clusters=4))
    truth = simulate(config, table, learned, None, check_events=1_000)
    bound_s, recall = share * truth.latency_s(since), {}
    for name in ("hybrid", "state"):
        watch = WatchConfig(trigger=TriggerConfig(bound_s=bound_s))
        outcome = simulate(config, table, learned, strategy_of(name, watch, learned))
        recall[name] = outcome.recall(truth, since)
        assert outcome.latency_s(since) < bound_s
    assert recall["hybrid"] > 0.7 * share
    assert recall["hybrid"] > 1.2 * recall["state"]


def test_events_of_a_key_go_or_stay_together() -> None:
    query = parse("PATTERN SEQ(A a, B b) WHERE a.id = b.user WITHIN 1 s")
    schema = pa.schema(
        [("ts", pa.timestamp("us")), ("type", pa.string()), ("id", pa.int64()), ("user", pa.int64())]
    )
    plan = PatternConfig(query, schema, time="ts", type="type").build().plan
    single = (Tree.single(),) * 2
    rows = np.arange(100_000)
    key, kinds = (draws(rows, 1) * 1_000).astype(int), (draws(rows, 2) * 2).astype(int)
    other = draws(rows, 3)
    attributes = {"id": np.where(kinds == 0, key, other), "user": np.where(kinds == 1, key, other)}
    kept = InputFilter(plan, single, Tree.single(), key=correlation(query, schema)).keep(
        Orders(keys=0.7), kinds, attributes, np.full(len(rows), -1), rows
    )
    by_key = np.bincount(key, kept) / np.bincount(key)
    assert kept.mean() == pytest.approx(0.3, abs=0.06)
    assert np.isin(by_key, (0.0, 1.0)).mean() > 0.9


@pytest.mark.parametrize("name", ["hybrid", "input"])
def test_rows_that_forbid_stay_though_they_could_also_complete_a_match(name: str) -> None:
    table = stream(6_000, salt=1, keys=5)
    config = PatternConfig(FORBIDDEN, table.schema, time="ts", type="type", index="attributes")
    learned = learn(config, stream(2_000, salt=7, keys=5), EstimationConfig(clusters=4))
    truth = simulate(config, table, learned, None, keep_matches=True)
    watch = WatchConfig(trigger=TriggerConfig(bound_s=0.3 * truth.latency_s(1_000)))
    found = simulate(config, table, learned, strategy_of(name, watch, learned), keep_matches=True)
    assert found.found is not None
    assert truth.found is not None
    assert 0 < found.found.num_rows < truth.found.num_rows
    assert precision(found.found, truth.found) == 1.0
    assert found.kept[np.asarray(table["type"].to_pylist()) == "B"].all()
