"""Hold a Spark streaming query's latency target through a burst by shedding the work that matters least."""

from spillway._version import __version__
from spillway.errors import SpillwayError
from spillway.spark import Spillway, Status

__all__ = ["Spillway", "SpillwayError", "Status", "__version__"]
