"""A process that does tasks: it reads one from its input, writes what came out to its output, until there is none."""

from __future__ import annotations

import pickle
import sys
from contextlib import redirect_stdout
from typing import Any, BinaryIO


def serve(given: BinaryIO, taken: BinaryIO) -> None:
    """Do tasks until the input ends; what goes wrong is an answer too."""
    while True:
        try:
            task = pickle.load(given)  # from the program that started this one
        except EOFError:
            return
        try:
            value: Any = task.run()
        except Exception as error:
            value = error
        pickle.dump(value, taken)
        taken.flush()


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):
        serve(sys.stdin.buffer, sys.__stdout__.buffer)  # type: ignore[union-attr, arg-type]
