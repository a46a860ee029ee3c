"""The time slice of a run: how much of its window has passed, in equal parts.

    slice = (t_now - t_first) * slices // window,    at most slices - 1

The slice is needed for each run that is examined, and a division takes longer than the examination. So for each row
the times are computed up to which first rows are at least 1, 2, ... slices old, and slices are counted by
comparisons:

    slice >= s   if and only if   t_first <= t_now - ceil(s * window / slices)

With more than eight slices the division is used.
"""

from __future__ import annotations

_COMPARED = 8


class Ages:
    """Writes the program lines that compute the time slices of runs."""

    def __init__(self, slices: int) -> None:
        self.slices = slices
        self._edges = range(1, slices if slices <= _COMPARED else 1)

    def begin(self) -> list[str]:
        """Return the lines that are the same for all rows."""
        edges = [f"back{s} = ({s} * within + {self.slices - 1}) // {self.slices}" for s in self._edges]
        return [f"slices = {self.slices}", *edges]

    def row(self) -> list[str]:
        """Return the lines that are the same for all runs that are examined for a row."""
        return [f"edge{s} = now - back{s}" for s in self._edges]

    def slice_of(self, first: str) -> str:
        """Return the expression for the slice of a run, given the time of its first row."""
        if self.slices > _COMPARED:
            return f"min(slices - 1, (now - {first}) * slices // within)"
        return "(" + (" + ".join(f"int({first} <= edge{s})" for s in self._edges) or "0") + ")"
