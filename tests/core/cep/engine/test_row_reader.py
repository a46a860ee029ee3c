"""Decimals are read as the fraction that is nearest to them, as the constants of a query are."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from spillway.core.cep import run
from spillway.core.cep.engine.row_reader import Reader
from spillway.core.data.vocabulary import Vocabulary
from tests.core.cep.engine.streams import typed


def read(column: pa.Array) -> list[float]:
    reader = Reader("ts", "type", ["A"], [("p", "float")], Vocabulary())
    return reader.attributes(pa.table({"p": column}))["p"].tolist()  # type: ignore[no-any-return]


def drawn(kind: pa.DataType, count: int, seed: int) -> list[Decimal | None]:
    """Decimals of all lengths up to the type's, of both signs, and some nulls."""
    luck = random.Random(seed)
    tops = [10 ** luck.randint(1, kind.precision) - 1 for _ in range(count)]
    digits = [luck.randint(-top, top) for top in tops]
    return [None if luck.random() < 0.1 else Decimal(n).scaleb(-kind.scale) for n in digits]


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.decimal128(precision, scale) for precision in (1, 7, 10, 15) for scale in (0, 1, 2, 7, 15, -4)),
        *(pa.decimal128(15, 22), pa.decimal128(15, -22), pa.decimal128(15, 23), pa.decimal128(15, -30)),
        *(pa.decimal256(15, 6), pa.decimal256(12, -3), pa.decimal128(38, 10)),
        *(getattr(pa, f"decimal{width}")(9, 3) for width in (32, 64) if hasattr(pa, f"decimal{width}")),
    ],
    ids=str,
)
def test_a_decimal_is_the_fraction_that_its_text_is(kind: pa.DataType) -> None:
    values = drawn(kind, 2_000, seed=kind.precision * 100 + kind.scale)
    largest = pa.decimal256(
        76, kind.scale
    )  # values may have fewer digits than places, which Python's way in refuses
    column = pa.array(values, largest).cast(kind)
    for part, expected in ((column, values), (column.slice(333, 1_000), values[333:1_333])):
        texts = [np.nan if value is None else float(str(value)) for value in expected]
        np.testing.assert_array_equal(read(part), texts)


def test_what_lies_below_a_null_is_not_read() -> None:
    junk = np.array([5, 0, 2**62, 2**62], np.int64)
    valid = pa.array([True, False]).buffers()[1]
    column = pa.Array.from_buffers(pa.decimal128(10, 2), 2, [valid, pa.py_buffer(junk.tobytes())])
    np.testing.assert_array_equal(read(column), [0.05, np.nan])
    assert read(column.slice(0, 0)) == []


@pytest.mark.parametrize(
    "condition", ["= 428960.47", "IN {428960.47}", "<= 428960.47", ">= 428960.47 AND a.x = a.p"]
)
def test_a_decimal_is_equal_to_the_constant_that_is_written_like_it(condition: str) -> None:
    price = pa.array([Decimal("428960.47")], pa.decimal128(10, 2))
    table = typed("A", p=price, x=[428960.47])
    found = run(f"PATTERN SEQ(A a) WHERE a.p {condition} WITHIN 1 s", table, time="ts", type="type")
    assert found.num_rows == 1
