"""``spillway``: one subcommand a module, each with ``add(subparsers)`` and a function that runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from spillway._version import __version__
from spillway.cli import bench, demo, simulate
from spillway.errors import SpillwayError

COMMANDS = (demo, bench, simulate)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="spillway",
        description="Hold a Spark streaming query's latency target through a burst by shedding the work that matters "
        "least.",
    )
    top.add_argument("--version", action="version", version=f"spillway {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 done, 2 a wrong request, 130 interrupted."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except SpillwayError as error:
        print(f"spillway {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"spillway {options.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe has seen enough
        return 0
    return status
