"""How many files somebody passes who reads one kind of work, from its plan down to the last kernel.

The closure of a file is all that it imports, directly or not, inside the package. A name that an ``__init__``
re-exports counts for the file that defines it, the ``__init__`` itself does not. What is imported within a function
counts, since it runs; what is imported for types only does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src"

BARS = {
    "spillway.spark.tuples": 38,
    "spillway.spark.windows": 43,
    "spillway.spark.groups.plan": 43,
    "spillway.spark.join.plan": 78,
    "spillway.spark.match.plan": 118,
}


@pytest.mark.parametrize("start", BARS)
def test_a_reader_passes_no_more_files_than_today(start: str) -> None:
    """The bars may only go down: a change that makes a closure smaller lowers its bar in the same commit."""
    found = closure(start)
    assert len(found) <= BARS[start], sorted(found)


def test_what_counts(tmp_path: Path) -> None:
    files = {
        "a/__init__.py": "",
        "a/start.py": "from typing import TYPE_CHECKING\nfrom a.box import Thing\nimport math\n"
        "if TYPE_CHECKING:\n    from a import typed\nelse:\n    from a import untyped\n"
        "def f():\n    from a import lazy\n",
        "a/box/__init__.py": "from a.box.inner import Thing\nfrom .unused import Other\n",
        "a/box/inner.py": "from .. import whole\n",
        "a/box/unused.py": "",
        "a/whole/__init__.py": "from .part import x\n",
        "a/whole/part.py": "from a import start\n",
        **dict.fromkeys(("a/typed.py", "a/untyped.py", "a/lazy.py"), ""),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert closure("a.start", tmp_path) == {"a.start", "a.untyped", "a.lazy", "a.box.inner", "a.whole.part"}


def closure(start: str, root: Path = ROOT) -> set[str]:
    """A module and all that it leads to, without any ``__init__``."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        module = ahead.pop()
        if module not in found:
            found.add(module)
            names = [
                name for node in at_run_time(tree(root, module)) for name in imported(root, module, node)
            ]
            ahead += filter(None, (home_of(root, name) for name in names))
    return {module for module in found if not is_init(root, module)}


def at_run_time(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports below a node, but for those that stand under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from at_run_time(ast.Module(child.orelse, []))
        else:
            yield from at_run_time(child)


def imported(root: Path, module: str, node: ast.Import | ast.ImportFrom) -> list[str]:
    """The full names that a statement of a module imports: ``a.b`` for ``from a import b``."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    here = module.split(".") if is_init(root, module) else module.split(".")[:-1]
    base = here[: len(here) - node.level + 1] if node.level else []
    return [".".join([*base, *([node.module] if node.module else []), alias.name]) for alias in node.names]


def home_of(root: Path, name: str) -> str | None:
    """The module that a name is from, through all that re-exports it; None outside of the package."""
    if path_of(root, name) is not None:
        return name
    package, _, last = name.rpartition(".")
    if path_of(root, package) is None:
        return None
    for node in at_run_time(tree(root, package)) if is_init(root, package) else ():
        for alias, full in zip(node.names, imported(root, package, node), strict=True):
            if (alias.asname or alias.name) == last:
                return home_of(root, full)
    return package


@cache
def path_of(root: Path, module: str) -> Path | None:
    """The file of a module, None if it is not in the package."""
    path = root.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def is_init(root: Path, module: str) -> bool:
    path = path_of(root, module)
    return path is not None and path.name == "__init__.py"


@cache
def tree(root: Path, module: str) -> ast.Module:
    path = path_of(root, module)
    assert path is not None, module
    return ast.parse(path.read_text(encoding="utf-8"))
