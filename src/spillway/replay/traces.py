"""When rows arrive: recorded arrival times, or rates, behind one interface.

=================== ============================================================================
``total``           rows in the trace
``duration_s``      its length
``count(t)``        rows that have arrived by second t (a number, or an array for an array)
``times(i, j)``     arrival seconds of the rows i, i+1, ..., j-1
``scaled(rate=r)``  the same pattern at a mean of r rows a second
``slice(a, b)``     what happens from second a to second b, with a as its second 0
``repeat(n)``       the same again, n times
=================== ============================================================================

:class:`Times` holds every arrival time. :class:`Rates` holds a piecewise constant rate λ(t) and no rows: with

    Λ(t) = ∫₀ᵗ λ(s) ds,     row i arrives when Λ reaches i + 1,     count(t) = ⌊Λ(t)⌋

both directions are a search in the few corners of Λ, so a trace of 10⁸ rows costs what its corners cost. The
two always agree, row by row and in spite of rounding: ``count(t)`` is the number of rows whose time is at
most t.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, overload

import numpy as np
import numpy.typing as npt

from spillway.core.arrays import Floats, Ints
from spillway.errors import SpillwayError, invalid

# A trace that is cut where a row falls due holds that row, although the sum may say 0.99999999999 of it.
_ROUNDING, _RELATIVE_ROUNDING = 1e-9, 1e-12


class Arrivals(Protocol):
    """What both kinds of trace can do; see the module's table."""

    @property
    def total(self) -> int:
        """Rows in the trace."""

    @property
    def duration_s(self) -> float:
        """Length of the trace in seconds."""

    @overload
    def count(self, at_s: float) -> int: ...
    @overload
    def count(self, at_s: Floats) -> Ints: ...

    def times(self, first: int, last: int) -> Floats:
        """Return the arrival seconds of the rows from ``first`` up to, not including, ``last``."""

    def scaled(self, *, rate: float) -> Arrivals:
        """Return the same pattern at a mean of ``rate`` rows a second."""

    def slice(self, start_s: float, stop_s: float) -> Arrivals:
        """Return what happens between two seconds, shifted to begin at 0."""

    def repeat(self, times: int) -> Arrivals:
        """Return the trace played ``times`` times in a row."""


