"""Text files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from spillway.errors import SpillwayError


def write_atomically(path: Path | str, text: str) -> None:
    """Write a text file beside its place and move it there."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)  # as any other file: a page is made to be shown
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SpillwayError(f"{target} cannot be written: {error.strerror or error}.") from error
