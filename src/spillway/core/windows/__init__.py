"""Selects whole windows to shed, so that every window that is delivered is exact."""

from spillway.core.windows.arrangement import (
    Arrangement,
    FanOut,
    Level,
    Path,
    Pipeline,
    Window,
    sliding,
    tumbling,
)
from spillway.core.windows.decisions import DropConfig, DropLog, Drops, DropState
from spillway.core.windows.reach import Reach, Stamp, reach, reach_of
from spillway.core.windows.run import run

__all__ = [
    "Arrangement",
    "DropConfig",
    "DropLog",
    "DropState",
    "Drops",
    "FanOut",
    "Level",
    "Path",
    "Pipeline",
    "Reach",
    "Stamp",
    "Window",
    "reach",
    "reach_of",
    "run",
    "sliding",
    "tumbling",
]
