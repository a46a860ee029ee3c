"""Keeps a Spark streaming query within its latency target during a burst by shedding the least important work."""

from typing import TYPE_CHECKING

from spillway._lazy import __getattr__ as __getattr__
from spillway._version import __version__
from spillway.errors import SpillwayError

if TYPE_CHECKING:
    from spillway import estimate
    from spillway.core.join import equality, inner_product, overlap, subset, superset
    from spillway.core.windows import sliding, tumbling
    from spillway.spark import Spillway, Status

__all__ = [
    "Spillway",
    "SpillwayError",
    "Status",
    "__version__",
    "equality",
    "estimate",
    "inner_product",
    "overlap",
    "sliding",
    "subset",
    "superset",
    "tumbling",
]
