"""One self-contained HTML page: its style and its plots are in the file, nothing is fetched."""

from __future__ import annotations

import html
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spillway.errors import SpillwayError

_STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --soft: #5b5b60; --page: #fbfbfa; --line: #d9d9d6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececea; --soft: #a8a8a4; --page: #17181a; --line: #3a3b3e; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto;
       max-width: 66rem; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { max-width: 46rem; } .soft { color: var(--soft); }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .9rem; max-width: 46rem; }
figure svg { background: #fff; border: 1px solid var(--line); border-radius: 6px; width: 100%; height: auto; }
table { border-collapse: collapse; margin: .5rem 0; } td, th { padding: .3rem 1.1rem .3rem 0; text-align: left;
       border-bottom: 1px solid var(--line); vertical-align: top; } td.n, th.n { text-align: right;
       font-variant-numeric: tabular-nums; } .scroll { overflow-x: auto; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page around its parts."""
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def text(value: object) -> str:
    """Return a value as text that can stand in HTML.

    >>> text("a < b")
    'a &lt; b'
    """
    return html.escape(str(value))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table whose first column is words and whose others are figures."""
    kinds = ["", *[' class="n"'] * (len(head) - 1)]
    top = "".join(f"<th{kind}>{text(cell)}</th>" for kind, cell in zip(kinds, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def plot(figure: Any, caption: str) -> str:
    """Return a matplotlib figure as inline SVG with a caption, which is its description as well."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{text(caption)}"', 1)
    return f"<figure>{svg}<figcaption>{text(caption)}</figcaption></figure>"


def write(path: Path, content: str) -> None:
    """Write a page, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise SpillwayError(f"{path} cannot be written: {error.strerror or error}.") from error
