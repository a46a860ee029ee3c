"""States that lie in ``tests/data/state``: how each was made, and how something goes on from it.

A case makes a state, and tells what comes out when further rows are fed to what is restored from it.
``tests/data/make_checkpoints.py`` writes both down as JSON, in which bytes are compressed and base64;
``test_stored_state.py`` restores the stored state with the present code and expects the same. All rows are
made by plain arithmetic, the same everywhere.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.core.stored_controllers import (
    CONTROLLERS,
    STAGES,
    go_on_deciding,
    go_on_pricing,
    make_controller,
    make_costs,
    make_latest,
    read_published,
    steer,
)
from tests.core.stored_joins import JOINS, go_on_in_join_shards, go_on_joining, make_join, make_join_shards
from tests.core.stored_patterns import (
    LEARNED_AFTER,
    go_on_in_match_shards,
    go_on_learning,
    go_on_matching,
    make_match_shards,
    make_patterns,
)

STATES = Path(__file__).resolve().parents[1] / "data" / "state"


@dataclass(frozen=True)
class Case:
    """A state, and what comes out of what is restored from it."""

    make: Callable[[], Any]
    go_on: Callable[[Any], Any]


def packed(value: Any) -> Any:
    """Return a state as JSON has it.

    >>> unpacked(packed((1, None, [b"state"])))
    [1, None, [b'state']]
    """
    if isinstance(value, bytes | bytearray):
        return {"zlib": base64.b64encode(zlib.compress(value, 9)).decode()}
    return [packed(part) for part in value] if isinstance(value, list | tuple) else value


def unpacked(value: Any) -> Any:
    """Read back what :func:`packed` gave."""
    if isinstance(value, dict) and value.keys() == {"zlib"}:
        return zlib.decompress(base64.b64decode(value["zlib"]))
    return [unpacked(part) for part in value] if isinstance(value, list) else value


def alike(one: Any, other: Any) -> bool:
    """Return whether two results are the same, but for the last digits of numbers with a fraction."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other and type(one) is type(other))


SINGLE = ("rows", "groups", "windows", "join")  # a pattern's stage has no more than that of a join
CASES: dict[str, Case] = {
    **{f"join_{name}": Case(partial(make_join, name), partial(go_on_joining, name)) for name in JOINS},
    "join_shards": Case(make_join_shards, go_on_in_join_shards),
    "patterns": Case(make_patterns, go_on_matching),
    "match_shards_learned": Case(partial(make_match_shards, LEARNED_AFTER), go_on_in_match_shards),
    "match_shards_learning": Case(partial(make_match_shards, 1), go_on_learning),
    **{
        f"controller_{name}": Case(partial(make_controller, name), partial(steer, name))
        for name in CONTROLLERS
    },
    "costs": Case(make_costs, go_on_pricing),
    **{
        f"latest_{kind}": Case(partial(make_latest, [kind]), partial(go_on_deciding, kind)) for kind in SINGLE
    },
    "latest": Case(partial(make_latest, list(STAGES)), read_published),
}


def file_of(name: str) -> Path:
    """Return where a case is stored."""
    return STATES / f"{name}.json"


def plain(value: Any) -> Any:
    """Return a result as JSON has it."""
    return json.loads(json.dumps(value, default=_number))


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no result")
