"""The import direction, held by a machine.

benchmarks -> cli -> demo -> report -> spark, estimate, sim, replay -> loop -> core -> errors: nothing imports
upwards, and the loop needs no Spark. These contracts stand in pyproject.toml ([tool.importlinter]). What they
cannot say is checked here on the syntax tree: ``core`` does no I/O and reads no clock and no dice, the library runs
without its extra ``tools``, and an ``__init__.py`` only re-exports. Each rule is also shown to bite, on a small
package with a planted violation.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "spillway"

# What core may import: pure values and arithmetic. A module that is missing here may be added if it touches
# neither the clock nor chance nor the outside world.
PURE = {
    *("__future__", "abc", "bisect", "cmath", "collections", "contextlib", "copy", "dataclasses", "decimal"),
    *("difflib", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "keyword"),
    *("math", "numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "types", "typing"),
    *("numba", "numpy", "pyarrow", "pyarrow.compute", "spillway.core", "spillway.errors", "zlib"),
    "spillway.durations",
}
# Allowed in one place only.
PURE_AT = {"lark": "spillway.core.cep.language", "sklearn": "spillway.core.cep.estimation"}
# Parts of allowed modules that are not pure; numpy.random.Generator is the type of an argument.
IMPURE_PARTS = {
    *("numpy.random", "numpy.load", "numpy.save", "numpy.savez", "numpy.loadtxt", "numpy.savetxt"),
    *("numpy.fromfile", "numpy.memmap", "numpy.genfromtxt", "pyarrow.memory_map", "pyarrow.OSFile"),
    *("pyarrow.input_stream", "pyarrow.output_stream", "json.load", "json.dump"),
}
IMPURE_BUT_FINE = {"numpy.random.Generator"}
IMPURE_BUILTINS = {"open", "print", "input", "breakpoint", "__import__"}

# The layers that run without the packages of the extra `tools`; those above them need it.
LIBRARY = ("core", "loop", "spark", "estimate", "sim", "replay")
TOOLS = {"matplotlib", "rich"}


def within(name: str, parents: set[str]) -> bool:
    """Whether a dotted name is one of the given names or lies below one of them."""
    return any(name == parent or name.startswith(parent + ".") for parent in parents)


def module_of(path: Path, package: Path) -> str:
    """Dotted name of a file of the package."""
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str, str]]:
    """Each import as line, full dotted name and the name it is bound to. ``from a import b`` is ``a.b``."""
    here = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                yield node.lineno, alias.name, bound
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{source}.{alias.name}", alias.asname or alias.name


def may_import(name: str, module: str) -> bool:
    """Whether this module of core may import this name."""
    top = name.partition(".")[0]
    if top in PURE_AT:
        return within(module, {PURE_AT[top]})
    if name in IMPURE_BUT_FINE:
        return True
    if within(name, IMPURE_PARTS):
        return False
    if top in {"pyarrow", "spillway"}:  # of these only some parts: pyarrow.Table, but not pyarrow.parquet
        arrow_value = top == "pyarrow" and name.count(".") == 1 and name.rpartition(".")[2][:1].isupper()
        return arrow_value or name == "pyarrow" or within(name, PURE - {"pyarrow"})
    return top in PURE


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` of an attribute chain, None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def impurities(path: Path, package: Path) -> list[str]:
    """All places where a file of core does or imports what core must not."""
    module = module_of(path, package)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: dict[tuple[int, str], None] = {}
    bound: dict[str, str] = {}
    for line, name, alias in imports(tree, module, path.name == "__init__.py"):
        bound[alias] = name
        if not may_import(name, module):
            found[line, f"imports {name}"] = None
    fine: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in fine or not isinstance(node, ast.Attribute | ast.Name):
            continue
        text = dotted(node)
        if text is None:
            continue
        first, _, rest = text.partition(".")
        name = bound.get(first, first if first in IMPURE_BUILTINS else "") + ("." + rest if rest else "")
        if name in IMPURE_BUT_FINE:
            fine.update(id(child) for child in ast.walk(node))
        elif within(name, IMPURE_PARTS) or (name in IMPURE_BUILTINS and first not in bound):
            found[node.lineno, f"uses {name}"] = None
            fine.update(id(child) for child in ast.walk(node))
    return [f"{module}:{line}: {what}" for line, what in found]


def tools_used(path: Path, package: Path) -> list[str]:
    """All imports of packages that only the extra ``tools`` brings."""
    module = module_of(path, package)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = imports(tree, module, path.name == "__init__.py")
    return [f"{module}:{line}: imports {name}" for line, name, _ in found if within(name, TOOLS)]


def not_reexports(path: Path) -> list[str]:
    """All statements of an ``__init__.py`` that are more than a docstring, an import or ``__all__``."""
    found = []
    for number, node in enumerate(ast.parse(path.read_text(encoding="utf-8")).body):
        match node:
            case ast.Import() | ast.ImportFrom():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]) if all(
                isinstance(inner, ast.ImportFrom) for inner in node.body
            ):
                pass  # what _lazy.py loads when it is asked for
            case ast.Expr(value=ast.Constant(value=str())) if number == 0:
                pass
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple()):
                pass
            case _:
                line = ast.unparse(node).splitlines()[0]
                found.append(f"{path.parent.name}/__init__.py:{node.lineno}: {line}")
    return found


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of pyproject.toml over the ``spillway`` in this folder's src."""
    run = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"]
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    env = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [*run, "--no-cache", "--no-logo"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


CORE = [*sorted((PACKAGE / "core").rglob("*.py")), PACKAGE / "errors.py"]
INITS = sorted(PACKAGE.rglob("__init__.py"))


def test_nothing_imports_upwards() -> None:
    ran = lint_imports(ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 kept, 0 broken" in ran.stdout


def test_every_part_has_its_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    layered = re.findall(r"spillway\.(\w+)", " ".join(layers))
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert parts - {"__init__"} <= set(layered)


@pytest.mark.parametrize("path", CORE, ids=lambda path: module_of(path, PACKAGE))
def test_core_is_pure(path: Path) -> None:
    assert impurities(path, PACKAGE) == []


@pytest.mark.parametrize("folder", LIBRARY)
def test_the_library_runs_without_tools(folder: str) -> None:
    found = [use for path in sorted((PACKAGE / folder).rglob("*.py")) for use in tools_used(path, PACKAGE)]
    assert found == []


@pytest.mark.parametrize("path", INITS, ids=lambda path: module_of(path, PACKAGE))
def test_init_only_reexports(path: Path) -> None:
    assert not_reexports(path) == []


# ---- the rules bite ----------------------------------------------------------------------------------------

FOLDERS = ("core", "core/cep", "loop", "spark", "estimate", "sim", "replay", "demo", "report", "cli")


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A package of the same shape, with the project's own contracts and nothing wrong in it."""
    package = tmp_path / "src" / "spillway"
    for layer in FOLDERS:
        (package / layer).mkdir(parents=True, exist_ok=True)
        (package / layer / "__init__.py").touch()
    for name in ("__init__", "errors", "_version"):
        (package / f"{name}.py").touch()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return package


def plant(package: Path, where: str, text: str) -> Path:
    path = package / where
    path.write_text(text, encoding="utf-8")
    return path


def test_the_toy_package_is_clean(toy: Path) -> None:
    plant(toy, "core/model.py", "from spillway.errors import SpillwayError\n")
    plant(toy, "sim/engine.py", "from spillway.core import model\nfrom spillway.replay import traces\n")
    plant(toy, "replay/traces.py", "import numpy\n")
    plant(toy, "cli/main.py", "import spillway.report\nimport rich\n")
    plant(toy, "../../benchmarks/suite.py", "from spillway import cli, demo\n")
    ran = lint_imports(toy.parents[1])
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "files",
    [
        {"core/bad.py": "from spillway.spark import loop\n", "spark/loop.py": ""},
        {"core/bad.py": "from ..sim import engine\n", "sim/engine.py": ""},
        {"core/bad.py": "import spillway\n", "__init__.py": "from spillway import spark\n"},
        {"core/bad.py": "import spillway.estimate\n"},
        {"spark/bad.py": "def f():\n    import benchmarks\n"},
        {"cli/bad.py": "from benchmarks import suite\n", "../../benchmarks/suite.py": ""},
        {"report/bad.py": "from spillway import demo\n"},
        {"loop/bad.py": "from spillway import spark\n"},
        {"errors.py": "from spillway.core import cep\n"},
    ],
    ids=lambda files: f"{next(iter(files))}-{len(files)}",
)
def test_a_planted_import_breaks_the_contract(toy: Path, files: dict[str, str]) -> None:
    for where, text in files.items():
        plant(toy, where, text)
    ran = lint_imports(toy.parents[1])
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "Nothing imports upwards BROKEN" in ran.stdout


@pytest.mark.parametrize("text", ["import pyspark\n", "def f():\n    import pandas\n"])
def test_a_loop_that_needs_spark_breaks_its_contract(toy: Path, text: str) -> None:
    plant(toy, "loop/bad.py", text)
    ran = lint_imports(toy.parents[1])
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "The loop needs no Spark BROKEN" in ran.stdout


@pytest.mark.parametrize("text", ["import matplotlib.pyplot as plt", "def f():\n    from rich import box"])
def test_a_planted_use_of_tools_is_found(toy: Path, text: str) -> None:
    assert len(tools_used(plant(toy, "spark/bad.py", text + "\n"), toy)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import pyspark",
        "import pandas as pd",
        "import time",
        "from time import monotonic",
        "import random",
        "from os import path",
        "import pathlib",
        "import io",
        "from datetime import datetime",
        "import pyarrow.parquet as pq",
        "from pyarrow import parquet",
        "from pyarrow import fs as storage",
        "from spillway import Spillway",
        "from spillway.spark import loop",
        "from .. import spark",
        "import lark",
        "from sklearn.cluster import KMeans",
        "def f():\n    import socket",
        "if False:\n    from pyspark.sql import DataFrame",
        "import numpy as np\nx = np.random.default_rng(1)",
        "from numpy.random import default_rng",
        "import numpy\nx = numpy.load('x')",
        "import pyarrow as pa\nx = pa.memory_map('x')",
        "x = open('x')",
        "print('x')",
        "x = __import__('time')",
    ],
)
def test_a_planted_impurity_is_found(toy: Path, text: str) -> None:
    assert len(impurities(plant(toy, "core/bad.py", text + "\n"), toy)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations",
        "import math\nfrom collections.abc import Iterable",
        "import numpy as np\ndef f(rng: np.random.Generator) -> np.ndarray: ...",
        "from numpy.random import Generator",
        "import pyarrow as pa\nimport pyarrow.compute as pc",
        "from pyarrow import Table, compute",
        "from numba import njit",
        "import json\nx = json.loads('1')",
        "from spillway.core.control import values\nfrom spillway.errors import invalid",
        "from .control import values\nfrom . import control",
        "class Log:\n    def open(self) -> None: ...\nLog().open()",
    ],
)
def test_what_core_may_import_passes(toy: Path, text: str) -> None:
    assert impurities(plant(toy, "core/good.py", text + "\n"), toy) == []


