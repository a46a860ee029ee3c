"""What all tests share: how hypothesis draws, where recorded data lies, which tests need a JVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# Examples follow from the test's own code, so a run repeats exactly. `explore` is for hunting:
# HYPOTHESIS_PROFILE=explore make test-core
settings.register_profile(
    "repeatable",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("repeatable"), max_examples=100, print_blob=True)
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


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of recorded data sets; a test that asks for it is skipped where there is none."""
    given = os.environ.get("SPILLWAY_DATA")
    folder = Path(given) if given else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no recorded data at {folder}: set SPILLWAY_DATA to the folder that holds it")
    return folder
