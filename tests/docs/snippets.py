"""Runs the snippets of a page: Python as a script or a session with checked output, commands in bash."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.docs.markdown import Fence, Page

OPTIONS = {
    "python": {"no-run", "spark"},
    "pycon": {"no-run", "spark"},
    "console": {"run", "spark"},
    "sh": {"run", "spark"},
}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def problems(page: Page) -> Iterator[str]:
    """What is wrong with the fences themselves: no language, an unknown option, wrong syntax."""
    for fence in page.fences:
        where = f"{page.name}:{fence.line}"
        if not fence.language:
            yield f"{where}: a fence without a language (use `text`)"
        for option in sorted(fence.options - OPTIONS.get(fence.language, set())):
            yield f"{where}: {fence.language} fences have no option {option!r}"
        if fence.language == "python":
            try:
                compile(fence.text, where, "exec")
            except SyntaxError as error:
                yield f"{where}: {error}"


def runs(fence: Fence) -> bool:
    """Whether a fence is meant to run: Python unless it says no, commands only if they say so."""
    if fence.language in {"python", "pycon"}:
        return "no-run" not in fence.options
    return fence.language in {"console", "sh"} and "run" in fence.options


def run(page: Page, namespace: dict[str, Any]) -> None:
    """Run a page's snippets from top to bottom, in one namespace, in the current folder."""
    for fence in filter(runs, page.fences):
        if fence.language == "python":
            run_script(page, fence, namespace)
        elif fence.language == "pycon":
            run_session(page, fence, namespace)
        else:
            run_commands(page, fence)


def run_script(page: Page, fence: Fence, namespace: dict[str, Any]) -> None:
    """Run a script; a traceback shows the line of the page."""
    exec(compile("\n" * (fence.line - 1) + fence.text, page.path, "exec"), namespace)


def run_session(page: Page, fence: Fence, namespace: dict[str, Any]) -> None:
    """Run an interactive session and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(
        fence.text, namespace, page.name, str(page.path), fence.line - 1
    )
    assert test.examples, f"{page.name}:{fence.line}: a session without a >>> line"
    said: list[str] = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False).failed
    namespace.update(test.globs)
    assert not failed, "".join(said)


def run_commands(page: Page, fence: Fence) -> None:
    """Run each command in bash, stopping at the first that fails, and compare what it prints."""
    env = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"}
    for command, wanted in commands(fence):
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{page.name}:{fence.line}: $ {command}\n{ran.stdout}{ran.stderr}"
        if wanted:
            same = doctest.OutputChecker().check_output(wanted, ran.stdout, FLAGS)
            assert same, f"{page.name}:{fence.line}: $ {command}\nexpected:\n{wanted}\ngot:\n{ran.stdout}"


def commands(fence: Fence) -> list[tuple[str, str]]:
    """The commands of a fence, each with the output shown below it.

    In ``console`` a command follows a ``$``; in ``sh`` every line is one. A backslash at the end goes on.
    """
    found: list[tuple[str, str]] = []
    for line in fence.text.replace("\\\n", " ").splitlines(keepends=True):
        if fence.language == "sh":
            found += [(line.strip(), "")] if line.strip() and not line.startswith("#") else []
        elif line.startswith("$ "):
            found.append((line[2:].strip(), ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found
