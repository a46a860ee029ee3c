"""The scalar rule: from mean and variance of a sample to the rows that an accuracy such as "1 % at 95 %" takes.

The paper says that the concept of a scalar aggregate gives the sampling rate, and does not measure it. Here every
window is shed to what the rule asks for, given a sample of 2 % of its rows, and the mean of that many other rows is
either within the error or not. Of 100 windows 95 should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.groups.errors import relative_errors
from benchmarks.groups.methods import keep_uniform
from benchmarks.groups.windows import Stream
from spillway.core.groups import accuracy_of, rows_needed
from spillway.core.groups.paper.concepts import Moments

ACCURACIES = ("1 % at 95 %", "5 % at 95 %")
SAMPLE = 0.02
_APART = 1_000_003  # the salts of the sample are not those of the answer


@dataclass(frozen=True, slots=True)
class Met:
    """How many windows were within an accuracy, and what share of the rows that took."""

    accuracy: str
    windows: int
    within: int
    processed: float

    @property
    def share(self) -> float:
        """The share of the windows that were within the error."""
        return self.within / self.windows


def met(stream: Stream, accuracy: str, *, salts: Sequence[int]) -> Met:
    """Shed every window of a stream without groups to an accuracy, with every salt."""
    allowed = accuracy_of(accuracy).error
    within, rows, kept_rows = 0, 0, 0
    for salt in salts:
        for window in stream.windows:
            sample = keep_uniform(window, round(SAMPLE * window.rows), salt + _APART)
            concept = Moments.of(sample["value"].to_numpy())
            needed = rows_needed(accuracy, mean=concept.mean, deviation=concept.deviation, rows=window.rows)
            kept = keep_uniform(window, needed, salt)
            (error,) = relative_errors(window.truth, window.means(kept))
            within += bool(error <= allowed)
            rows += window.rows
            kept_rows += kept.num_rows
    return Met(accuracy, len(salts) * len(stream.windows), within, float(np.divide(kept_rows, rows)))
