"""Joins on Spark: ``Spillway.join``."""
