"""The lock file, the Makefile and the package's metadata agree with each other."""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PINS = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)(.*?)(?=^[A-Za-z0-9]|\Z)", LOCK, flags=re.M | re.S)


def wanted() -> list[Requirement]:
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        lines += extra
    return [Requirement(line) for line in [*lines, *PROJECT["build-system"]["requires"]]]


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_the_lock_pins_what_the_project_needs(requirement: Requirement) -> None:
    pinned = [pin for name, pin, _ in PINS if canonicalize_name(name) == canonicalize_name(requirement.name)]
    assert pinned, f"{requirement.name} is not in requirements.lock: run `make lock`"
    assert all(requirement.specifier.contains(pin) for pin in pinned), f"run `make lock`: {pinned}"


def test_each_pin_has_hashes_and_no_address() -> None:
    assert len(PINS) > 20
    assert [name for name, _, rest in PINS if "--hash=sha256:" not in rest] == []
    assert re.findall(r"\w+://\S+|^--?\w.*", LOCK, flags=re.M) == []


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    ran = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([a-z-]+) ", ran.stdout, flags=re.M)
    assert set(phony) - set(listed) == {"java"}  # a step of others
    assert {"demo", "test", "check", "bench"} <= set(listed)


def test_the_changelog_knows_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version = runpy.run_path(str(ROOT / "src" / "spillway" / "_version.py"))["__version__"]
    assert f"## [{version}]" in changelog
