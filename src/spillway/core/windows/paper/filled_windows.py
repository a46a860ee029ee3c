"""Computes which windows of the drop have results, when all rows are available.

A row at time t is in the windows of the first level that hold t, these return results with stamps, the stamps are in
windows of the second level, and so on to the leaf. Window k of leaf i belongs to window ⌊k δ_i / δ⌋ of the drop.
A window of the drop has results if any leaf has one in it; it ends a gap if every leaf has.

>>> from spillway.core.windows import tumbling
>>> filled((tumbling(2) >> tumbling(1)).paths(), [0, 1, 5], slide=1)
{0: True, 4: True}
>>> filled((tumbling(1) | tumbling(4)).paths(), [0, 7], slide=4)
{0: True, 1: True}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spillway.core.windows.arrangement import Path
from spillway.core.windows.reach import Stamp
from spillway.core.windows.window_count import windows_of


def filled(
    paths: Sequence[Path], times: Iterable[float], *, slide: int, stamp: Stamp = "start"
) -> dict[int, bool]:
    """Return the windows of the drop that have results, and whether each ends a gap.

    ``paths`` lead from the input to the leaves behind the drop, and ``slide`` is that of the drop.
    """
    whole = {math.floor(time) for time in times}
    leaves = [{k * path[-1].slide // slide for k in _reached(path, whole, stamp)} for path in paths]
    return {k: all(k in leaf for leaf in leaves) for k in sorted(set().union(*leaves))}


def _reached(path: Path, times: set[int], stamp: Stamp) -> set[int]:
    """Return the windows of a leaf that get any of the rows."""
    numbers: set[int] = set()
    for window in path:
        numbers = {k for t in times for k in windows_of(t, size=window.size, slide=window.slide)}
        shift = window.size - 1 if stamp == "end" else 0
        times = {k * window.slide + shift for k in numbers}
    return numbers
