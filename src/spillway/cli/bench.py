"""``spillway bench SUITE``: run a paper's experiments and say what came out.

The benchmarks are no part of the installed package: they lie beside it in a clone, in the folder ``benchmarks``.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import spillway
from spillway.errors import SpillwayError, unknown

SUITES = ("control", "windows", "groups", "join", "cep", "spark")
"""One for each paper, and one for Spark and its peers."""


def add(commands: Any) -> None:
    """Add the subcommand to the command line."""
    parser = commands.add_parser(
        "bench",
        help="reproduce a paper's figures",
        description="Run a benchmark suite: the metrics, and each of the paper's figures beside ours.",
    )
    parser.add_argument("suite", metavar="SUITE", help=" or ".join(SUITES))
    parser.add_argument("--quick", action="store_true", help="a smaller run, at most a minute on two cores")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write metrics and figures to this file")
    parser.add_argument("--out", metavar="DIR", type=Path, help="draw the figures into this folder")
    parser.add_argument(
        "--neighbours", action="store_true", help="suite spark: only the burst beside a busy process"
    )
    parser.add_argument("--restart", action="store_true", help="suite spark: only the kill -9 in the burst")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the suite from the clone that this package belongs to."""
    if options.suite not in SUITES:
        raise unknown("suite", options.suite, SUITES)
    clone = clone_of(Path(spillway.__file__))
    # For the processes that a suite starts as well.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(clone), os.environ.get("PYTHONPATH")]))
    sys.path.insert(0, str(clone))
    status: int = import_module("benchmarks.runner").run(options)
    return status


def clone_of(package: Path) -> Path:
    """Return the folder of the clone in which a package file lies; raise where it is an installed one."""
    clone = package.resolve().parents[2]
    if not (clone / "benchmarks" / "runner.py").is_file():
        raise SpillwayError(
            "the benchmarks are no part of the installed package.",
            hint="clone the repository of spillway-spark and run `make bench SUITE=control` there",
        )
    return clone
