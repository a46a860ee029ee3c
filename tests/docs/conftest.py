"""Pages that need Spark run on the session of tests/spark."""

from tests.spark.conftest import spark

__all__ = ["spark"]
