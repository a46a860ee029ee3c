"""Inlines small steps into compiled loops, and lends the loops arrays without reference counts.

Numba counts references: each time an array, or a tuple of arrays, is passed to another compiled function or selected
from two, its count goes up and down again. That costs more than the few operations of a step. So a function that is
called for each row is inlined into the loop (:func:`inlined`), and the loop works on arrays that are :func:`lent` to
it and have no count. Both together let the compiler see that there is nothing to count. The caller keeps the arrays
alive meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Compile a function so that it is inlined into the functions that call it."""
    return cast(F, numba.njit(forceinline=True)(function))


@intrinsic  # type: ignore[untyped-decorator]
def lent(context: Any, given: Any) -> Any:
    """Return an array, or a tuple of arrays and numbers, without a count of references."""
    del context
    return given(given), lambda target, builder, signature, args: _lent(
        target, builder, signature.args[0], args[0]
    )


def _lent(target: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = make_array(kind)(target, builder, value)
        array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = [
            _lent(target, builder, part, builder.extract_value(value, at))
            for at, part in enumerate(kind.types)
        ]
        return target.make_tuple(builder, kind, parts)
    return value
