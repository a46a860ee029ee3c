"""Plots that follow the reader's light or dark mode.

matplotlib writes fixed colours into an SVG. :func:`inline` turns each colour of the house style into a CSS
variable of the page, and :func:`standalone` brings the variables along, for pictures that are shown by
themselves. Text stays text, in the reader's own sans-serif.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any, Final

FONTS: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# The colour in the plot, the variable it becomes, and what that is in light and in dark mode. The pairs that
# stand for variants are of Okabe and Ito's set, lightened for a dark ground.
_PALETTE: Final = (
    ("#222222", "ink", "#1f2328", "#e6edf3"),
    ("#000000", "ink", "#1f2328", "#e6edf3"),
    ("#777777", "muted", "#59636e", "#9198a1"),
    ("#dddddd", "grid", "#dfe3e8", "#30363d"),
    ("#888888", "shade", "#818b98", "#818b98"),
    ("#d55e00", "plain", "#c85200", "#ff9248"),
    ("#e69f00", "capped", "#b97f00", "#f2c14e"),
    ("#0072b2", "spillway", "#0068a8", "#58b1f0"),
    ("#ffffff", "paper", "#ffffff", "#0d1117"),
)

LIGHT: Final = {variable: light for _, variable, light, _ in _PALETTE}
DARK: Final = {variable: dark for _, variable, _, dark in _PALETTE}


def variables(colours: dict[str, str]) -> str:
    """Return the CSS declarations of one mode."""
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def inline(figure: Any, description: str) -> str:
    """Return a figure as an SVG element for the inside of a page; the description is read out to the blind."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[a-z]\w*_\d+"', "", svg)  # ids that nothing refers to would repeat on the page
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"([^>]*?) width="[^"]*"', r"\1\2", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"([^>]*?) height="[^"]*"', r"\1\2", svg, count=1)
    svg = re.sub(r"<svg ", f'<svg role="img" aria-label="{escape(description, quote=True)}" ', svg, count=1)
    svg = svg.replace("'DejaVu Sans'", FONTS)
    for colour, variable, *_ in _PALETTE:
        svg = re.sub(rf"{colour}(?![0-9a-fA-F])", f"var(--{variable})", svg, flags=re.IGNORECASE)
    return svg.strip()


def standalone(figure: Any, description: str) -> str:
    """Return a figure as an SVG file that has both modes in itself."""
    css = (
        f"svg {{ {variables(LIGHT)} background: var(--paper); }} text {{ fill: var(--ink); }} "
        f"@media (prefers-color-scheme: dark) {{ svg {{ {variables(DARK)} }} }}"
    )
    svg = inline(figure, description)
    head, rest = svg.split(">", maxsplit=1)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>\n<style>{css}</style>{rest}\n'
