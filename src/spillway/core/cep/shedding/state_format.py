"""The state of a strategy as bytes; the state of another strategy, or of other classes, is refused."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from spillway.core.state.blob import BlobFormat
from spillway.errors import SpillwayError

FORMAT = BlobFormat(b"SPSHED", version=4, owner="a strategy that sheds patterns")


def read_state(state: bytes, strategy: str, shape: tuple[int, ...]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a snapshot, or raise if it belongs to another strategy or to other classes of runs."""
    meta, arrays = FORMAT.read(state)
    made, gain = meta["strategy"], arrays["model.gain"].shape
    if made != strategy or gain != shape:
        raise SpillwayError(
            f"state: made by {made!r} over {_words(gain)}, this is {strategy!r} over {_words(shape)}.",
            hint="restore with the same strategy and what it had learned, or start without a state",
        )
    return arrays


def _words(shape: tuple[int, ...]) -> str:
    return "{} states of {} classes in {} slices".format(*shape)
