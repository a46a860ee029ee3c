"""Spillway on Spark: the control row, the feedback loop and one operator per kind of work."""

from spillway.loop.status import Status
from spillway.spark.facade import Spillway

__all__ = ["Spillway", "Status"]
