"""Markdown pages as the checks see them: fences, links, inline commands and the anchors of headings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Fence:
    """A fenced block. The words after its language say what the checks do with it (CONTRIBUTING.md)."""

    language: str
    options: frozenset[str]
    text: str
    line: int  # of its first line of text, counted from 1


@dataclass(frozen=True)
class Page:
    """One Markdown file, taken apart."""

    path: Path
    fences: tuple[Fence, ...]
    links: tuple[tuple[int, str], ...]  # line and target, pictures too
    spans: tuple[tuple[int, str], ...]  # line and text of inline code
    anchors: frozenset[str]

    @property
    def name(self) -> str:
        """The path from the project's root, or the bare file name elsewhere."""
        return str(self.path.relative_to(ROOT)) if self.path.is_relative_to(ROOT) else self.path.name


def anchor(heading: str) -> str:
    """The anchor that code hosts give to a heading.

    >>> anchor("When *not* to shed: `cap`, wait")
    'when-not-to-shed-cap-wait'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def read(path: Path) -> Page:
    """Take a page apart."""
    fences, links, spans = [], [], []
    anchors: Counter[str] = Counter()
    names: set[str] = set()
    tokens = PARSER.parse(path.read_text(encoding="utf-8"))
    line = 1
    for position, token in enumerate(tokens):
        line = token.map[0] + 1 if token.map else line
        if token.type == "fence":
            language, *options = token.info.split() or [""]
            fences.append(Fence(language, frozenset(options), token.content, line + 1))
        elif token.type == "inline":
            if position and tokens[position - 1].type == "heading_open":
                name = anchor(token.content)
                names.add(f"{name}-{anchors[name]}" if anchors[name] else name)
                anchors[name] += 1
            for child in token.children or []:
                links += [(line, target) for target in targets(child)]
                spans += [(line, child.content)] if child.type == "code_inline" else []
        else:
            links += [(line, target) for target in targets(token)]
    return Page(path, tuple(fences), tuple(links), tuple(spans), frozenset(names))


def targets(token: Token) -> list[str]:
    """What a token links to: links, pictures, and the same written as HTML."""
    if token.type == "link_open":
        return [str(token.attrs["href"])]
    if token.type == "image":
        return [str(token.attrs["src"])]
    if token.type in {"html_inline", "html_block"}:
        return re.findall(r'(?:href|src)="([^"]*)"', token.content)
    return []


def broken_links(page: Page) -> list[str]:
    """Each link of the page to a file or heading that is not there."""
    found = []
    for line, link in page.links:
        if re.match(r"[a-z]+:", link):  # another site
            continue
        target, _, anchor = link.partition("#")
        path = page.path.parent / target if target else page.path
        if not path.exists():
            found.append(f"{page.name}:{line}: {link}: no such file")
        elif anchor and path.suffix == ".md" and anchor not in read(path).anchors:
            found.append(f"{page.name}:{line}: {link}: no such heading")
    return found


def pages() -> list[Page]:
    """Every Markdown file of the project."""
    return [read(path) for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]]
