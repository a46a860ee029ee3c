"""Defines arrangements of windowed aggregates, and computes the windows of a drop that is placed before them.

    sliding(3, 2) >> sliding(3, 3)                          a pipeline: the second reads the results of the first
    sliding(3, 2) | sliding(3, 3)                           a fan-out: both read the same stream
    sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3))        any composition

A window of size ω and slide δ is the half-open interval [kδ, kδ + ω) for a whole number k, its index. An
aggregate returns one tuple per window, and that tuple's time is the window's start. ``drop_window`` follows the
paper's Table 2, in whole units:

    pipeline    ω = ω_1 + ... + ω_k - (k - 1)                     δ = δ_k
    fan-out     ω = lcm(δ_i) + max(ω_i - δ_i)                     δ = lcm(δ_i)
    gap         B = min over leaves of ⌊B_i δ_i / δ⌋

Both rules are associative and compose: applying them from the leaves to the input or path by path gives the same
result. The pipeline's -1 per level is one unit: the last stamp inside [T, T + ω) is T + ω - 1. Only window starts
have to be whole units for this; the tuples themselves may have any time.

``(a | b) >> c`` means ``(a >> c) | (b >> c)``: each branch continues with its own ``c``.

**Units.** Numbers are whole multiples of ``unit`` (1 by default). Durations such as ``"5 minutes"``
are whole microseconds, the finest step of a Spark timestamp, and ``drop_window`` returns microseconds. Numbers and
durations cannot be mixed, nor can different units.

**Gaps.** A window of the drop holds δ/δ_i windows of leaf i. A leaf that may miss B_i in a row allows
B_i δ_i/δ drop windows. If that is less than one, ``drop_gap`` is 0: a drop before this fan-out would break the
leaf's bound, so drops have to be placed behind the split, in the branches.

=======  =================================================================
symbol   meaning
=======  =================================================================
ω, δ     size and slide of a window, in whole units
B_i      ``max_gap`` of leaf i: results that may be missing in a row
B        ``drop_gap``: the same for the drop, in its own windows
=======  =================================================================

>>> (sliding(3, 2) >> sliding(3, 3)).drop_window()
(5, 3)
>>> (sliding(3, 2) | sliding(3, 3)).drop_window()
(7, 6)
>>> query = sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3))
>>> query, query.drop_window(), query.drop_gap(10)
(sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3)), (10, 6), 3)
>>> (tumbling("5 minutes") >> tumbling("1 hour")).drop_window()
(3899999999, 3600000000)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

from spillway.core.windows.lengths import MICROSECONDS, Unit, units_of
from spillway.errors import SpillwayError, invalid

Length = float | str
Path = tuple["Window", ...]


class Arrangement(ABC):
    """Windowed aggregates in a pipeline, a fan-out, or any composition of both: immutable and hashable."""

    __slots__ = ()
    unit: Unit

    def __rshift__(self, after: object) -> Arrangement:
        other = _operand(">>", self, after)
        return Pipeline((*_parts(self, Pipeline), *_parts(other, Pipeline)))

    def __or__(self, beside: object) -> Arrangement:
        other = _operand("|", self, beside)
        return FanOut((*_parts(self, FanOut), *_parts(other, FanOut)))

    @property
    def timed(self) -> bool:
        """Whether sizes are durations, so that tuples have timestamps."""
        return self.unit == MICROSECONDS

    def drop_window(self) -> tuple[float, float]:
        """Return size and slide of the drop before this arrangement: numbers as given, durations in microseconds.

        >>> tumbling(0.5, unit=0.25).drop_window()
        (0.5, 0.5)
        """
        size, slide = self.drop_units()
        return _outside(size, self.unit), _outside(slide, self.unit)

    @abstractmethod
    def drop_units(self) -> tuple[int, int]:
        """Return size and slide of the drop before this arrangement in whole units."""

    @abstractmethod
    def levels(self) -> tuple[Level, ...]:
        """Return the tree of aggregates: those that read the input, and below each one those that read its results.

        >>> first, second = ((sliding(4, 1) | tumbling(2)) >> tumbling(6)).levels()
        >>> first.window, [level.window for level in first.below], second.window
        (sliding(4, 1), [tumbling(6)], tumbling(2))
        """

    def paths(self) -> tuple[Path, ...]:
        """Return the windows from the input to each leaf, one path per leaf, from left to right.

        >>> (sliding(4, 1) >> (sliding(3, 2) | sliding(3, 3))).paths()
        ((sliding(4, 1), sliding(3, 2)), (sliding(4, 1), sliding(3, 3)))
        """
        return tuple(path for level in self.levels() for path in level.paths())

    def leaves(self) -> tuple[Window, ...]:
        """Return the last window of each path, whose results the user sees."""
        return tuple(path[-1] for path in self.paths())

    def gaps(self, max_gap: int | Sequence[int]) -> tuple[int, ...]:
        """Return the bound on the gap of each leaf, given one bound for all leaves or one for each."""
        leaves = self.leaves()
        given: Any = [max_gap] * len(leaves) if isinstance(max_gap, Real) else max_gap
        if not isinstance(given, list | tuple) or len(given) != len(leaves):
            allowed = f"a whole number >= 1, or {len(leaves)} of them, one a leaf"
            raise invalid("max_gap", max_gap, allowed, hint=f"the leaves are {_listed(leaves)}")
        for gap in given:
            if isinstance(gap, bool) or not isinstance(gap, Integral) or int(gap) < 1:
                raise invalid(
                    "max_gap", gap, "a whole number >= 1", hint="how many results may be missing in a row"
                )
        return tuple(map(int, given))

    def drop_gap(self, max_gap: int | Sequence[int]) -> int:
        """Return how many windows may be dropped in a row; 0 if a single one is too many for some leaf.

        >>> (sliding(3, 2) | sliding(3, 3)).drop_gap([9, 4]), (sliding(3, 2) | sliding(3, 3)).drop_gap(2)
        (2, 0)
        """
        _, slide = self.drop_units()
        pairs = zip(self.leaves(), self.gaps(max_gap), strict=True)
        return min(gap * leaf.slide // slide for leaf, gap in pairs)


@dataclass(frozen=True, slots=True)
class Level:
    """One aggregate in the tree of an arrangement, and the aggregates that read its results."""

    window: Window
    below: tuple[Level, ...] = ()

    def paths(self) -> Iterator[Path]:
        """Yield the windows from this level to each leaf."""
        if not self.below:
            yield (self.window,)
        for level in self.below:
            for path in level.paths():
                yield (self.window, *path)


@dataclass(frozen=True, slots=True, repr=False)
class Window(Arrangement):
    """The windows of one aggregate: size and slide in whole units. Made by :func:`tumbling` and :func:`sliding`."""

    size: int
    slide: int
    unit: Unit = 1
    written: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("slide", self.slide)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise invalid(name, value, "a whole number >= 1", hint="use tumbling() or sliding()")
        if self.slide > self.size:
            raise invalid(
                "slide",
                self.written[-1] if self.written else _outside(self.slide, self.unit),
                f"at most the size, {self.written[0] if self.written else _outside(self.size, self.unit)}",
                hint="a larger slide would leave rows in no window; tumbling(size) has none that overlap",
            )

    def __repr__(self) -> str:
        size, slide = self.size, self.slide
        texts = self.written or tuple(_text(part, self.unit) for part in (size, slide)[: 1 + (size > slide)])
        if len(texts) == 1 and size != slide:
            texts = (*texts, _text(slide, self.unit))
        unit = "" if self.unit in (1, MICROSECONDS) else f", unit={self.unit!r}"
        return f"{'tumbling' if len(texts) == 1 else 'sliding'}({', '.join(texts)}{unit})"

    @property
    def extent(self) -> int:
        """How far a window extends beyond the start of the next one, ω - δ."""
        return self.size - self.slide

    def drop_units(self) -> tuple[int, int]:
        """Return size and slide in whole units: those of the aggregate itself."""
        return self.size, self.slide

    def levels(self) -> tuple[Level, ...]:
        """Return the one level."""
        return (Level(self),)


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline(Arrangement):
    """Aggregates of which each reads the results of the one before."""

    stages: tuple[Arrangement, ...]
    unit: Unit = field(init=False, compare=False)
    joint: ClassVar[str] = " >> "

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.stages[0].unit)

    def __repr__(self) -> str:
        return self.joint.join(
            f"({part!r})" if isinstance(part, FanOut) else repr(part) for part in self.stages
        )

    def drop_units(self) -> tuple[int, int]:
        """Return size and slide in whole units, by the rule of the pipeline, from the leaves to the input."""
        branches = self.levels()
        return _fan_out([_above(level) for level in branches])

    def levels(self) -> tuple[Level, ...]:
        """Return the tree; the stages after a fan-out are repeated below each of its branches."""
        below: tuple[Level, ...] = ()
        for stage in reversed(self.stages):
            below = tuple(_grafted(level, below) for level in stage.levels())
        return below


@dataclass(frozen=True, slots=True, repr=False)
class FanOut(Arrangement):
    """Aggregates that read the same stream."""

    branches: tuple[Arrangement, ...]
    unit: Unit = field(init=False, compare=False)
    joint: ClassVar[str] = " | "

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.branches[0].unit)

    def __repr__(self) -> str:
        return self.joint.join(repr(branch) for branch in self.branches)

    def drop_units(self) -> tuple[int, int]:
        """Return size and slide in whole units, by the rule of the fan-out."""
        return _fan_out([branch.drop_units() for branch in self.branches])

    def levels(self) -> tuple[Level, ...]:
        """Return the trees of all branches, side by side."""
        return tuple(level for branch in self.branches for level in branch.levels())


def tumbling(size: Length, *, unit: float = 1) -> Window:
    """Return windows that touch and do not overlap; the size is a number, or a duration such as ``"5 minutes"``.

    >>> tumbling("90 seconds"), tumbling("90 seconds") == tumbling("1 minute 30 seconds")
    (tumbling('90 seconds'), True)
    """
    units, of = units_of("size", size, unit)
    return Window(units, units, of, _written(size))


def sliding(size: Length, slide: Length, *, unit: float = 1) -> Window:
    """Return windows of the given size, one every ``slide``; both are numbers, or both durations.

    >>> sliding(3, 4)
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: slide = '4' is not allowed: expected at most the size, 3. Hint: ...
    """
    (size_units, size_of), (slide_units, slide_of) = (
        units_of("size", size, unit),
        units_of("slide", slide, unit),
    )
    if size_of != slide_of:
        raise SpillwayError(
            f"size = {size!r} and slide = {slide!r} mix a number and a duration.",
            hint="give both as numbers or both as durations",
        )
    return Window(size_units, slide_units, size_of, _written(size) + _written(slide))


def _written(value: Length) -> tuple[str, ...]:
    return (f"{value:g}" if isinstance(value, float) and value.is_integer() else repr(value),)


def _outside(units: int, unit: Unit) -> float:
    """Return a length as the user would write it: a number, or microseconds."""
    return units if isinstance(unit, str) else units * unit


def _text(units: int, unit: Unit) -> str:
    return repr(f"{units} us") if isinstance(unit, str) else repr(_outside(units, unit))


def _listed(windows: Sequence[Window]) -> str:
    return ", ".join(map(repr, windows))


def _parts(of: Arrangement, kind: type[Pipeline] | type[FanOut]) -> tuple[Arrangement, ...]:
    """Return the parts that an arrangement adds to a longer one of the same kind: a >> (b >> c) is one pipeline."""
    if isinstance(of, kind):
        return of.stages if isinstance(of, Pipeline) else of.branches
    return (of,)


def _operand(sign: str, left: Arrangement, right: object) -> Arrangement:
    if not isinstance(right, Arrangement):
        raise SpillwayError(
            f"{left!r} {sign} {right!r}: the right side is no window.",
            hint="write tumbling(size) or sliding(size, slide)",
        )
    if left.unit != right.unit:
        raise SpillwayError(
            f"{left!r} {sign} {right!r} mixes units, {_named(left.unit)} and {_named(right.unit)}.",
            hint="give all sizes as durations, or all as numbers of one unit",
        )
    return right


def _named(unit: Unit) -> str:
    return "durations" if isinstance(unit, str) else f"numbers in units of {unit!r}"


def _grafted(level: Level, below: tuple[Level, ...]) -> Level:
    """Return a level with other levels added below each of its leaves."""
    return Level(
        level.window, tuple(_grafted(child, below) for child in level.below) if level.below else below
    )


def _above(level: Level) -> tuple[int, int]:
    """Return the window of the drop before a level and everything below it."""
    if not level.below:
        return level.window.drop_units()
    size, slide = _fan_out([_above(child) for child in level.below])
    return level.window.size + size - 1, slide


def _fan_out(windows: Sequence[tuple[int, int]]) -> tuple[int, int]:
    common = math.lcm(*(slide for _, slide in windows))
    return common + max(size - slide for size, slide in windows), common
