"""Plots in one house style, drawn without a display and without matplotlib's global state.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder, panels(1, 1) as (figure, [axis]):
...     _ = axis.plot([0, 1], [0, 1], color=COLOURS["deadline"])
...     save(figure, Path(folder), "line")
['line.png', 'line.svg']
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spillway.errors import MissingExtraError, SpillwayError, invalid

COLOURS = {
    "deadline": "#009E73",
    "ctrl": "#0072B2",
    "baseline": "#E69F00",
    "aurora": "#D55E00",
    "fixed": "#CC79A7",
    "none": "#999999",
    "target": "#222222",
}
"""A colour for each controller, the same in every plot (Okabe and Ito's, safe for colour-blind readers)."""

CYCLE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
"""Colours for everything else."""

INK = "#222222"
WITH_SPILLWAY = "#0072B2"
"""What a query with Spillway is drawn in."""

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 120,
    "svg.hashsalt": "spillway",
    "svg.fonttype": "none",
}


# Nothing in a file that differs from one run to the next.
_METADATA: dict[str, dict[str, None]] = {".png": {"Software": None}, ".svg": {"Date": None}}


@contextmanager
def panels(
    rows: int, columns: int, *, width: float = 8.0, height: float = 2.8
) -> Iterator[tuple[Any, list[Any]]]:
    """Give a figure and its axes, row by row, in the house style; ``height`` is that of one row, in inches."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "Plots need matplotlib.", hint="pip install 'spillway-spark[tools]'"
        ) from error
    with matplotlib.rc_context({**_STYLE, "axes.prop_cycle": matplotlib.cycler(color=CYCLE)}):
        figure = Figure(figsize=(width, height * rows))
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def save(figure: Any, folder: Path, name: str) -> list[str]:
    """Write a figure as PNG and SVG and return the files' names; the same figure gives the same files."""
    names = [f"{name}.png", f"{name}.svg"]
    for file in names:
        save_as(figure, folder / file)
    return names


def check_name(path: Path) -> None:
    """Raise unless a plot can be written under this name."""
    if path.suffix.lower() not in _METADATA:
        raise invalid("plot", str(path), "a name that ends in " + " or ".join(_METADATA))


def save_as(figure: Any, path: Path) -> None:
    """Write a figure to one file, in the format that its name ends with."""
    check_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata=_METADATA[path.suffix.lower()])
    except OSError as error:
        raise SpillwayError(f"{path} cannot be written: {error.strerror or error}.") from error
