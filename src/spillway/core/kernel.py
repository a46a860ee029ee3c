"""Compiled kernels: Numba with its compilation cached on disk, behind a decorator that keeps the types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function to machine code once; later processes load it from disk."""
    return cast(F, numba.njit(cache=True)(function))
