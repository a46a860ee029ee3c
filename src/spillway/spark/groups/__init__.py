"""Sheds rows by group on Spark: ``Spillway.groups``."""
