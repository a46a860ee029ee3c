"""Loads the package's public names only when they are first used, so that ``spillway.core`` works without Spark."""

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
    """Return one of the lazy names. The package uses this function as its own ``__getattr__``."""
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    if name in MODULES:
        return import_module(f"spillway.{name}")
    raise AttributeError(f"module 'spillway' has no attribute {name!r}")
