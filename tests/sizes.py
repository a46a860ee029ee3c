"""How much a test tries: what takes long is done in small by `make test`, and in full by `make test-long`."""

from __future__ import annotations

import os

IN_FULL = os.environ.get("HYPOTHESIS_PROFILE") in {"long", "explore"}


def size(small: int, full: int) -> int:
    """Return how many examples, salts or rows to take."""
    return full if IN_FULL else small
