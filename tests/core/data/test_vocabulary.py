"""Words and codes: two words never share a code while both are in use, whatever the hash does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.data.vocabulary import EMPTY, Vocabulary, stable_hash
from spillway.core.join import JoinConfig, overlap
from tests.core.join.oracle import join


def poor_hash(words: pa.Array) -> np.ndarray:
    """Three values only, one of them reserved."""
    return np.where(stable_hash(words) % 3 == 0, EMPTY, stable_hash(words) % 3)


words = st.lists(st.text(alphabet="abö", max_size=3), max_size=8)


@given(batches=st.lists(words, max_size=5))
def test_codes_tell_words_apart_although_hashes_collide(batches: list[list[str]]) -> None:
    vocabulary, known = Vocabulary(poor_hash), dict[str, int]()
    for batch in batches:
        codes = vocabulary.encode(pa.array(batch, pa.string())).tolist()
        for word, code in zip(batch, codes, strict=True):
            assert known.setdefault(word, code) == code
        again = Vocabulary(poor_hash)
        again.restore(vocabulary.snapshot())
        assert again.encode(pa.array(sorted(known), pa.string())).tolist() == [
            known[w] for w in sorted(known)
        ]
    assert len(set(known.values())) == len(known) == len(vocabulary)
    assert EMPTY not in known.values()


@given(batches=st.lists(st.tuples(words, st.sets(st.text(alphabet="abö", max_size=3))), max_size=6))
def test_words_in_use_keep_their_codes_when_those_before_them_are_forgotten(
    batches: list[tuple[list[str], set[str]]],
) -> None:
    vocabulary, known = Vocabulary(poor_hash), dict[str, int]()
    for batch, gone in batches:
        for word, code in zip(batch, vocabulary.encode(pa.array(batch, pa.string())).tolist(), strict=True):
            assert known.setdefault(word, code) == code
        assert len(set(known.values())) == len(known)
        known = {word: code for word, code in known.items() if word not in gone}
        used = np.array([*known.values()], np.int64)
        vocabulary._prune_above = 0
        vocabulary.forget(lambda used=used: used)  # type: ignore[misc]
        again = vocabulary.encode(pa.array([*known], pa.string())).tolist()
        assert again == [*known.values()]


@pytest.mark.parametrize("home", [7, 2**63 - 2, EMPTY])
def test_codes_go_round_and_what_is_in_no_one_s_way_is_forgotten(home: int) -> None:
    vocabulary = Vocabulary(lambda those: np.full(len(those), home))
    codes = vocabulary.encode(pa.array(list("abcdef")))
    for used, left in (([3], 4), ([1], 2), ([], 0)):
        vocabulary._prune_above = 0
        vocabulary.forget(lambda used=used: codes[used])  # type: ignore[misc]
        assert len(vocabulary) == left
        assert vocabulary.encode(pa.array(list("abcdef"))[:left]).tolist() == codes[:left].tolist()


def test_a_join_is_exact_although_hashes_collide() -> None:
    rows = [(n, [f"w{(n * k) % 7}" for k in range(3)]) for n in range(30)]
    table = pa.table({"ts": [time for time, _ in rows], "v": [value for _, value in rows]})
    operator = JoinConfig(on=overlap("v", at_least=2), within_s=5, time="ts").build()
    operator.reader.vocabulary = Vocabulary(poor_hash)
    found = operator.process(table, table)
    expected = join(rows, rows, "overlap", 2, (5, 5))
    assert list(zip(*found.to_pydict().values(), strict=True)) == expected


def test_the_hash_is_the_same_everywhere() -> None:
    assert stable_hash(pa.array(["oil", ""])).tolist() == [-8382292626436366783, 1172808402238552441]


def test_words_that_are_out_of_use_are_forgotten() -> None:
    operator = JoinConfig(on=overlap("v", at_least=1), within_s=1, time="ts").build()
    for batch in range(20):
        batch_words = [[f"{batch}-{n}"] for n in range(500)]
        table = pa.table({"ts": [float(10 * batch)] * 500, "v": batch_words})
        operator.process(table, None)
    assert len(operator.reader.vocabulary) <= 2500
    table = pa.table({"ts": [190.5], "v": [["19-7"]]})
    assert operator.process(None, table).num_rows == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_both_widths_of_strings(kind: pa.DataType) -> None:
    table = pa.table({"ts": [0], "v": pa.array([["a", "b"]], pa.list_(kind))})
    operator = JoinConfig(on=overlap("v", at_least=2), within_s=1, time="ts").build()
    assert operator.process(table, table).num_rows == 1
