"""Joins two streams on Spark: ``Spillway.join``."""
