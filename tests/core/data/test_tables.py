"""Whatever way Arrow holds values, patterns and joins find the same; what they cannot read is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spillway.core import join
from spillway.core.cep import PatternConfig, Shed, run, run_with_timeouts
from spillway.core.data.tables import plain_type, table_of
from spillway.core.join import equality, inner_product, overlap
from spillway.errors import SpillwayError

ROWS = 60
EVENTS = pa.table(
    {
        "ts": pa.array(range(ROWS), pa.timestamp("us")),
        "type": [("A", "B", "C", None)[n % 4] for n in range(ROWS)],
        "tag": [("p", "q", None)[n % 3] for n in range(ROWS)],
        "id": [None if n % 7 == 0 else n // 10 % 2 for n in range(ROWS)],
    }
)
QUERY = "PATTERN SEQ(A a, B b) WHERE [tag, id] WITHIN 30 us"
WORDS = [["oil", "rain"], None, [], ["rain"], ["oil", None], ["rain", "oil"]]
STORIES = pa.table({"ts": range(6), "words": WORDS, "tag": ["p", "q", None, "p", "q", "p"]})


def in_views(array: pa.Array) -> pa.Array:
    return array.cast(pa.string_view())


def in_dictionary_of_views(array: pa.Array) -> pa.Array:
    coded = array.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string_view()))


def in_json(array: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), array)


ANY: list[Callable[[pa.Array], pa.Array]] = [pa.Array.dictionary_encode, pc.run_end_encode]
TEXT = [*ANY, in_views, in_dictionary_of_views, in_json, lambda array: array.cast(pa.large_string())]


def held(table: pa.Table, name: str, how: Callable[[pa.Array], pa.Array]) -> pa.Table:
    """Return a table with a column that is held in another way, in two chunks, the first of them cut off."""
    column = table[name].combine_chunks()
    chunks = [how(column.slice(0, 3)), how(pa.concat_arrays([column.slice(0, 2), column.slice(3)])).slice(2)]
    return table.set_column(table.column_names.index(name), name, pa.chunked_array(chunks, chunks[0].type))


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for name in EVENTS.column_names for how in (TEXT if name in "type tag" else ANY)],
)
def test_a_pattern_finds_the_same(name: str, how: Callable[[pa.Array], pa.Array]) -> None:
    expected = run(QUERY, EVENTS, time="ts", type="type")
    assert expected.num_rows >= 5
    odd = held(EVENTS, name, how)
    assert odd.schema != EVENTS.schema
    assert run(QUERY, odd, time="ts", type="type") == expected
    assert run_with_timeouts(QUERY, odd, time="ts", type="type")[0] == expected
    operator = PatternConfig(QUERY, odd.schema, time="ts", type="type", compile=False).build()
    assert operator.process(odd).to_pylist() == expected.to_pylist()
    for table, history in ((odd, EVENTS), (EVENTS, odd)):
        shed = Shed(strategy="random_state", bound_s=1.0, history=history, check_events=10)
        assert run(QUERY, table, time="ts", type="type", shedding=shed).num_rows > 0


@pytest.mark.parametrize("how", TEXT)
@pytest.mark.parametrize("period_s", [None, 2.0])
def test_a_join_on_single_values_finds_the_same(
    how: Callable[[pa.Array], pa.Array], period_s: float | None
) -> None:
    options: dict[str, Any] = {"on": equality("tag"), "within_s": 9.0, "time": "ts", "period_s": period_s}
    expected = join.run(STORIES, STORIES, **options)
    assert expected.num_rows == 9 + 4
    odd = held(STORIES, "tag", how)
    for left, right in ((odd, STORIES), (STORIES, odd), (odd, odd)):
        assert join.run(left, right, **options) == expected
    times = held(STORIES, "ts", pa.Array.dictionary_encode)
    assert join.run(times, times.combine_chunks().to_batches()[0], **options) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_view(pa.string()),
        pa.large_list_view(pa.string_view()),
        pa.list_(pa.string_view()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
        pa.large_list(pa.large_string()),
    ],
)
def test_a_join_on_sets_finds_the_same(kind: pa.DataType) -> None:
    options: dict[str, Any] = {"on": overlap("words", at_least=1), "within_s": 9.0, "time": "ts"}
    odd = STORIES.set_column(1, "words", pa.array(WORDS, kind))
    expected = join.run(STORIES, STORIES, **options)
    assert expected.num_rows > 10
    assert join.run(odd, STORIES, **options) == expected
    assert join.run(odd.slice(1), odd.slice(1), **options) == join.run(
        STORIES.slice(1), STORIES.slice(1), **options
    )


def test_a_join_on_weights_finds_the_same() -> None:
    weights = [[("oil", 1.0)], [("oil", 2.0), ("rain", 1.0)], None, [], [("rain", 0.5)], [("oil", 1.0)]]
    options: dict[str, Any] = {"on": inner_product("w", at_least=1.0), "within_s": 9.0, "time": "ts"}
    plain, odd = (
        STORIES.append_column("w", pa.array(weights, pa.map_(word, pa.float64())))
        for word in (pa.string(), pa.string_view())
    )
    assert join.run(odd, odd, **options) == join.run(plain, plain, **options)


def test_what_is_plain_stays_as_it_is() -> None:
    named = pa.struct([pa.field("word", pa.list_(pa.field("element", pa.string(), nullable=False)))])
    assert plain_type(named) is named
    assert table_of("table", EVENTS) is EVENTS


def with_another(table: pa.Table, name: str) -> pa.Table:
    return pa.table([*table.columns, table.column(0)], names=[*table.column_names, name])


def test_columns_of_the_same_name_are_refused_where_they_are_needed() -> None:
    expected = run(QUERY, EVENTS, time="ts", type="type")
    assert run(QUERY, with_another(with_another(EVENTS, "z"), "z"), time="ts", type="type") == expected
    for name, field in (("ts", "time"), ("type", "type"), ("id", "attribute"), ("tag", "attribute")):
        twice = with_another(EVENTS, name)
        said = rf"{field} = '{name}': 2 columns have that name. Hint: rename all but one"
        for find in (run, run_with_timeouts):
            with pytest.raises(SpillwayError, match=said):
                find(QUERY, twice, time="ts", type="type")
        shed = Shed(bound_ratio=0.5, history=twice)
        with pytest.raises(SpillwayError, match=f"history: {said}"):
            run(QUERY, EVENTS, time="ts", type="type", shedding=shed)
    for name, field in (("ts", "time"), ("tag", "on, right column")):
        with pytest.raises(SpillwayError, match=f"{field} = '{name}': 2 columns"):
            join.run(STORIES, with_another(STORIES, name), on=equality("tag"), within_s=9.0, time="ts")


def test_what_is_no_table_or_no_time_is_told() -> None:
    frame = type("DataFrame", (), {"columns": (), "index": ()})()
    with pytest.raises(SpillwayError, match=r"table = 'DataFrame'.*pa.Table.from_pandas"):
        run(QUERY, frame, time="ts", type="type")  # type: ignore[arg-type]
    with pytest.raises(SpillwayError, match=r"right = 'list'"):
        join.run(STORIES, [1], on=equality("tag"), within_s=9.0, time="ts", period_s=1.0)  # type: ignore[arg-type]
    late = EVENTS.set_column(0, "ts", pa.array([2**63 + 5] * ROWS, pa.uint64()))
    with pytest.raises(SpillwayError, match="time = 'ts' holds a value too large"):
        run(QUERY, late, time="ts", type="type")
    batch = EVENTS.combine_chunks().to_batches()[0]
    assert run(QUERY, batch, time="ts", type="type") == run(QUERY, EVENTS, time="ts", type="type")  # type: ignore[arg-type]
