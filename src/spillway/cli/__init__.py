"""The command line."""

from spillway.cli.main import main

__all__ = ["main"]
