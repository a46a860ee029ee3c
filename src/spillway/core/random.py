"""Converts probabilities to thresholds on a signed 64-bit hash, and makes salts, so that each batch draws anew."""

from __future__ import annotations

_MASK = 2**64 - 1


def threshold(probability: float) -> int:
    """Return the largest hash that is still selected, so that a hash is selected with the given probability.

    >>> threshold(1.0) == 2**63 - 1, threshold(0.5), threshold(0.0) == -(2**63)
    (True, -1, True)
    """
    return max(-(2**63), min(2**63 - 1, int(probability * 2.0**64) - 2**63 - 1))


def mix(*parts: int) -> int:
    """Fold integers into one well-spread signed 64-bit salt (the finaliser of splitmix64, chained).

    >>> mix(1, 2) == mix(1, 2), mix(1, 2) == mix(2, 1), -(2**63) <= mix(7) < 2**63
    (True, False, True)
    """
    z = 0
    for part in parts:
        z = ((z ^ part) + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        z ^= z >> 31
    return z - 2**64 if z >= 2**63 else z
