"""Spark's hash outside Spark: against XXH64's published vectors and a slow version written from its description.

That Spark itself gives the same hashes is tested with Spark, in tests/spark/test_row_hash.py.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.random import mix, threshold
from spillway.core.row_hash import SEED, row_hashes
from spillway.errors import SpillwayError

M = 2**64
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def slow_xxh64(data: bytes, seed: int) -> int:
    """XXH64 as its specification describes it, one step at a time."""

    def turn(x: int, r: int) -> int:
        return ((x << r) | (x >> (64 - r))) % M

    def lane(acc: int, word: int) -> int:
        return turn((acc + word * P2) % M, 31) * P1 % M

    left = data
    if len(data) >= 32:
        accs = [(seed + P1 + P2) % M, (seed + P2) % M, seed, (seed - P1) % M]
        while len(left) >= 32:
            accs = [lane(a, int.from_bytes(left[8 * k : 8 * k + 8], "little")) for k, a in enumerate(accs)]
            left = left[32:]
        h = sum(turn(a, r) for a, r in zip(accs, (1, 7, 12, 18), strict=True)) % M
        for a in accs:
            h = ((h ^ lane(0, a)) * P1 + P4) % M
    else:
        h = (seed + P5) % M
    h = (h + len(data)) % M
    while len(left) >= 8:
        h = (turn(h ^ lane(0, int.from_bytes(left[:8], "little")), 27) * P1 + P4) % M
        left = left[8:]
    if len(left) >= 4:
        h = (turn(h ^ (int.from_bytes(left[:4], "little") * P1 % M), 23) * P2 + P3) % M
        left = left[4:]
    for byte in left:
        h = turn(h ^ (byte * P5 % M), 11) * P1 % M
    for shift, prime in ((33, P2), (29, P3), (32, 1)):
        h = (h ^ (h >> shift)) * prime % M
    return h


def signed(h: int) -> int:
    return h - M if h >= M // 2 else h


def salted(h: int, salt: int) -> int:
    return signed(slow_xxh64((salt % M).to_bytes(8, "little"), h))


def test_the_slow_version_agrees_with_the_published_vectors() -> None:
    assert slow_xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert slow_xxh64(b"abc", 0) == 0x44BC2CF5AD770999


@given(
    st.lists(st.binary(max_size=100) | st.none(), min_size=1, max_size=20), st.integers(-(2**63), 2**63 - 1)
)
def test_bytes(values: list[bytes | None], salt: int) -> None:
    want = [salted(SEED if v is None else slow_xxh64(v, SEED), salt) for v in values]
    assert row_hashes([pa.array(values, pa.binary())], salt, len(values)).tolist() == want


@given(st.lists(st.text(max_size=40), min_size=2, max_size=20), st.integers(1, 1))
def test_text_also_in_slices(values: list[str], skip: int) -> None:
    array = pa.array(values).slice(skip)
    want = [salted(slow_xxh64(v.encode(), SEED), 7) for v in values[skip:]]
    assert row_hashes([array], 7, len(array)).tolist() == want


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)), min_size=1))
def test_integers_chain(rows: list[tuple[int, int]]) -> None:
    longs, ints = zip(*rows, strict=True)
    want = []
    for a, b in rows:
        h = slow_xxh64((a % M).to_bytes(8, "little"), SEED)
        h = slow_xxh64((b % 2**32).to_bytes(4, "little"), h)
        want.append(salted(h, -1))
    columns = [pa.array(longs, pa.int64()), pa.chunked_array([pa.array(ints, pa.int32())])]
    assert row_hashes(columns, -1, len(rows)).tolist() == want


def test_zero_is_zero_and_nan_is_nan() -> None:
    for kind in (pa.float32(), pa.float64()):
        h = row_hashes([pa.array([0.0, -0.0, float("nan"), -float("nan")], kind)], 0, 4)
        assert h[0] == h[1]
        assert h[2] == h[3]


def test_finer_times_hash_as_the_microseconds_that_spark_has() -> None:
    fine, coarse = (
        pa.array(np.arange(5) * step, pa.timestamp(unit)) for step, unit in ((1_001, "ns"), (1, "us"))
    )
    assert row_hashes([fine], 7, 5).tolist() == row_hashes([coarse], 7, 5).tolist()


def test_a_type_that_cannot_be_hashed_is_named() -> None:
    with pytest.raises(SpillwayError, match="list<"):
        row_hashes([pa.array([[1]])], 0, 1)


@given(st.floats(0, 1))
def test_a_threshold_keeps_its_share(p: float) -> None:
    hashes = row_hashes([pa.array(np.arange(4000))], 3, 4000)
    share = float((hashes <= threshold(p)).mean())
    assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / 4000) + 1e-3


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
def test_salts_are_signed_and_repeat(parts: list[int]) -> None:
    assert -(2**63) <= mix(*parts) < 2**63
    assert mix(*parts) == mix(*parts)


def test_salts_of_neighbours_draw_independently() -> None:
    first, second = (row_hashes([pa.array(np.arange(10_000))], mix(9, b), 10_000) <= 0 for b in (1, 2))
    assert abs(float((first & second).mean()) - 0.25) < 0.02