def test_lark_and_sklearn_have_their_place(toy: Path) -> None:
    assert impurities(plant(toy, "core/cep/language.py", "import lark\n"), toy) == []
    assert impurities(plant(toy, "core/cep/estimation.py", "from sklearn import tree\n"), toy) == []
    assert impurities(plant(toy, "core/cep/engine.py", "import lark\nimport sklearn\n"), toy) != []


@pytest.mark.parametrize(
    "text",
    ["def f(): ...", "class C: ...", "for x in (): ...", "x = 1", "__all__ = dir()", "if True: ..."],
)
def test_an_init_that_does_more_is_found(toy: Path, text: str) -> None:
    start = '"""Doc."""\n\nfrom math import pi\n\n__all__ = ["pi"]\n'
    assert not_reexports(plant(toy, "core/__init__.py", start)) == []
    assert len(not_reexports(plant(toy, "core/__init__.py", start + text + "\n"))) == 1


def test_the_core_loads_without_spark() -> None:
    code = (
        "import sys, spillway, spillway.core.control, spillway.core.tuples\n"
        "loaded = {name.partition('.')[0] for name in sys.modules} & {'pyspark', 'pandas'}\n"
        "assert not loaded, loaded\n"
        "from spillway import Spillway, Status\n"
        "assert 'pyspark' in sys.modules\n"
        "spillway.estimate.mean\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
