"""State as bytes: a header in JSON, then the arrays one after the other, with a checksum over all of it.

    "SPCEP1" · length of the header · header · arrays · CRC-32

Whole numbers are written in the narrowest type that holds them. A blob that is torn or foreign is refused.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spillway.errors import SpillwayError

MAGIC = b"SPCEP1"
_HEAD = struct.Struct("<6sI")
_CHECK = struct.Struct("<I")


def to_bytes(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return one blob.

    >>> meta, arrays = from_bytes(to_bytes({"rows": 2}, {"times": np.array([[3, 4]])}))
    >>> meta, arrays["times"].tolist(), arrays["times"].dtype.name
    ({'rows': 2}, [[3, 4]], 'int64')
    """
    packed = {name: _narrow(array) for name, array in arrays.items()}
    entries = [(name, array.dtype.str, array.shape) for name, array in packed.items()]
    header = json.dumps({"meta": dict(meta), "arrays": entries}).encode()
    parts: list[Any] = [_HEAD.pack(MAGIC, len(header)), header]
    parts += [array.data.cast("B") for array in packed.values() if array.size]
    blob = b"".join(parts)
    return blob + _CHECK.pack(zlib.crc32(blob))


def from_bytes(blob: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read back what :func:`to_bytes` wrote, or raise."""
    if not isinstance(blob, bytes | bytearray | memoryview) or len(blob) < _HEAD.size + _CHECK.size:
        raise SpillwayError("state: expected the bytes that snapshot() gave.", hint="start without a state")
    magic, length = _HEAD.unpack_from(blob)
    if magic != MAGIC:
        raise SpillwayError("state: this is not the state of a pattern.", hint="start without a state")
    body = memoryview(blob)[: -_CHECK.size]
    if zlib.crc32(body) != _CHECK.unpack_from(blob, len(body))[0]:
        raise SpillwayError("state: the checksum does not fit, it is torn.", hint="start without a state")
    header = json.loads(bytes(body[_HEAD.size : _HEAD.size + length]))
    arrays, at = {}, _HEAD.size + length
    for name, kind, shape in header["arrays"]:
        array = np.frombuffer(body, np.dtype(kind), math.prod(shape), at).reshape(shape)
        at += array.nbytes
        arrays[name] = array.astype(np.int64) if array.dtype.kind == "i" else array.copy()
    return header["meta"], arrays


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
