"""The suites by name, and what a suite is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from spillway.bench.results import Results
from spillway.errors import unknown

MODULES = {
    name: f"spillway.bench.{name}" for name in ("control", "windows", "groups", "join", "cep", "spark")
}
"""One module or package per paper, one for Spark and its peers. Each has a function ``run``: a :class:`Suite`."""

Tell = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""


def tell_nobody(what: str, done: int, total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class Request:
    """What a suite is asked to do: the short run or the full one, where to draw, whom to tell of the progress."""

    quick: bool = False
    out: Path | None = None
    tell: Tell = field(default=tell_nobody, compare=False)


class Suite(Protocol):
    """Runs a suite to its end."""

    def __call__(self, request: Request) -> Results:
        """Return what was found."""


def available() -> list[str]:
    """Return the names of the suites that are there."""
    return [name for name, module in MODULES.items() if find_spec(module) is not None]


def suite(name: str) -> Suite:
    """Return a suite by its name."""
    names = available()
    if name not in names:
        raise unknown("suite", name, names)
    found: Suite = import_module(MODULES[name]).run
    return found
