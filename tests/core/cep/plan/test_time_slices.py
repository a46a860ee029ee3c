"""The text that finds the time slice of a run, against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.cep.plan.time_slices import Ages


@given(st.integers(1, 12), st.integers(1, 60) | st.integers(1, 2**58), st.data())
def test_slices_are_as_defined(slices: int, within: int, data: st.DataObject) -> None:
    edges = [s * within // slices + more for s in range(slices) for more in (-1, 0, 1)]
    age = data.draw(st.integers(0, within - 1) | st.sampled_from(edges).filter(lambda age: 0 <= age < within))
    ages = Ages(slices)
    names: dict[str, Any] = {"within": within, "now": np.int64(5), "first": np.int64(5 - age)}
    exec("\n".join([*ages.begin(), *ages.row()]), names)
    assert eval(ages.slice_of("first"), names) == age * slices // within
