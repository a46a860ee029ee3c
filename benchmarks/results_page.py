"""A page about a benchmark: its metrics, and each figure beside what it should look like."""

from __future__ import annotations

import base64
from pathlib import Path

from benchmarks.results import Figure, Results, shown
from spillway._version import __version__
from spillway.report import page as html


def results_page(results: Results, folder: Path | None = None) -> str:
    """Return a self-contained HTML page; ``folder`` is where the figures' files are, None leaves them out."""
    parts = [
        html.heading("Metrics"),
        html.table(("metric", "value"), [(name, shown(value)) for name, value in results.metrics.items()]),
    ]
    for name, figure in results.figures.items():
        parts += [
            html.heading(f"{name}: {figure.title}"),
            html.table(
                ("", ""),
                [
                    ("expected", figure.paper),
                    ("here", figure.ours),
                    ("shape", "holds" if figure.holds else "differs"),
                ],
                text_columns=(0, 1),
            ),
            *_pictures(figure, folder),
        ]
    config = [(name, str(value)) for name, value in results.config.items()]
    parts += [
        html.details("Configuration", html.table(("setting", "value"), config, text_columns=(0, 1))),
        html.footer(
            f"Spillway {__version__}, commit {results.commit or 'unknown'}, {results.seconds:.0f} s. "
            "This page needs nothing but itself."
        ),
    ]
    return html.page(f"Benchmark: {results.suite}", *parts)


def _pictures(figure: Figure, folder: Path | None) -> list[str]:
    found = []
    for name in figure.files:
        if folder is not None and name.endswith(".png") and (folder / name).is_file():
            data = base64.b64encode((folder / name).read_bytes()).decode()
            image = f'<img style="max-width:100%;background:#fff" alt="" src="data:image/png;base64,{data}">'
            found.append(html.figure(image, figure.title))
    return found
