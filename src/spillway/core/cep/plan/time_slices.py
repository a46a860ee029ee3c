"""The time slice of a run: how much of its window has passed, in equal parts.

    slice = (t_now - t_first) * slices // window,    at most slices - 1

It is needed for each run that is looked at, and a division takes longer than to look at it. So for each row the times
are found up to which first rows lie at least 1, 2, ... slices back, and slices are counted by comparing:

    slice >= s   if and only if   t_first <= t_now - ceil(s * window / slices)

With more than eight slices it is a division after all.
"""

from __future__ import annotations

_COMPARED = 8


class Ages:
    """Writes the time slices of runs."""

    def __init__(self, slices: int) -> None:
        self.slices = slices
        self._edges = range(1, slices if slices <= _COMPARED else 1)

    def begin(self) -> list[str]:
        """Return the lines that are the same for all rows."""
        edges = [f"back{s} = ({s} * within + {self.slices - 1}) // {self.slices}" for s in self._edges]
        return [f"slices = {self.slices}", *edges]

    def row(self) -> list[str]:
        """Return the lines that are the same for all runs that a row is shown to."""
        return [f"edge{s} = now - back{s}" for s in self._edges]

    def slice_of(self, first: str) -> str:
        """Return the slice of a run whose first row has a time."""
        if self.slices > _COMPARED:
            return f"min(slices - 1, (now - {first}) * slices // within)"
        return "(" + (" + ".join(f"int({first} <= edge{s})" for s in self._edges) or "0") + ")"
