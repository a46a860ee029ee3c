"""The program of a query as machine code, once per process and text."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numba
import numpy as np

from spillway.core.cep import layout, store, tracking
from spillway.core.cep.terms import NULL
from spillway.core.kernel import kernel


@kernel
def bits(value: float) -> Any:
    """Return a number as an integer that is the same for equal numbers."""
    return np.float64(value + 0.0).view(np.int64)


_NAMES = {
    name: getattr(module, name)
    for module, names in (
        (
            store,
            (
                "START",
                "COUNT",
                "ROOM",
                "EARLIEST",
                "BUCKETS",
                "LIVE",
                "NEVER",
                "enlarge",
                "expire",
                "close_gap",
            ),
        ),
        (
            layout,
            ("ROW", "STEP", "RUN", "UPTO", "DONE", "FAIL", "WRITTEN", "SERIAL", "HEAD", "NEED", "RECORDED"),
        ),
        (layout, ("NODES", "OUTPUT", "RECORDS", "OTHER")),
        (tracking, ("path_of", "chosen", "COMPLETED", "TESTED")),
    )
    for name in names
}


@lru_cache(maxsize=64)
def program(source: str) -> Callable[..., int]:
    """Return a program as Python runs it."""
    scope: dict[str, Any] = {**_NAMES, "np": np, "math": math, "NULL": NULL, "bits": bits}
    exec(compile(source, "<pattern>", "exec"), scope)
    advance: Callable[..., int] = scope["advance"]
    return advance


@lru_cache(maxsize=64)
def compiled(source: str) -> Callable[..., int]:
    """Return a program as machine code."""
    advance: Callable[..., int] = numba.njit(error_model="numpy")(program(source))
    return advance


def interpreted(source: str) -> Callable[..., int]:
    """Return a program that is ready at once and a hundred times slower: for short tables."""
    advance = program(source)

    def interpret(*arguments: Any) -> int:
        with np.errstate(over="ignore"):
            return int(advance(*arguments))

    return interpret
