"""Computes how many matches basic windows of a given length find, relative to the best choice of ages.

This is the optimality of Section 5.1.1 and Figure 5. f(y) is the probability that a row that arrives matches one
that is y seconds older, 0 <= y <= w. If the budget allows comparisons with a share r' of the window, the best
choice is the ages where f is largest. Basic windows only approximate it, since they are taken as a whole and, when
they slide in steps, cover changing ages. When a share x of the newest is filled, B_j covers the ages from
(x + j - 2) b to (x + j - 1) b, j counted from 1. With n = 1 + ⌈w / b⌉:

    p_j  = ∫_0^1 ∫ f(y) dy dx          over max(0, (x + j - 2) b) <= y <= min(w, (x + j - 1) b)
    c_e  = min(n, ⌊r' w / b⌋)          basic windows that are compared with as a whole
    c_p  = (r' w - c_e b) / b          the part of one more; 0 if c_e = n
    p_u  = c_p p_(s(c_e + 1)) + Σ_(j <= c_e) p_(s(j))       the matches that are found
    φ    = p_u / g(f, w min(1, r'))                         g: the most that any choice of that extent finds

f is given by its values in the middle of equal slices of the window and is taken as constant within a slice.

**Smooth** basic windows (see :mod:`spillway.core.join.selection.range_selection`) always cover the same ages, those
from (j - 1) b to jb: p_j is the integral of f over them.

**Deviation.** The paper's p_u assumes that a part c_p of a basic window has a share c_p of its matches, and that each
basic window is b long. In steps the first and the last are half as long on average, so p_u is slightly too low where
one of them is chosen.

>>> f = np.exp(-np.abs(np.linspace(0, 1, 400) - 0.75) * 20)
>>> [round(optimality(f, b, 0.1), 3) for b in (0.2, 0.05, 0.0125)]
[0.524, 0.902, 0.995]
>>> [round(optimality(f, b, 0.1, slide="smooth"), 3) for b in (0.2, 0.05, 0.0125)]
[0.627, 1.0, 1.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats
from spillway.core.checks import require_number
from spillway.core.join.selection.range_selection import Slide

_STEPS = 200  # values of x over which p_j is averaged


def coverage(f: npt.ArrayLike, b: float, slide: Slide = "step") -> Floats:
    """Return p_j for each basic window; ``b`` is its length as a share of the window."""
    require_number("b", b, 0.0, 1.0, above=True)
    below = _integral(f)
    n = math.ceil(1.0 / b - 1e-9)
    if slide == "smooth":
        edges = np.minimum(1.0, np.arange(n + 1) * b)
        return np.diff(below(edges))
    x = (np.arange(_STEPS) + 0.5) / _STEPS
    j = np.arange(1, n + 2)[:, None]
    low, high = np.clip((x + j - 2) * b, 0.0, 1.0), np.clip((x + j - 1) * b, 0.0, 1.0)
    return np.asarray((below(high) - below(low)).mean(axis=1))


def chosen(n: int, b: float, fraction: float) -> tuple[int, float]:
    """Return c_e and c_p: how many basic windows are taken as a whole, and what part of one more.

    >>> chosen(21, 0.05, 0.08)
    (1, 0.6)
    """
    c_e = min(n, math.floor(fraction / b + 1e-9))
    return c_e, 0.0 if c_e == n else round(max(0.0, (fraction - c_e * b) / b), 12)


def caught(f: npt.ArrayLike, b: float, fraction: float, slide: Slide = "step") -> float:
    """Return p_u, the matches that are found with a share r' = ``fraction`` of the comparisons."""
    require_number("fraction", fraction, 0.0)
    p = np.sort(coverage(f, b, slide))[::-1]
    c_e, c_p = chosen(len(p), b, fraction)
    return float(p[:c_e].sum() + (c_p * p[c_e] if c_e < len(p) else 0.0))


def most(f: npt.ArrayLike, fraction: float) -> float:
    """Return g(f, r' w), the most that any choice of ages finds."""
    values = np.sort(np.asarray(f, dtype=np.float64))[::-1] / np.size(f)
    whole, rest = divmod(min(1.0, fraction) * len(values), 1.0)
    k = int(whole)
    return float(values[:k].sum() + (rest * values[k] if k < len(values) else 0.0))


def optimality(f: npt.ArrayLike, b: float, fraction: float, *, slide: Slide = "step") -> float:
    """Return φ, the matches found as a share of the best that is possible for as many comparisons."""
    best = most(f, fraction)
    return caught(f, b, fraction, slide) / best if best > 0 else 1.0


def _integral(f: npt.ArrayLike) -> Callable[[Floats], Floats]:
    """Return the integral of f from 0 up to an age."""
    values = np.asarray(f, dtype=np.float64)
    edges = np.linspace(0.0, 1.0, len(values) + 1)
    sums = np.concatenate([np.zeros(1), np.cumsum(values) / len(values)])
    return lambda at: np.asarray(np.interp(at, edges, sums))
