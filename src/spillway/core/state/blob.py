"""Stores state as bytes: a header in JSON, then the arrays one after the other, with a checksum over everything.

    magic · version · length of the header · header · arrays · CRC-32

The header lists each array's name, type and shape. Whole numbers are written in the narrowest type that holds
them. A blob that is incomplete, foreign or of another version is refused, so that nothing starts in a state that
it could not have reached itself.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.errors import SpillwayError

_HEAD = struct.Struct("<6sHI")
_CHECK = struct.Struct("<I")
_AFRESH = "start without a state"


@dataclass(frozen=True)
class BlobFormat:
    """The format of one kind of state: the six bytes it begins with, a version, and the name of its owner.

    >>> birds = BlobFormat(b"BIRDS_", version=1, owner="a flock")
    >>> meta, arrays = birds.read(birds.write({"rows": 2}, {"times": np.array([[3, 4]])}))
    >>> meta, arrays["times"].tolist(), arrays["times"].dtype.name
    ({'rows': 2}, [[3, 4]], 'int64')
    >>> birds.read(b"something else altogether")
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: state: this is not the state of a flock. Hint: start without a state
    """

    magic: bytes
    version: int
    owner: str

    def write(self, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
        """Return one blob; ``meta`` may hold anything that JSON can express."""
        packed = {name: _narrow(array) for name, array in arrays.items()}
        entries = [(name, array.dtype.str, array.shape) for name, array in packed.items()]
        header = json.dumps({"meta": dict(meta), "arrays": entries}).encode()
        parts: list[Any] = [_HEAD.pack(self.magic, self.version, len(header)), header]
        parts += [array.data.cast("B") for array in packed.values() if array.size]
        blob = b"".join(parts)
        return blob + _CHECK.pack(zlib.crc32(blob))

    def read(self, blob: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Read back what ``write`` wrote, or raise."""
        if not isinstance(blob, bytes | bytearray | memoryview) or len(blob) < _HEAD.size + _CHECK.size:
            raise SpillwayError("state: expected the bytes that snapshot() gave.", hint=_AFRESH)
        magic, version, length = _HEAD.unpack_from(blob)
        if magic != self.magic:
            raise SpillwayError(f"state: this is not the state of {self.owner}.", hint=_AFRESH)
        if version != self.version:
            raise SpillwayError(f"state: version {version}, expected {self.version}.", hint=_AFRESH)
        body = memoryview(blob)[: -_CHECK.size]
        if zlib.crc32(body) != _CHECK.unpack_from(blob, len(body))[0]:
            raise SpillwayError("state: the checksum does not fit, it is torn.", hint=_AFRESH)
        header = json.loads(bytes(body[_HEAD.size : _HEAD.size + length]))
        arrays, at = {}, _HEAD.size + length
        for name, kind, shape in header["arrays"]:
            array = np.frombuffer(body, np.dtype(kind), math.prod(shape), at).reshape(shape)
            at += array.nbytes
            arrays[name] = array.astype(np.int64) if array.dtype.kind == "i" else array.copy()
        return header["meta"], arrays


def together(parts: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of several parts in one mapping, each name prefixed by that of its part.

    >>> whole = together({"left": {"rows": np.zeros(1)}, "right": {"rows": np.ones(2)}})
    >>> list(whole), under("right.", whole)["rows"].tolist()
    (['left.rows', 'right.rows'], [1.0, 1.0])
    """
    return {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers in the narrowest type that holds them all."""
    array = np.ascontiguousarray(array)
    if array.dtype != np.int64 or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array
