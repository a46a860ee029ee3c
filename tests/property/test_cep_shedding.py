"""What shedding of patterns promises, whatever the strategy.

It finds some of the matches and no other where ``invented`` says so, and goes on exactly from a snapshot.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spillway.core.cep import PatternConfig, Shed, TriggerConfig, WatchConfig, parse, run
from spillway.core.cep.estimation import EstimationConfig, learn
from spillway.core.cep.language.syntax import Query
from spillway.core.cep.shed import invented
from spillway.core.cep.shedding import Enforcer, Learned, strategy_of
from spillway.core.cep.shedding.draws import draws
from spillway.errors import SpillwayError
from tests.core.cep.oracle import matches
from tests.core.cep.strategies import Row, queries, streams, table

NAMES = ("hybrid", "state", "input", "random_input", "selective_input", "random_state", "selective_state")
QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.id = b.id AND a.id = c.id AND a.v + b.v = c.v WITHIN 60 us"
ROWS = 240


class Case(NamedTuple):
    config: PatternConfig
    learned: Learned
    table: pa.Table


def stream(rows: int, salt: int) -> pa.Table:
    kind, key, value = (draws(np.arange(rows), salt + n) for n in range(3))
    columns = {"type": np.array(list("ABCD"))[(kind * 4).astype(int)], "id": (key * 2).astype(int)}
    times = pa.array(np.arange(rows), pa.timestamp("us"))
    return pa.table({"ts": times, **columns, "v": 1 + (value * 4).astype(int)})


@cache
def case(index: str = "attributes") -> Case:
    table = stream(ROWS, salt=1)
    config = PatternConfig(QUERY, table.schema, time="ts", type="type", index=index, compile=False)
    learned = learn(config, stream(300, salt=9), EstimationConfig(clusters=3))
    tracked = replace(config, tracked=True, classes=learned.classes, slices=learned.gain.shape[2])
    return Case(tracked, learned, table)


def enforcer(name: str, runs: bytes | None = None, state: bytes | None = None) -> Enforcer:
    config, learned, _ = case()
    watch = WatchConfig(trigger=TriggerConfig(bound_s=0.3e-6 * float(learned.per_event[0])), smooth=50)
    strategy = strategy_of(name, watch, learned)
    return Enforcer(config.build(runs), strategy, learned.trees, learned.last, salt=5, state=state)


def results(name: str, sizes: list[int], cuts: list[bool]) -> list[Any]:
    """What every call does, with a new enforcer after the calls that are cut."""
    made, at, found = enforcer(name), 0, []
    for size, cut in zip(sizes, cuts, strict=True):
        done = made.process(case().table.slice(at, size))
        at += size
        tables = [getattr(done.orders, part) for part in ("shed", "refuse", "unwanted", "events", "types")]
        orders = [done.orders.keys, *(None if table is None else table.tolist() for table in tables)]
        found.append((done.matches.to_pylist(), done.seen.times.tolist(), orders, done.orders.reason))
        if cut:
            made = enforcer(name, made.patterns.snapshot(), made.snapshot())
    return [*found, made.shed_runs, made.refused_runs, made.discarded, made.rows]


@settings(max_examples=40)
@given(st.sampled_from([*NAMES, "none"]), st.lists(st.integers(0, 60), min_size=4, max_size=10), st.data())
def test_it_goes_on_exactly_from_a_snapshot(name: str, sizes: list[int], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    assert results(name, sizes, cuts) == results(name, sizes, [False] * len(sizes))


def history(query: Query, seed: int) -> pa.Table:
    """Thirty rows, six or seven in a window, with values as ``strategies.streams`` draws them."""
    luck, step = random.Random(seed), max(1, query.within_us // 6)
    values: dict[str, list[Any]] = {
        "type": [*"AABBCCD"],
        "id": [0, 0, 1],
        "v": [1, 0, 2, -1],
        "x": [0.5, 1.0, -1.5],
    }
    values |= {"tag": ["p", "q", None], "flag": [True, False, None]}
    rows = [{name: luck.choice(of) for name, of in values.items()} | {"ts": n * step} for n in range(30)]
    return table(rows)


def subset(query: Query, rows: list[Row], name: str, seed: int) -> tuple[int, int]:
    """Check that a strategy finds some of the matches and no other; return how many, and how many there are."""
    luck = random.Random(seed)
    how = Shed(
        strategy=name,  # type: ignore[arg-type]
        bound_ratio=luck.choice([0.05, 0.3, 0.7]),
        history=history(query, luck.randrange(5)),
        smooth_events=luck.choice([1, 3, 10]),
        check_events=luck.choice([1, 2, 3]),
        slices=luck.choice([1, 3]),
        clusters=2,
        salt=seed,
    )
    try:
        some = run(query, table(rows), time="ts", type="type", shedding=how)
    except SpillwayError as error:
        assume("no rows with which the pattern begins" not in str(error))
        raise
    assert not some.schema.metadata
    found = [tuple(tuple(v) if isinstance(v, list) else v for v in row.values()) for row in some.to_pylist()]
    everything = matches(query, rows)
    assert len(set(found)) == len(found)
    assert set(found) <= everything
    return len(found), len(everything)


POLICIES = ("any", "next", "strict")
MONOTONIC: dict[
    str, tuple[tuple[str, ...], bool]
] = {  # under which policies, and whether with negated elements
    **dict.fromkeys(("state", "random_state", "selective_state"), (POLICIES, True)),
    **dict.fromkeys(("hybrid", "input"), (("any",), True)),
    **dict.fromkeys(("random_input", "selective_input"), (("any",), False)),
}


NEGATED = [  # whose matches are forbidden often; rows that are dropped at random invent some of every second stream
    parse("PATTERN SEQ(A a, NEG B m, C c) WITHIN 10 us"),
    parse("PATTERN SEQ(NEG B m, (A|C) a) WITHIN 6 us"),
    parse("PATTERN SEQ(A a, C+ c[], NEG B m) WHERE m.id = a.id WITHIN 6 us"),
]


@pytest.mark.parametrize("name", NAMES)
def test_no_match_is_invented_where_none_is_said_to_be(name: str) -> None:
    policies, negation = MONOTONIC[name]
    seen = []

    drawn = st.tuples(queries(policies, negation), streams(max_rows=11))
    if negation:
        drawn |= st.tuples(st.sampled_from(NEGATED), streams(max_rows=16))

    @settings(max_examples=16)
    @given(drawn, st.integers(0, 10**6))
    def over_queries(both: tuple[Query, list[Row]], seed: int) -> None:
        query, rows = both
        assert invented(query, name) is None
        seen.append(subset(query, rows, name, seed))

    over_queries()
    assert any(some < everything for some, everything in seen), "something is shed"
    assert any(some for some, _ in seen), "and something is found"


def test_each_strategy_sheds_here() -> None:
    """What is compared above is more than nothing."""
    for name in NAMES:
        *_, shed, refused, discarded, _ = results(name, [20] * 12, [False] * 12)
        assert shed + refused + discarded > 0, name


def test_states_of_others_are_refused() -> None:
    made = enforcer("random_state")
    made.process(case().table.slice(0, 20))
    runs, state = made.patterns.snapshot(), made.snapshot()
    with pytest.raises(SpillwayError, match=r"made by 'random_state' over .* this is 'hybrid'"):
        enforcer("hybrid", runs, state)
    with pytest.raises(SpillwayError, match="made with a strategy"):
        enforcer("none", runs, state)
    with pytest.raises(SpillwayError, match="not the state of an enforcer"):
        enforcer("random_state", runs, runs)
    assert made.strategy is not None
    with pytest.raises(SpillwayError, match="not the state of a strategy"):
        made.strategy.restore(state)
