"""Groups on Spark: ``Spillway.groups``."""
