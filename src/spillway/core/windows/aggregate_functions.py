"""Defines aggregate functions as (init, incr, final): the usual ones by name, and any other.

``init`` returns the state of a new window, ``incr`` updates it with a value, and ``final`` converts it to the
result. Nothing else in this package knows what a function computes: whole windows are dropped, so the result of
a delivered window is exact for any function. The named functions treat a missing value (None) as SQL does:
``count`` counts rows, and ``sum``, ``mean``, ``min`` and ``max`` ignore it.

>>> mean = function_of("mean")
>>> mean.over([1, 2, 6])
3.0
>>> function_of((list, lambda seen, x: [*seen, x], lambda seen: sorted(seen)[-2])).over([5, 9, 7])
7
>>> function_of(lambda values: max(values) - min(values)).over([3, 8, 5])
5
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spillway.errors import invalid, unknown


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """F(init, incr, final); ``incr`` returns the new state, which windows must not share."""

    init: Callable[[], Any]
    incr: Callable[[Any, Any], Any]
    final: Callable[[Any], Any]

    def over(self, values: Iterable[Any]) -> Any:
        """Return the result for a window that holds these values."""
        state = self.init()
        for value in values:
            state = self.incr(state, value)
        return self.final(state)


def _same(state: Any) -> Any:
    return state


def _append(seen: list[Any], value: Any) -> list[Any]:
    seen.append(value)
    return seen


def _total(total: Any, value: Any) -> Any:
    return total if value is None else value if total is None else total + value


def _least(low: Any, value: Any) -> Any:
    return value if low is None or (value is not None and value < low) else low


def _greatest(high: Any, value: Any) -> Any:
    return value if high is None or (value is not None and value > high) else high


def _counted(state: tuple[Any, int], value: Any) -> tuple[Any, int]:
    return state if value is None else (state[0] + value, state[1] + 1)


FUNCTIONS: Mapping[str, AggregateFunction] = {
    "count": AggregateFunction(lambda: 0, lambda n, _: n + 1, _same),
    "sum": AggregateFunction(lambda: None, _total, _same),
    "mean": AggregateFunction(
        lambda: (0, 0), _counted, lambda state: state[0] / state[1] if state[1] else None
    ),
    "min": AggregateFunction(lambda: None, _least, _same),
    "max": AggregateFunction(lambda: None, _greatest, _same),
    "first": AggregateFunction(list, lambda seen, x: seen or [x], lambda seen: seen[0]),
    "last": AggregateFunction(lambda: None, lambda _, x: x, _same),
    "list": AggregateFunction(list, _append, _same),
}

Function = str | AggregateFunction | Callable[[list[Any]], Any] | tuple[Any, Any, Any]


def function_of(given: Function) -> AggregateFunction:
    """Return a function given by its name, by its three parts, or as one that takes all values of a window."""
    if isinstance(given, AggregateFunction):
        return given
    if isinstance(given, str):
        if given not in FUNCTIONS:
            raise unknown("aggregate", given, FUNCTIONS)
        return FUNCTIONS[given]
    if isinstance(given, tuple) and len(given) == 3 and all(map(callable, given)):
        return AggregateFunction(*given)
    if callable(given):
        return AggregateFunction(list, _append, given)
    raise invalid(
        "aggregate",
        given,
        "a name, (init, incr, final), or a function of a window's values",
        hint="names are " + ", ".join(sorted(FUNCTIONS)),
    )
