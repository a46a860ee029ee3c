"""What to shed: whole windows, so that every window that is delivered is exact."""

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
from spillway.core.windows.decisions import DropConfig, Drops, DropState

__all__ = [
    "Arrangement",
    "DropConfig",
    "DropState",
    "Drops",
    "FanOut",
    "Level",
    "Path",
    "Pipeline",
    "Window",
    "sliding",
    "tumbling",
]
