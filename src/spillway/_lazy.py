"""What the package offers but loads only when it is first asked for: ``spillway.core`` works without Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOMES = {
    "Spillway": "spillway.spark",
    "Status": "spillway.spark",
    "equality": "spillway.core.join",
    "inner_product": "spillway.core.join",
    "overlap": "spillway.core.join",
    "sliding": "spillway.core.windows",
    "subset": "spillway.core.join",
    "superset": "spillway.core.join",
    "tumbling": "spillway.core.windows",
}
MODULES = {"estimate"}


def __getattr__(name: str) -> Any:
    """Return one of the lazy names; becomes the package's own ``__getattr__``."""
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    if name in MODULES:
        return import_module(f"spillway.{name}")
    raise AttributeError(f"module 'spillway' has no attribute {name!r}")
