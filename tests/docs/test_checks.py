"""The checks of the pages bite: each one on a small page with a planted fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.docs import commands, snippets
from tests.docs.markdown import Page, broken_links, read

Write = Callable[[str], Page]


@pytest.fixture
def page(tmp_path: Path) -> Write:
    def write(text: str) -> Page:
        path = tmp_path / "page.md"
        path.write_text(dedent(text), encoding="utf-8")
        return read(path)

    return write


def test_links(page: Write) -> None:
    text = """
        # Two words, `and` code
        ## Twice
        ## Twice
        [a](#two-words-and-code) [b](page.md#twice-1) [c](https://example.org/x) <img src="page.md">

        | table |
        |---|
        | [d](gone.md) |

        ![e](gone.svg) [f](#twice-2) <a href="gone.html">g</a>
        """
    found = broken_links(page(text))
    assert [line.split(": ")[1] for line in found] == ["gone.md", "gone.svg", "#twice-2", "gone.html"]


def test_commands_are_found_in_fences_and_in_the_text(page: Write) -> None:
    text = """
        Run `make check`, not `make it so`; `make` alone is a word.

        ```console
        $ cd project && A=1 make nothing ARGS="--x y" | tail
        make output is not a command
        $ .venv/bin/spillway bench \\
            control
        ```

        ```sh
        make help # a comment
        # make comment
        ```
        """
    found = list(commands.mentioned(page(text)))
    assert [words for _, words in found] == [
        ("make", "check"),
        ("make", "it", "so"),
        ("make", "nothing", "ARGS=--x y"),
        ("spillway", "bench", "control"),
        ("make", "help"),
    ]
    assert [line for line, _ in found] == [2, 2, 5, 5, 12]


def test_make_commands_must_exist() -> None:
    assert commands.missing(("make", "test", "ARGS=-k x")) is None
    assert commands.missing(("make", "tset")) == "no such target: tset"


def test_spillway_commands_and_their_options_must_exist() -> None:
    def ask(names: tuple[str, ...]) -> tuple[int, str]:
        known = {
            ("demo",): "usage: demo",
            ("bench",): "",
            ("bench", "control"): "usage: --quick, --json FILE",
        }
        return (0, known[names]) if names in known else (2, "invalid choice")

    assert commands.missing(("spillway", "demo"), ask) is None
    assert commands.missing(("spillway", "bench", "control", "--quick", "--json=FILE"), ask) is None
    assert commands.missing(("spillway", "bench", "SUITE"), ask) is None
    assert commands.missing(("spillway", "demno"), ask) == "`spillway demno --help` fails: invalid choice"
    assert commands.missing(("spillway", "bench", "control", "--qick"), ask) == "no such option: --qick"
    assert commands.missing(("spillway", "bench", "control", "--js"), ask) == "no such option: --js"


@pytest.mark.parametrize(
    ("fence", "problem"),
    [
        ("```\nx\n```", "without a language"),
        ("```python norun\nx = 1\n```", "no option 'norun'"),
        ("```text run\nx\n```", "no option 'run'"),
        ("```python no-run\nx = = 1\n```", "invalid syntax"),
    ],
)
def test_malformed_fences(page: Write, fence: str, problem: str) -> None:
    (found,) = snippets.problems(page(fence))
    assert problem in found


def test_fences_of_a_page_share_a_namespace(page: Write) -> None:
    text = """
        ```python
        x = 20
        ```

        ```pycon
        >>> y = x + 1
        >>> print("it is", y)
        it ...21
        ```

        ```python no-run
        raise SystemExit
        ```

        ```python
        assert y == 21
        ```
        """
    snippets.run(page(text), {})


@pytest.mark.parametrize(
    ("fence", "problem"),
    [
        ("```python\nraise ValueError('that is wrong')\n```", "that is wrong"),
        ("```pycon\n>>> 1 + 1\n3\n```", "Expected:\n    3\nGot:\n    2"),
        ("```pycon\n1 + 1\n```", "without a >>> line"),
        ("```console run\n$ echo one\ntwo\n```", "expected:\ntwo\n\ngot:\none"),
        ("```sh run\nfalse | cat\n```", r"page.md:2: $ false"),
    ],
)
def test_a_snippet_that_fails_is_reported(page: Write, fence: str, problem: str) -> None:
    with pytest.raises((AssertionError, ValueError)) as caught:
        snippets.run(page(fence), {})
    assert problem in str(caught.value)


def test_commands_run_only_when_they_say_so(page: Write) -> None:
    snippets.run(page("```console\n$ false\n```\n\n```console run\n$ echo $((20 + 1))\n21\n```"), {})


def test_a_traceback_shows_the_line_of_the_page(page: Write) -> None:
    with pytest.raises(ValueError, match="wrong") as caught:
        snippets.run(page("\n\n```python\nx = 1\nraise ValueError('wrong')\n```"), {})
    assert (caught.traceback[-1].path.name, caught.traceback[-1].lineno + 1) == ("page.md", 5)