@dataclass(frozen=True, eq=False)
class Times:
    """Explicit arrival times, in seconds from the start, in order.

    ``duration_s`` may lie after the last row; left out, the trace ends with it. Scaling changes the clock: the
    same rows in less or more time, because rows that were never recorded cannot be made up.

    >>> trace = Times([0.5, 1.0, 4.0], duration_s=5.0)
    >>> trace.count(1.0), trace.times(1, 3).tolist(), trace.scaled(rate=1.2).duration_s
    (2, [1.0, 4.0], 2.5)
    """

    arrivals_s: Floats
    duration_s: float = -1.0

    def __init__(self, arrivals_s: npt.ArrayLike, duration_s: float | None = None) -> None:
        try:
            times = np.array(arrivals_s, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise invalid("arrivals_s", type(arrivals_s).__name__, "numbers") from error
        if times.ndim != 1:
            raise invalid("arrivals_s", f"an array of shape {times.shape}", "one dimension")
        if times.size and not np.isfinite(times).all():
            raise invalid("arrivals_s", "a time that is no number", "finite seconds")
        if times.size and (times[0] < 0.0 or (np.diff(times) < 0.0).any()):
            raise invalid("arrivals_s", "times out of order", "seconds >= 0 in order", hint="sort them")
        times.setflags(write=False)
        last = float(times[-1]) if times.size else 0.0
        length = last if duration_s is None else duration_s
        if not math.isfinite(length) or length < last:
            raise invalid("duration_s", duration_s, f"a number >= the last arrival, {last:g}")
        object.__setattr__(self, "arrivals_s", times)
        object.__setattr__(self, "duration_s", float(length))

    @property
    def total(self) -> int:
        """Rows in the trace."""
        return int(self.arrivals_s.size)

    @overload
    def count(self, at_s: float) -> int: ...
    @overload
    def count(self, at_s: Floats) -> Ints: ...
    def count(self, at_s: float | Floats) -> int | Ints:
        """Return how many rows have arrived by ``at_s``."""
        found = np.searchsorted(self.arrivals_s, at_s, side="right")
        return int(found) if np.ndim(found) == 0 else found.astype(np.int64)

    def times(self, first: int, last: int) -> Floats:
        """Return the arrival seconds of the rows from ``first`` up to, not including, ``last``."""
        _check_range(first, last, self.total)
        return self.arrivals_s[first:last].copy()

    def scaled(self, *, rate: float) -> Times:
        """Return the same rows played faster or slower, at a mean of ``rate`` rows a second."""
        _check_rate(rate, self.total, self.duration_s)
        slower = self.total / self.duration_s / rate
        return Times(self.arrivals_s * slower, self.duration_s * slower)

    def slice(self, start_s: float, stop_s: float) -> Times:
        """Return the rows that arrive from ``start_s`` up to, not including, ``stop_s``."""
        start, stop = _check_slice(start_s, stop_s, self.duration_s)
        first, last = np.searchsorted(self.arrivals_s, [start, stop], side="left")
        return Times(np.maximum(self.arrivals_s[first:last] - start, 0.0), stop - start)

    def repeat(self, times: int) -> Times:
        """Return the trace played ``times`` times in a row."""
        _check_repeat(times)
        starts = np.arange(times)[:, None] * self.duration_s
        return Times((starts + self.arrivals_s).ravel(), times * self.duration_s)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Times)
            and self.duration_s == other.duration_s
            and np.array_equal(self.arrivals_s, other.arrivals_s)
        )

    def __hash__(self) -> int:
        return hash((self.duration_s, self.arrivals_s.tobytes()))


