"""Runs a suite for the command line: with a progress bar, and with its results on the screen and on disk."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.results import Results, shown
from benchmarks.suites import PARTS, Request, Tell, check_parts, suite


def run(options: argparse.Namespace) -> int:
    """Run the suite, show its results and write what was asked for."""
    console = Console()
    chosen = suite(options.suite)
    parts = tuple(part for part in PARTS["spark"] if getattr(options, part))
    check_parts(options.suite, parts)
    with progress_bar(console) as tell:
        results = chosen(Request(quick=options.quick, out=options.out, parts=parts, tell=tell))
    if options.json is not None:
        results.write(options.json)
    show(console, results)
    for what, path in (("results", options.json), ("plots", options.out)):
        if path is not None:
            console.print(f"{what}: {path}", highlight=False)
    return 0


@contextmanager
def progress_bar(console: Console) -> Iterator[Tell]:
    """Give a function that tells a progress bar where a suite is; silent where nobody watches."""
    with Progress(
        TextColumn("{task.description}", style="dim"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{what:<40.40}", completed=done, total=total)

        yield tell


def show(console: Console, results: Results) -> None:
    """Print metrics and figures."""
    metrics = Table(
        "metric", box=None, pad_edge=False, title=f"{results.suite}: metrics", title_justify="left"
    )
    metrics.add_column("value", justify="right")
    for name, value in results.metrics.items():
        metrics.add_row(name, shown(value))
    console.print(metrics, highlight=False)
    figures = Table(
        "figure",
        "shape",
        "paper",
        "here",
        title=f"{results.suite}: figures",
        title_justify="left",
        show_lines=True,
    )
    for name, figure in results.figures.items():
        figures.add_row(name, "holds" if figure.holds else "differs", figure.paper, figure.ours)
    if results.figures:
        console.print(figures, highlight=False)
    if recorded := results.config.get("recorded"):
        console.print(f"recorded arrivals: {recorded}", highlight=False)
    for file, reason in results.config.get("unusable_files", {}).items():
        console.print(f"not used: {file}: {reason}", highlight=False)
    console.print(f"{results.seconds:.1f} s, commit {results.commit or 'unknown'}", highlight=False)
