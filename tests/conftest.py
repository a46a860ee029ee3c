"""What all tests share: how hypothesis draws, where recorded data lies, which tests need a JVM or take long."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# Examples follow from the test's own code, so a run repeats exactly. `make test-long` draws more of them.
# `explore` is for hunting: HYPOTHESIS_PROFILE=explore make test-core
settings.register_profile(
    "repeatable",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("repeatable"), print_blob=True)
settings.register_profile("long", settings.get_profile("ci"), max_examples=400)
settings.register_profile(
    "explore", settings.get_profile("repeatable"), max_examples=2000, derandomize=False, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the marks that follow from where a test lies and what it asks for."""
    spark_tests = ROOT / "tests" / "spark"
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if spark_tests in item.path.parents or "spark" in fixtures:
            item.add_marker("spark")
        if "data_dir" in fixtures:
            item.add_marker("data")
    _leave_out_most_cases(items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        _put_long_files_first(items)


def _put_long_files_first(items: list[pytest.Item]) -> None:
    """Files are dealt to the processes in this order: what is left for the end, when one has to wait, is short."""
    tests = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[bool, bool, int, Path]:
        needs_no_spark = item.get_closest_marker("spark") is None
        return (
            needs_no_spark,
            ROOT / "tests" / "property" not in item.path.parents,
            -tests[item.path],
            item.path,
        )

    items.sort(key=place)


def _leave_out_most_cases(items: list[pytest.Item]) -> None:
    """Mark as long what the mark ``few`` does not need of the cases of a test."""
    cases: defaultdict[tuple[Path, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("few"):
            cases[item.path, item.originalname].append(item)
    for of_one_test in cases.values():
        mark = of_one_test[0].get_closest_marker("few")
        together = mark.args[0] if mark and mark.args else 1
        # The cases of a test share the objects that are the values of a parameter.
        values = [{name: id(value) for name, value in item.callspec.params.items()} for item in of_one_test]
        chosen = covering(values, together)
        for place, item in enumerate(of_one_test):
            if place not in chosen:
                item.add_marker("long")


def covering(cases: list[dict[str, int]], together: int) -> set[int]:
    """Return the places of a few cases in which each parameter has each of its values.

    With ``together`` = 2, each pair of values of two parameters that occurs in all cases occurs in the few.
    """
    parts = [set(combinations(sorted(case.items()), together)) for case in cases]
    missing, chosen = set().union(*parts), set()
    while missing:
        best = max(range(len(cases)), key=lambda place: len(parts[place] & missing))
        chosen.add(best)
        missing -= parts[best]
    return chosen


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of recorded data sets; a test that asks for it is skipped where there is none."""
    given = os.environ.get("SPILLWAY_DATA")
    folder = Path(given) if given else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no recorded data at {folder}: set SPILLWAY_DATA to the folder that holds it")
    return folder
