"""What the benchmark of patterns on Spark compares with, and how it adds up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from benchmarks.cep.on_spark import _QUANTILES, _QUERY, FULL, drawn, per_event, summed
from benchmarks.spark.tally import Tally
from spillway.core import cep
from spillway.replay import Rates

PLAN = replace(FULL, cycle=400, window=300, ids=20)


def test_each_round_of_events_has_as_many_matches() -> None:
    counted = per_event(PLAN, drawn(PLAN, PLAN.cycle, seed=42))
    once = drawn(PLAN, PLAN.cycle, seed=42)
    at = pa.array(np.arange(3 * PLAN.cycle), pa.timestamp("us", "UTC"))
    thrice = pa.concat_tables([once] * 3).set_column(0, "ts", at)
    found = cep.run(_QUERY.format(window=PLAN.window), thrice, time="ts", type="type")
    last = np.bincount(found["c"].to_numpy(), minlength=3 * PLAN.cycle).reshape(3, -1)
    assert last[1].tolist() == last[2].tolist() == counted.tolist()
    assert counted.sum() > 20
    assert set(once["ID"].to_pylist()) == set(range(1, PLAN.ids + 1))


def test_recall_and_delay_are_those_of_all_batches_together() -> None:
    trace = Rates((10.0,), (10.0,))
    seen = [
        {"n": 30, "at": [9, 19], "now_s": 105.0},
        {"n": 0, "at": [], "now_s": 106.0},
        {"n": 70, "at": [39, 49], "now_s": 107.0},
    ]
    played = summed(Tally(F.col, 0, 1, _QUANTILES, seen), 100.0, trace, truth=400)
    assert played.recall == pytest.approx(0.25)
    assert played.p95_delay_s == pytest.approx(4.0)
