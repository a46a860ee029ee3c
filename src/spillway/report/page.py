"""One HTML file without anything outside it: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from spillway.report.theme import DARK, FONTS, LIGHT, variables

_CSS: Final = f"""
:root {{ color-scheme: light dark; {variables(LIGHT)} --card: #f6f8fa; }}
@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} --card: #161b22; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 62rem; padding: 2.5rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 {FONTS}; }}
h1 {{ font-size: 1.9rem; line-height: 1.2; margin: 0 0 .6rem; letter-spacing: -.01em; }}
h2 {{ font-size: 1.2rem; margin: 2.6rem 0 .4rem; }}
p {{ margin: .4rem 0 .8rem; max-width: 46rem; }}
.lead {{ font-size: 1.1rem; max-width: 52rem; }}
.warning {{ border-left: .3rem solid var(--plain); padding-left: .8rem; max-width: 52rem; }}
.muted, figcaption, footer {{ color: var(--muted); font-size: .92rem; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(13.5rem, 1fr)); gap: .8rem;
  margin: 1.4rem 0; }}
.card {{ background: var(--card); border: 1px solid var(--grid); border-radius: .6rem; padding: .8rem 1rem; }}
.card b {{ display: block; font-size: 1.7rem; line-height: 1.25; font-variant-numeric: tabular-nums; }}
.card span {{ color: var(--muted); font-size: .92rem; }}
figure {{ margin: .6rem 0 1rem; }}
figure svg {{ display: block; width: 100%; height: auto; }}
svg text {{ fill: var(--ink); }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin: .6rem 0 1rem; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .4rem .7rem; border-bottom: 1px solid var(--grid); text-align: right; vertical-align: top; }}
th:first-child, td:first-child, td.text, th.text {{ text-align: left; }}
thead th {{ border-bottom: 2px solid var(--grid); white-space: nowrap; }}
details {{ margin: .8rem 0; }}
summary {{ cursor: pointer; font-weight: 600; }}
details table {{ font-size: .84rem; }}
footer {{ margin-top: 3rem; border-top: 1px solid var(--grid); padding-top: .8rem; }}
"""


def page(title: str, *parts: str) -> str:
    """Return a whole HTML document."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def heading(text: str) -> str:
    """Return a section's heading."""
    return f"<h2>{escape(text)}</h2>"


def cards(items: Iterable[tuple[str, str]]) -> str:
    """Return a row of big figures, each with a line that says what it is."""
    inner = "".join(
        f'<div class="card"><b>{escape(big)}</b><span>{escape(what)}</span></div>' for big, what in items
    )
    return f'<div class="cards">{inner}</div>'


def figure(svg: str, caption: str) -> str:
    """Return a plot with its caption; the plot is already an SVG element."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: Sequence[int] = (0,)
) -> str:
    """Return a table; columns are aligned to the right except those that hold text."""

    def cell(tag: str, number: int, value: str) -> str:
        kind = ' class="text"' if number in text_columns else ""
        return f"<{tag}{kind}>{escape(value)}</{tag}>"

    head = "".join(cell("th", number, name) for number, name in enumerate(columns))
    body = "".join(
        "<tr>" + "".join(cell("td", number, value) for number, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def details(summary: str, inner: str) -> str:
    """Return something that is folded away until it is asked for."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def footer(text: str) -> str:
    """Return the last line of the page."""
    return f"<footer>{escape(text)}</footer>"