@dataclass(frozen=True)
class Rates:
    """A rate that is constant in each of several spans, one after the other.

    =============== ==================================================
    ``rates``       rows a second in each span
    ``spans_s``     the spans' lengths in seconds
    =============== ==================================================

    >>> trace = Rates(rates=(10.0, 100.0), spans_s=(2.0, 1.0))
    >>> trace.total, trace.count(2.5), trace.times(19, 22).tolist()
    (120, 70, [2.0, 2.01, 2.02])
    >>> Rates.from_json(trace.to_json()) == trace
    True
    """

    rates: tuple[float, ...]
    spans_s: tuple[float, ...]
    _edges_s: Floats = field(init=False, repr=False, compare=False)
    _rows: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rates, spans = _numbers("rates", self.rates), _numbers("spans_s", self.spans_s)
        if len(rates) != len(spans) or not rates:
            raise invalid(
                "spans_s", f"{len(spans)} spans", f"one for each of {len(rates)} rates, at least one"
            )
        if min(rates) < 0.0:
            raise invalid("rates", min(rates), "rows a second >= 0")
        if min(spans) <= 0.0:
            raise invalid("spans_s", min(spans), "seconds above 0")
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "spans_s", spans)
        edges = np.concatenate(([0.0], np.cumsum(spans)))
        rows = np.concatenate(([0.0], np.cumsum(np.multiply(rates, spans))))
        object.__setattr__(self, "_edges_s", edges)
        object.__setattr__(self, "_rows", rows)

    @property
    def total(self) -> int:
        """Rows in the trace."""
        rows = float(self._rows[-1])
        return math.floor(rows + _ROUNDING + _RELATIVE_ROUNDING * rows)

    @property
    def duration_s(self) -> float:
        """Length of the trace in seconds."""
        return float(self._edges_s[-1])

    @overload
    def count(self, at_s: float) -> int: ...
    @overload
    def count(self, at_s: Floats) -> Ints: ...
    def count(self, at_s: float | Floats) -> int | Ints:
        """Return how many rows have arrived by ``at_s``."""
        at = np.atleast_1d(np.asarray(at_s, dtype=np.float64))
        near = np.clip(np.floor(np.interp(at, self._edges_s, self._rows)), 0, self.total).astype(np.int64)
        # The sum is right to a rounding error, so the number of rows is right to one either way.
        one_less = (near > 0) & (self._times(near - 1) > at)
        one_more = (near < self.total) & (self._times(near) <= at)
        found = near - one_less + one_more
        return int(found[0]) if np.ndim(at_s) == 0 else found

    def times(self, first: int, last: int) -> Floats:
        """Return the arrival seconds of the rows from ``first`` up to, not including, ``last``."""
        _check_range(first, last, self.total)
        return self._times(np.arange(first, last, dtype=np.int64))

    def _times(self, rows: Ints) -> Floats:
        due = np.minimum(rows + 1.0, self._rows[-1])
        span = np.clip(np.searchsorted(self._rows, due, side="left") - 1, 0, len(self.rates) - 1)
        rate = np.asarray(self.rates)[span]
        with np.errstate(divide="ignore", invalid="ignore"):
            at = self._edges_s[span] + (due - self._rows[span]) / rate
        return np.asarray(np.minimum(np.where(rate > 0.0, at, self._edges_s[span]), self._edges_s[span + 1]))

    def scaled(self, *, rate: float) -> Rates:
        """Return the same shape over the same time, at a mean of ``rate`` rows a second."""
        _check_rate(rate, self._rows[-1], self.duration_s)
        factor = rate * self.duration_s / self._rows[-1]
        return Rates(tuple(float(r * factor) for r in self.rates), self.spans_s)

    def slice(self, start_s: float, stop_s: float) -> Rates:
        """Return the rates between two seconds, shifted to begin at 0."""
        start, stop = _check_slice(start_s, stop_s, self.duration_s)
        low, high = np.clip(self._edges_s[:-1], start, stop), np.clip(self._edges_s[1:], start, stop)
        some = high > low
        return Rates(tuple(np.asarray(self.rates)[some].tolist()), tuple((high - low)[some].tolist()))

    def repeat(self, times: int) -> Rates:
        """Return the trace played ``times`` times in a row."""
        _check_repeat(times)
        return Rates(self.rates * times, self.spans_s * times)

    def to_json(self) -> str:
        """Return the trace as one line of JSON."""
        return json.dumps({"rates": self.rates, "spans_s": self.spans_s}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read back what :meth:`to_json` wrote."""
        try:
            found = json.loads(text)
            rates, spans = found["rates"], found["spans_s"]
        except (ValueError, TypeError, KeyError) as error:
            raise SpillwayError(
                f"Rates: expected JSON with 'rates' and 'spans_s', found {str(text)[:40]!r}."
            ) from error
        return cls(rates, spans)


def _numbers(name: str, values: Sequence[Any]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise invalid(name, values, "a list of numbers") from error
    if not all(map(math.isfinite, numbers)):
        raise invalid(name, values, "finite numbers")
    return numbers


def _check_range(first: int, last: int, total: int) -> None:
    if not 0 <= first <= last <= total:
        raise invalid("rows", (first, last), f"0 <= first <= last <= {total}")


def _check_rate(rate: float, total: float, duration_s: float) -> None:
    if not (math.isfinite(rate) and rate > 0.0):
        raise invalid("rate", rate, "rows a second above 0")
    if total <= 0.0 or duration_s <= 0.0:
        raise SpillwayError("scaled: the trace has no rows or no length, so it has no mean rate to scale.")


def _check_slice(start_s: float, stop_s: float, duration_s: float) -> tuple[float, float]:
    if not (0.0 <= start_s < stop_s and start_s < duration_s):
        raise invalid("slice", (start_s, stop_s), f"0 <= start_s < stop_s, and start_s below {duration_s:g}")
    return float(start_s), float(min(stop_s, duration_s))


def _check_repeat(times: int) -> None:
    if not (isinstance(times, int) and times >= 1):
        raise invalid("times", times, "a whole number >= 1")
