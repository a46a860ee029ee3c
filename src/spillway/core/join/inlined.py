"""Small steps of the compiled loops, put into the loop itself.

Between two compiled functions every array counts as one more reference and back, which costs more than the few
operations of a step. What is called for each row is therefore not called but written out, by the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Compile a function into those that use it."""
    return cast(F, numba.njit(inline="always")(function))
