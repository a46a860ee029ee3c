"""What a benchmark found, as a value and as a JSON file.

.. code-block:: json

    {"suite": "control", "metrics": {"name": 1.0}, "figures": {"12": {}}, "config": {},
     "commit": null, "seconds": 1.0}

Runs are declared, results go to disk, plots are drawn from results: a results file says all that is needed to read
its numbers, and it appears whole or not at all.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spillway.errors import SpillwayError, invalid
from spillway.report.files import write_atomically

_IN_FULL, _TOO_LONG = 1e4, 1e15  # from where on fractions do not matter, and where digits do not either


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One of the paper's figures, done again.

    ============= ==================================================================
    ``title``     what the figure shows
    ``paper``     what the paper found, in words or numbers
    ``ours``      what was found here, in the same terms
    ``holds``     whether the paper's shape holds here
    ``numbers``   the numbers behind ``ours``
    ``files``     the plots, relative to the output folder
    ============= ==================================================================
    """

    title: str
    paper: str
    ours: str
    holds: bool
    numbers: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Results:
    """The outcome of one suite."""

    suite: str
    metrics: Mapping[str, float]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for name, value in self.metrics.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise invalid(f"metrics[{name!r}]", value, "a finite number")

    def to_json(self) -> str:
        """Return the results as indented JSON."""
        try:
            return json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise SpillwayError(f"results of {self.suite!r} cannot be written as JSON: {error}.") from error

    def write(self, path: Path | str) -> None:
        """Write the JSON form to a file, which appears whole or not at all."""
        write_atomically(path, self.to_json())


def shown(value: float) -> str:
    """Return a metric as people read it: counts in full, and four digits of what is measured.

    >>> [shown(value) for value in (23_481_671, 23_481_671.0, 123_456.7, 0.98765, 1.5e-6, 0, -3)]
    ['23,481,671', '23,481,671', '123,457', '0.9877', '1.5e-06', '0', '-3']
    """
    whole = value == int(value) or abs(value) >= _IN_FULL
    return f"{value:,.0f}" if whole and abs(value) < _TOO_LONG else f"{value:,.4g}"


def commit_id() -> str | None:
    """Return the commit of the source tree that the benchmarks are run from, None where that is not a clone."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
