"""The suite on Spark and beside its peers."""

from benchmarks.spark.suite import run

__all__ = ["run"]
