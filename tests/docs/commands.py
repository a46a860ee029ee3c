"""Finds the `make` and `spillway` commands that a page mentions, and asks whether they exist."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import itertools
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from unittest import mock

from tests.docs.markdown import ROOT, Page
from tests.docs.snippets import commands

Help = Callable[[tuple[str, ...]], tuple[int, str]]  # names of commands -> exit status and help text


def mentioned(page: Page) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each command of the page, in a fence or in inline code, as its line and words."""
    lines = [(line, text) for line, text in page.spans if re.match(r"(make|spillway) \S", text)]
    for fence in page.fences:
        if fence.language in {"console", "sh"}:
            lines += [(fence.line, command) for command, _ in commands(fence)]
    for line, text in lines:
        for part in re.split(r"&&|\|\||[;|]", text):
            words = shlex.split(part, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):  # settings of the environment
                words = words[1:]
            if words and words[0].rpartition("/")[2] in {"make", "spillway"}:
                yield line, (words[0].rpartition("/")[2], *words[1:])


def missing(words: tuple[str, ...], ask: Help | None = None) -> str | None:
    """Say what of a command does not exist, or None. ``ask`` stands in for the real command line."""
    if words[0] == "make":
        goals = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        unknown = [goal for goal in goals if goal not in make_targets()]
        return f"no such target: {', '.join(unknown)}" if unknown else None
    options = [word.partition("=")[0] for word in words[1:] if word.startswith("-")]
    leading = tuple(itertools.takewhile(lambda word: re.fullmatch(r"[a-z][a-z0-9-]*", word), words[1:]))
    status, text = (ask or cli_help)(leading)
    if status:
        return f"`spillway {' '.join(leading)} --help` fails: {text.strip()}"
    unknown = [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)]
    return f"no such option: {', '.join(unknown)}" if unknown else None


@functools.cache
def make_targets() -> frozenset[str]:
    """All targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^([a-z-]+):(?!=)", makefile, flags=re.M))


@functools.cache
def cli_help(names: tuple[str, ...]) -> tuple[int, str]:
    """Exit status and output of ``spillway ... --help``, run in this process through the real entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["spillway"].partition(":")
    main = getattr(importlib.import_module(module), function)
    argv = mock.patch.object(sys, "argv", ["spillway", *names, "--help"])
    said = io.StringIO()
    with argv, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status = main()
        except SystemExit as stop:
            status = stop.code
    return int(status or 0), said.getvalue()
