"""Encodes words as 64-bit codes: a word's code is its hash, and two words that are both in use never share a code.

The hash is XXH64, the same on every machine and in every run. If two words collide, the later one gets the next free
code. So codes can be compared instead of words, and the answer is exact, not just likely to be right. The price is
that the words in use are kept: one copy of each, for both sides. Words that have left the windows are forgotten,
except those whose code made a word that is still in use move on to a later one: without them that word would find a
free code before its own.

>>> words = Vocabulary()
>>> codes = words.encode(pa.array(["oil", "rain", "oil"]))
>>> bool(codes[0] == codes[2]), bool(codes[0] == codes[1]), len(words)
(True, False, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.core.row_hash import row_hashes

Codes = npt.NDArray[np.int64]
EMPTY = -(2**63)
"""A code that no word gets."""

_SPARE = 1024  # words that may be out of use before they are searched for


def stable_hash(words: pa.Array) -> Codes:
    """Return the hash of each word."""
    return row_hashes([words], 0, len(words))


class Vocabulary:
    """The words in use and their codes, in the order of the codes."""

    def __init__(self, hash_of: Callable[[pa.Array], Codes] = stable_hash) -> None:
        self._hash_of = hash_of
        self._codes: Codes = np.empty(0, np.int64)
        self._words = pa.array([], pa.string())
        self._prune_above = _SPARE

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, words: pa.Array) -> Codes:
        """Return a code for each word; new words get one. Nulls must have been taken out."""
        coded = words.cast(pa.string()).dictionary_encode()
        distinct = coded.dictionary
        return self._codes_of(distinct)[coded.indices.to_numpy()] if len(distinct) else np.empty(0, np.int64)

    def forget(self, used: Callable[[], Codes]) -> None:
        """Drop unused words once there may be many; ``used`` returns the codes in use, in any order."""
        if len(self) <= self._prune_above:
            return
        keep = self._with_those_before(np.isin(self._codes, used()))
        self._codes, self._words = self._codes[keep], self._words.filter(pa.array(keep))
        self._prune_above = 2 * len(self) + _SPARE

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        words = self._words.take(pa.array(np.arange(len(self))))  # starts at offset 0
        _, offsets, data = words.buffers()
        ends = np.frombuffer(offsets, np.int32)[: len(self) + 1] if len(self) else np.zeros(1, np.int32)
        text = np.frombuffer(data, np.uint8)[: ends[-1]] if data is not None else np.empty(0, np.uint8)
        return {"codes": self._codes, "ends": ends, "text": text, "prune": np.array([self._prune_above])}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the state from a snapshot."""
        self._codes = state["codes"].astype(np.int64)
        buffers = [
            None,
            pa.py_buffer(state["ends"].astype(np.int32).tobytes()),
            pa.py_buffer(state["text"].tobytes()),
        ]
        self._words = pa.Array.from_buffers(pa.string(), len(self._codes), buffers)
        self._prune_above = int(state["prune"][0])

    def _with_those_before(self, keep: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Keep also the words between the hash and the code of a kept word, if hash and code differ."""
        homes = self._homes(self._words)
        away = homes != self._codes
        open_ = np.flatnonzero(away & keep).tolist()
        while open_:
            at = open_.pop()
            steps = (self._codes - homes[at]).view(np.uint64)  # codes wrap around
            more = ~keep & (steps < steps[at])
            keep = keep | more
            open_ += np.flatnonzero(away & more).tolist()
        return keep

    def _homes(self, words: pa.Array) -> Codes:
        """Return the code that each word tries first."""
        codes = self._hash_of(words).copy()
        codes[codes == EMPTY] += 1
        return codes

    def _codes_of(self, words: pa.Array) -> Codes:
        """Code distinct words: each tries its hash, then the next codes, until it finds itself or a free code."""
        codes = self._homes(words)
        open_ = np.arange(len(words))
        while len(open_):
            codes[open_[codes[open_] == EMPTY]] += 1
            self._take_free(words, codes, open_)
            at = np.searchsorted(self._codes, codes[open_])
            same = pc.equal(self._words.take(pa.array(at)), words.take(pa.array(open_)))
            open_ = open_[~np.asarray(same, dtype=np.bool_)]
            codes[open_] += 1
        return codes

    def _take_free(self, words: pa.Array, codes: Codes, open_: Codes) -> None:
        """Give each free code to the first of the words that want it."""
        wanted, first = np.unique(codes[open_], return_index=True)
        free = np.searchsorted(self._codes, wanted, "left") == np.searchsorted(self._codes, wanted, "right")
        if not free.any():
            return
        merged = np.concatenate([self._codes, wanted[free]])
        order = np.argsort(merged, kind="stable")
        new = words.take(pa.array(open_[first[free]]))
        self._words = pa.concat_arrays([self._words, new]).take(pa.array(order))
        self._codes = merged[order]
