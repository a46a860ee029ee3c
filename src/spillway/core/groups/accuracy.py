"""Computes how many rows a mean needs for the accuracy that the user asks for ("1 % at 95 %"): scalar aggregates.

The concept of a window is (μ, σ²) of the values, estimated on its sample (Table II). A mean of n rows drawn without
replacement from N is off by less than ε μ with the given confidence if

    n_0 = (z σ / (ε μ))²          from an endless stream
    n   = n_0 / (1 + n_0 / N)     from N rows

and the sampling rate is b = n / N. The same n serves sum and count, whose relative errors are that of the mean.

========  =========================================================
symbol    meaning
========  =========================================================
ε         ``error``: the relative error allowed, "1 %"
z         normal quantile of the ``confidence``, "95 %"
========  =========================================================

>>> rows_needed("1 % at 95 %", mean=100.0, deviation=50.0, rows=10**9)
9604
>>> rows_needed("1 % at 95 %", mean=100.0, deviation=50.0, rows=20_000)
6489
>>> rate_needed("5 % at 90 %", mean=100.0, deviation=50.0, rows=20_000)
0.01335
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from spillway.core.groups.student import z_quantile
from spillway.errors import invalid

_TEXT = re.compile(
    r"\s*(?P<error>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>%|percent)\s*(?:at|@)\s*"
    r"(?P<confidence>\d+(?:\.\d+)?|\.\d+)\s*(?:%|percent)\s*(?:confidence)?\s*",
    re.IGNORECASE,
)
_ALLOWED = "an error and a confidence such as '1 % at 95 %'"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A relative error that must hold with a given confidence, both as shares."""

    error: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name, value in (("error", self.error), ("confidence", self.confidence)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 1.0:
                raise invalid(name, value, "a share between 0 and 1", hint="1 % is 0.01")


def accuracy_of(text: str | Accuracy) -> Accuracy:
    """Parse an accuracy from text.

    >>> accuracy_of("0.5% at 99%")
    Accuracy(error=0.005, confidence=0.99)
    >>> accuracy_of("95 % at 1 %")
    Traceback (most recent call last):
        ...
    spillway.errors.SpillwayError: accuracy = '95 % at 1 %' is not allowed: ... Hint: the error comes first
    """
    if isinstance(text, Accuracy):
        return text
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise invalid("accuracy", text, _ALLOWED)
    error, confidence = float(found["error"]) / 100.0, float(found["confidence"]) / 100.0
    if not (0.0 < error < 1.0 and 0.0 < confidence < 1.0):
        raise invalid("accuracy", text, f"{_ALLOWED}, both above 0 % and below 100 %")
    if confidence < 0.5 < error:
        raise invalid("accuracy", text, _ALLOWED, hint="the error comes first")
    return Accuracy(error, confidence)


def rows_needed(accuracy: str | Accuracy, *, mean: float, deviation: float, rows: int) -> int:
    """Return how many of ``rows`` a mean needs, given mean and standard deviation of a sample.

    A mean of zero has no relative error: then all rows are needed, unless all values are equal.
    """
    asked = accuracy_of(accuracy)
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0.0):
        raise invalid("mean, deviation", (mean, deviation), "finite numbers, the deviation >= 0")
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
        raise invalid("rows", rows, "a whole number >= 0")
    if deviation == 0.0 or rows <= 1:
        return min(rows, 1)
    epsilon, z, mu, sigma, N = asked.error, z_quantile(asked.confidence), abs(mean), deviation, rows
    if mu * epsilon * 1e150 <= z * sigma:
        return N
    n0 = (z * sigma / (epsilon * mu)) ** 2
    return max(1, min(N, math.ceil(n0 / (1.0 + n0 / N) - 1e-9)))


def rate_needed(accuracy: str | Accuracy, *, mean: float, deviation: float, rows: int) -> float:
    """Return the sampling rate b = n / N."""
    return rows_needed(accuracy, mean=mean, deviation=deviation, rows=rows) / max(rows, 1)
