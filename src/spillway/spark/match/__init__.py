"""Finds patterns in a stream on Spark: ``Spillway.match``."""
