"""Compiles the program of a query to machine code, once per machine.

Compiling takes a few seconds. Numba keeps compiled code on disk, beside the file that a function is from, under the
function's name. A program is not from a file, so it names this one as its file, and its name has a fingerprint of its
text and of all code that it calls: later processes find the same query again, and an engine that has changed does not
use the code of an older one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numba
import numpy as np

from spillway.core.cep.codegen import arithmetic
from spillway.core.cep.engine import class_lookup, run_counters, run_store
from spillway.core.cep.plan import layout
from spillway.core.cep.plan.terms import NULL, TOO_LARGE

Advance = Callable[..., int]


_CALLED: dict[str, Any] = {
    "bits": arithmetic.bits,
    "rounded": arithmetic.rounded,
    "remainder": arithmetic.remainder,
    "sum_fits": arithmetic.sum_fits,
    "difference_fits": arithmetic.difference_fits,
    "product_fits": arithmetic.product_fits,
    "enlarge": run_store.enlarge,
    "find": run_store.find,
    "locate": run_store.locate,
    "expire": run_store.expire,
    "close_gap": run_store.close_gap,
    "copy_column": run_store.copy_column,
    "class_of": class_lookup.class_of,
    "path_of": run_counters.path_of,
    "chosen": run_counters.chosen,
    "write_down": run_counters.write_down,
}
_CHANCE: Any = run_counters.chance
_STORE = ("START", "COUNT", "ROOM", "EARLIEST", "BUCKETS", "LIVE", "NEVER")
_CURSOR = (
    "ROW",
    "STEP",
    "RUN",
    "UPTO",
    "DONE",
    "FAIL",
    "WRITTEN",
    "SERIAL",
    "HEAD",
    "NEED",
    "RECORDED",
    "BEGAN",
)
_LAYOUT = (*_CURSOR, "NODES", "OUTPUT", "RECORDS", "CROWDED", "OTHER")
_CONSTANTS = {
    "NULL": NULL,
    "TOO_LARGE": TOO_LARGE,
    **{name: getattr(run_store, name) for name in _STORE},
    **{name: getattr(layout, name) for name in _LAYOUT},
    **{name: getattr(run_counters, name) for name in ("COMPLETED", "TESTED", "TAKEN_BACK")},
}


def fingerprint(source: str) -> str:
    """Return a name for a program: equal only if text, constants and called code are equal."""
    # Where Numba is switched off, functions are plain Python functions.
    codes = [getattr(each, "py_func", each).__code__ for each in (*_CALLED.values(), _CHANCE)]
    called = [(code.co_code.hex(), repr(code.co_consts)) for code in codes]
    return hashlib.sha256(repr((source, _CONSTANTS, called)).encode()).hexdigest()[:20]


@lru_cache(maxsize=64)
def program(source: str) -> Advance:
    """Return a program as a Python function."""
    name = f"advance_{fingerprint(source)}"
    scope: dict[str, Any] = {**_CALLED, **_CONSTANTS, "np": np, "math": math, "__name__": __name__}
    exec(compile(source.replace("def advance(", f"def {name}("), __file__, "exec"), scope)
    advance: Advance = scope[name]
    return advance


@lru_cache(maxsize=64)
def compiled(source: str) -> Advance:
    """Return a program as compiled machine code."""
    advance: Advance = numba.njit(cache=True, error_model="numpy")(program(source))
    return advance


def interpreted(source: str) -> Advance:
    """Return a program that is ready at once but a hundred times slower: for short tables."""
    advance = program(source)

    def interpret(*arguments: Any) -> int:
        with np.errstate(all="ignore"):
            return int(advance(*arguments))

    return interpret
