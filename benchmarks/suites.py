"""The suites by name, and what a suite is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from benchmarks.results import Results
from spillway.cli.bench import SUITES
from spillway.errors import SpillwayError, unknown

MODULES = {name: f"benchmarks.{name}" for name in SUITES}
"""One module or package per paper, one for Spark and its peers. Each has a function ``run``: a :class:`Suite`."""

PARTS: dict[str, tuple[str, ...]] = {"spark": ("neighbours", "restart")}
"""The parts of a suite that can be run alone, for those suites that have some."""

Tell = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""


def tell_nobody(what: str, done: int, total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class Request:
    """What a suite is asked to do.

    ========= ======================================================================
    ``quick`` the short run or the full one
    ``out``   where to draw
    ``parts`` the parts of the suite to run; none: those that belong to such a run
    ``tell``  whom to tell of the progress
    ========= ======================================================================
    """

    quick: bool = False
    out: Path | None = None
    parts: tuple[str, ...] = ()
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


def check_parts(name: str, parts: Iterable[str]) -> None:
    """Raise :class:`~spillway.errors.SpillwayError` where a suite does not have a part."""
    for part in parts:
        if part not in PARTS.get(name, ()):
            having = " or ".join(repr(suite) for suite, theirs in PARTS.items() if part in theirs)
            raise SpillwayError(
                f"--{part} is not an option of the suite {name!r}.", hint=f"only {having} has that part"
            )
