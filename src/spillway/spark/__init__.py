"""Spillway on Spark: the facade, the control row, the listener and the operators for each kind of work."""

from spillway.loop.status import Status
from spillway.spark.facade import Spillway

__all__ = ["Spillway", "Status"]
