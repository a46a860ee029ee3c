"""``spillway bench SUITE``: run a paper's experiments and say what came out."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillway.bench.suites import Tell


def add(commands: Any) -> None:
    """Add the subcommand to the command line."""
    from spillway.bench.suites import available

    parser = commands.add_parser(
        "bench",
        help="reproduce a paper's figures",
        description="Run a benchmark suite: the metrics, and each of the paper's figures beside ours.",
    )
    parser.add_argument("suite", metavar="SUITE", help=" or ".join(available()))
    parser.add_argument("--quick", action="store_true", help="a smaller run, at most a minute on two cores")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write metrics and figures to this file")
    parser.add_argument("--out", metavar="DIR", type=Path, help="draw the figures into this folder")
    parser.add_argument(
        "--neighbours", action="store_true", help="suite spark: only the burst beside a busy process"
    )
    parser.add_argument("--restart", action="store_true", help="suite spark: only the kill -9 in the burst")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the suite, show its results and write what was asked for."""
    from rich.console import Console

    from spillway.bench import Request, suite
    from spillway.bench.suites import check_parts

    console = Console()
    chosen = suite(options.suite)
    parts = tuple(part for part in ("neighbours", "restart") if getattr(options, part))
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
def progress_bar(console: Any) -> Iterator[Tell]:
    """Give a function that tells a progress bar where a suite is; silent where nobody watches."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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


def show(console: Any, results: Any) -> None:
    """Print metrics and figures."""
    from rich.table import Table

    from spillway.bench.results import shown

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
