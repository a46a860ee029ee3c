"""Patterns on Spark: ``Spillway.match``."""
