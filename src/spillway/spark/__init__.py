"""Spillway on Spark: the control row, the feedback loop and one operator per kind of work."""

from spillway.spark.facade import Spillway
from spillway.spark.status import Status

__all__ = ["Spillway", "Status"]
