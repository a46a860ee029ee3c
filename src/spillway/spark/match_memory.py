"""What a strategy knows, as plain numbers and arrays, so that it is part of a shard's state.

A strategy is a small graph of objects: a cost model, a trigger, measurements. ``facts`` walks over it and gives every
number, text and array by its path; ``recall`` puts them back into a strategy that was built anew. Settings are not
facts: they come from the call. A fact of which the strategy does not know any more is passed over.

>>> from spillway.core.cep.shedding.trigger import TriggerConfig
>>> trigger = TriggerConfig(bound_s=1.0).build()
>>> trigger.margin = 0.25
>>> facts({"trigger": trigger})
{'/trigger/margin': 0.25, '/trigger/waited': 0}
>>> other = TriggerConfig(bound_s=1.0).build()
>>> recall({"trigger": other}, facts({"trigger": trigger}))
>>> other.margin
0.25
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_HOME = "spillway.core.cep.shedding"


@dataclass(frozen=True)
class Some:
    """Some attributes of a thing; the others are not facts."""

    thing: Any
    names: tuple[str, ...]


def facts(roots: Mapping[str, Any]) -> dict[str, Any]:
    """Return all facts by their path."""
    return dict(_facts(roots, ""))


def recall(roots: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Put facts back where they were."""
    for name, part in roots.items():
        _recall(part, known, f"/{name}")


def _facts(thing: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, value in _parts(thing):
        here = f"{path}/{name}"
        if isinstance(value, np.generic):
            yield here, value.item()
        elif _is_fact(value):
            yield here, value
        else:
            yield from _facts(value, here)


def _recall(thing: Any, known: Mapping[str, Any], path: str) -> None:
    for name, value in list(_parts(thing)):
        here = f"{path}/{name}"
        if here in known:
            _put(thing, name, known[here])
        elif not _is_fact(value):
            _recall(value, known, here)


def _is_fact(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic)


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        yield from thing.items()
    elif isinstance(thing, list):
        yield from ((str(n), value) for n, value in enumerate(thing))
    elif isinstance(thing, Some):
        yield from ((name, getattr(thing.thing, name)) for name in thing.names)
    elif type(thing).__module__.startswith(_HOME):
        yield from ((name, value) for name, value in vars(thing).items() if name != "config")


def _put(thing: Any, name: str, value: Any) -> None:
    if isinstance(thing, list):
        thing[int(name)] = value
    else:  # orders are frozen, but these ones are not in use yet
        object.__setattr__(thing.thing if isinstance(thing, Some) else thing, name, value)
